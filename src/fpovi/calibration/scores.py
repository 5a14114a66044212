# SPDX-License-Identifier: Apache-2.0
"""Scores of predictions on held-out data, one number each.

Every score takes a :class:`~fpovi.predictive.Predictive` and y in the target's own units, and is computed in float64.
All rows count equally unless ``sample_weight`` says otherwise, and so do several targets, except in ``nll``.
"""

import numpy as np

from fpovi.calibration.crps import crps
from fpovi.calibration.held_out import (
    checked_targets,
    class_probs,
    compute_in_float64,
    log_prob,
    mean,
    normalised_weights,
    refuse_classes,
    require_classes,
    weighted_mean,
)
from fpovi.calibration.reliability import coverage, ece, sharpness
from fpovi.predictive import Predictive
from fpovi.types import Numbers, Support

LEVEL = 0.95


def evaluate(predictive: Predictive, y: Numbers, sample_weight: Numbers | None = None) -> dict[str, float]:
    """Compute all scores that fit the likelihood.

    Args:
        predictive: what was predicted for B rows.
        y: targets ``(B, m)`` in their own units, ``(B,)`` for one target; for classes, integers.
        sample_weight: weights ``(B,)`` of the rows; equal by default.

    Returns:
        For classes and 0 or 1: ``nll``, ``accuracy``, ``brier``, ``ece``. For numbers and counts: ``nll``, ``rmse``,
        ``crps``, ``coverage_95``, ``width_95``.

    >>> import jax.numpy as jnp
    >>> from fpovi.likelihoods import categorical
    >>> sure = Predictive(categorical(), jnp.log(jnp.asarray([[[0.75, 0.25]]])), (), jnp.zeros(()), jnp.ones(()))
    >>> {name: round(value, 3) for name, value in evaluate(sure, [0]).items()}
    {'nll': 0.288, 'accuracy': 1.0, 'brier': 0.125, 'ece': 0.25}
    """
    if predictive.likelihood.support.labels:
        return {
            "nll": nll(predictive, y, sample_weight),
            "accuracy": accuracy(predictive, y, sample_weight),
            "brier": brier(predictive, y, sample_weight),
            "ece": ece(predictive, y, sample_weight=sample_weight),
        }
    return {
        "nll": nll(predictive, y, sample_weight),
        "rmse": rmse(predictive, y, sample_weight),
        "crps": crps(predictive, y, sample_weight),
        "coverage_95": float(coverage(predictive, y, [LEVEL], sample_weight)[0]),
        "width_95": sharpness(predictive, LEVEL, sample_weight),
    }


def nll(predictive: Predictive, y: Numbers, sample_weight: Numbers | None = None) -> float:
    r"""Return :math:`-\log \frac1n \sum_i p(y \mid f_i)` in nats, the mean over rows.

    Args:
        predictive: what was predicted for B rows.
        y: targets ``(B, m)`` in their own units; those of a row are taken together.
        sample_weight: weights ``(B,)`` of the rows; equal by default.
    """
    y = checked_targets(predictive, y)
    return weighted_mean(-compute_in_float64(predictive, log_prob, y), sample_weight)


def rmse(predictive: Predictive, y: Numbers, sample_weight: Numbers | None = None) -> float:
    """Return the root of the mean squared error of ``predictive.mean``, target by target, and the mean of these.

    Args:
        predictive: what was predicted for B rows; numbers, counts, or 0 and 1.
        y: targets ``(B, m)`` in their own units.
        sample_weight: weights ``(B,)`` of the rows; equal by default.
    """
    refuse_classes(predictive, "rmse")
    y = checked_targets(predictive, y)
    squared = (compute_in_float64(predictive, mean) - y) ** 2
    return float(np.mean(np.sqrt(normalised_weights(sample_weight, len(y)) @ squared)))


def accuracy(predictive: Predictive, y: Numbers, sample_weight: Numbers | None = None) -> float:
    """Return the share of targets whose class is the most probable one.

    Args:
        predictive: what was predicted for B rows; classes, or 0 and 1.
        y: classes ``(B,)`` as integers, or 0 and 1 ``(B, m)``.
        sample_weight: weights ``(B,)`` of the rows; equal by default.
    """
    require_classes(predictive, "accuracy")
    y = checked_targets(predictive, y)
    return weighted_mean(class_probs(predictive).argmax(axis=-1) == y, sample_weight)


def brier(predictive: Predictive, y: Numbers, sample_weight: Numbers | None = None) -> float:
    r"""Return the mean of :math:`\sum_k (p_k - 1[y = k])^2`, from 0 to 2; for 0 or 1 (bernoulli) :math:`(p - y)^2`.

    Args:
        predictive: what was predicted for B rows; classes, or 0 and 1.
        y: classes ``(B,)`` as integers, or 0 and 1 ``(B, m)``.
        sample_weight: weights ``(B,)`` of the rows; equal by default.
    """
    require_classes(predictive, "brier")
    y = checked_targets(predictive, y)
    probs = class_probs(predictive)
    squared = np.sum((probs - (np.arange(probs.shape[-1]) == y[..., None])) ** 2, axis=-1)
    return weighted_mean(squared / 2 if predictive.likelihood.support is Support.BINARY else squared, sample_weight)
