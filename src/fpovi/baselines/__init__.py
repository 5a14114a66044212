# SPDX-License-Identifier: Apache-2.0
"""Other people's methods, on the same networks, priors and likelihoods.

All of :data:`BASELINES` are called alike, ``method(key, network, likelihood, data, num_steps=…, n=…)``, and return a
state whose particles :func:`fpovi.predict` takes.
"""

from collections.abc import Callable

from fpovi.baselines.dropout import mc_dropout
from fpovi.baselines.mean_field import ScaleMixture, bayes_by_backprop
from fpovi.baselines.nuts import NutsDraws, nuts
from fpovi.baselines.optimisation import map_ensemble
from fpovi.baselines.sghmc import sghmc
from fpovi.types import State

BASELINES: dict[str, Callable[..., State]] = {
    "map_ensemble": map_ensemble,
    "mc_dropout": mc_dropout,
    "bayes_by_backprop": bayes_by_backprop,
    "sghmc": sghmc,
}

__all__ = ["BASELINES", "NutsDraws", "ScaleMixture", "bayes_by_backprop", "map_ensemble", "mc_dropout", "nuts", "sghmc"]
