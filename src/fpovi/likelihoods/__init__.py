# SPDX-License-Identifier: Apache-2.0
r"""Likelihoods p(y | f), for one particle: f is ``(B, k)``, y ``(B, m)``, and so is every density.

Targets may be whole numbers; what is computed has the dtype of f.
"""

from collections.abc import Callable

from fpovi.likelihoods.discrete import bernoulli, categorical, poisson
from fpovi.likelihoods.mixture import mixture
from fpovi.likelihoods.noise import Floored, inverse_gamma_log_prob
from fpovi.likelihoods.real import gaussian, heteroscedastic, student_t
from fpovi.types import Likelihood

LIKELIHOODS: dict[str, Callable[..., Likelihood]] = {
    "gaussian": gaussian,
    "heteroscedastic": heteroscedastic,
    "student_t": student_t,
    "mixture": mixture,
    "categorical": categorical,
    "bernoulli": bernoulli,
    "poisson": poisson,
}

__all__ = [
    "LIKELIHOODS",
    "Floored",
    "bernoulli",
    "categorical",
    "gaussian",
    "heteroscedastic",
    "inverse_gamma_log_prob",
    "mixture",
    "poisson",
    "student_t",
]
