# SPDX-License-Identifier: Apache-2.0
"""The scores that fit a likelihood, together."""

from fpovi.calibration.crps import crps
from fpovi.calibration.reliability import coverage, ece, sharpness
from fpovi.calibration.scores import accuracy, brier, nll, rmse
from fpovi.predictive import Predictive
from fpovi.types import Numbers

LEVEL = 0.95


def evaluate(predictive: Predictive, y: Numbers, sample_weight: Numbers | None = None) -> dict[str, float]:
    """Classes and 0 or 1: nll, accuracy, brier, ece. Numbers and counts: nll, rmse, crps, coverage_95, width_95.

    >>> import jax.numpy as jnp
    >>> from fpovi.likelihoods import categorical
    >>> sure = Predictive(categorical(), jnp.log(jnp.asarray([[[0.75, 0.25]]])), (), jnp.zeros(()), jnp.ones(()))
    >>> {name: round(value, 3) for name, value in evaluate(sure, [0]).items()}
    {'nll': 0.288, 'accuracy': 1.0, 'brier': 0.125, 'ece': 0.25}
    """
    given = (predictive, y)
    if predictive.likelihood.classes or predictive.likelihood.binary:
        return {
            "nll": nll(*given, sample_weight),
            "accuracy": accuracy(*given, sample_weight),
            "brier": brier(*given, sample_weight),
            "ece": ece(*given, sample_weight=sample_weight),
        }
    return {
        "nll": nll(*given, sample_weight),
        "rmse": rmse(*given, sample_weight),
        "crps": crps(*given, sample_weight),
        "coverage_95": float(coverage(*given, [LEVEL], sample_weight)[0]),
        "width_95": sharpness(predictive, LEVEL, sample_weight),
    }
