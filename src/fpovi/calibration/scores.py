# SPDX-License-Identifier: Apache-2.0
"""How good predictions are on held-out data, in one number each.

Every score takes a :class:`~fpovi.predictive.Predictive` and y in the target's own units, and is computed in float64.
Rows count by ``sample_weight``, alike by default; several targets are averaged, each counting alike, except in ``nll``.
"""

import numpy as np
from scipy.stats import mannwhitneyu

from fpovi.calibration.rows import (
    answer,
    average,
    class_probs,
    labels_only,
    log_prob,
    mean,
    numbers_only,
    row_weights,
    targets,
)
from fpovi.predictive import Predictive
from fpovi.types import Numbers


def nll(predictive: Predictive, y: Numbers, sample_weight: Numbers | None = None) -> float:
    r""":math:`-\log \frac1n \sum_i p(y \mid f_i)` in nats, the mean over rows; a row's targets are taken together."""
    y = targets(predictive, y)
    return average(-answer(predictive, log_prob, y), sample_weight)


def rmse(predictive: Predictive, y: Numbers, sample_weight: Numbers | None = None) -> float:
    """The root of the mean squared error of ``predictive.mean``, target by target, and the mean of these."""
    numbers_only(predictive, "rmse")
    y = targets(predictive, y)
    squared = (answer(predictive, mean) - y) ** 2
    return float(np.mean(np.sqrt(row_weights(sample_weight, len(y)) @ squared)))


def accuracy(predictive: Predictive, y: Numbers, sample_weight: Numbers | None = None) -> float:
    """The share of targets whose class is the most probable one."""
    labels_only(predictive, "accuracy")
    y = targets(predictive, y)
    return average(class_probs(predictive).argmax(axis=-1) == y, sample_weight)


def brier(predictive: Predictive, y: Numbers, sample_weight: Numbers | None = None) -> float:
    r"""The mean of :math:`\sum_k (p_k - 1[y = k])^2`, from 0 to 2; for 0 or 1 (bernoulli) :math:`(p - y)^2`."""
    labels_only(predictive, "brier")
    y = targets(predictive, y)
    probs = class_probs(predictive)
    squared = np.sum((probs - (np.arange(probs.shape[-1]) == y[..., None])) ** 2, axis=-1)
    return average(squared / 2 if predictive.likelihood.binary else squared, sample_weight)


def ood_auroc(score_in: Numbers, score_out: Numbers) -> float:
    """The probability that an input from outside scores above one from inside; ties count one half.

    Scores may be any that should be higher outside, like ``entropy``, ``mutual_information`` or ``epistemic_std``.
    Half is chance, one a perfect separation.

    >>> ood_auroc([0.1, 0.2], [0.2, 0.9])
    0.875
    """
    inside, outside = np.asarray(score_in, np.float64), np.asarray(score_out, np.float64)
    for name, scores in (("score_in", inside), ("score_out", outside)):
        if scores.ndim != 1 or scores.size == 0:
            raise ValueError(f"{name} has shape {scores.shape}, but one score per input is needed, and at least one")
        if np.any(np.isnan(scores)):
            raise ValueError(f"{name} has {np.sum(np.isnan(scores))} values that are not numbers")
    wins = mannwhitneyu(outside, inside, method="asymptotic").statistic
    return float(wins / (inside.size * outside.size))
