# SPDX-License-Identifier: Apache-2.0
"""Priors over functions: the score of p(f(x)) at any finite set of inputs."""

from collections.abc import Callable

from fpovi.priors.flat import flat
from fpovi.priors.gaussian_process import gaussian_process
from fpovi.priors.moment_matched import moment_matched
from fpovi.priors.nngp import nngp, nngp_covariance
from fpovi.priors.on_weights import on_weights
from fpovi.priors.sampled_gp import sampled_gp
from fpovi.priors.ssge import ssge
from fpovi.priors.width_aware import width_aware
from fpovi.types import FunctionPrior

PRIORS: dict[str, Callable[..., FunctionPrior]] = {
    "moment_matched": moment_matched,
    "gaussian_process": gaussian_process,
    "nngp": nngp,
    "sampled_gp": sampled_gp,
    "ssge": ssge,
    "width_aware": width_aware,
    "flat": flat,
}

__all__ = [
    "PRIORS",
    "flat",
    "gaussian_process",
    "moment_matched",
    "nngp",
    "nngp_covariance",
    "on_weights",
    "sampled_gp",
    "ssge",
    "width_aware",
]
