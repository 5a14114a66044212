# SPDX-License-Identifier: Apache-2.0
"""The method ``fpovi`` of the preset ``best``: our estimator with the paper's networks and number of particles."""

from typing import Any

from fpovi.data.uci import Split
from fpovi.estimators import BNNRegressor
from fpovi.experiments.uci_learners import PARTICLES
from fpovi.predictive import Predictive

# All that differs from the estimator's defaults, beside the networks. Nothing so far: scales by the evidence, a trial
# of them, warm-up, then gfsf.
SETTINGS: dict[str, Any] = {}


def estimator(seed: int, hidden: tuple[int, ...]) -> BNNRegressor:
    """Not yet fitted."""
    return BNNRegressor(hidden_layer_sizes=hidden, n_particles=PARTICLES, random_state=seed, **SETTINGS)


def answer(seed: int, hidden: tuple[int, ...], split: Split) -> Predictive:
    """What it says of the test rows."""
    return estimator(seed, hidden).fit(split.x_train, split.y_train).predict_dist(split.x_test)
