# SPDX-License-Identifier: Apache-2.0
"""Split-conformal prediction: coverage that holds whatever the model, if old and new rows are exchangeable."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fpovi.calibration.held_out import Array64, checked_targets, class_probs, compute_in_float64, mean_and_std
from fpovi.predictive import Predictive
from fpovi.types import Numbers

ClassScore = Callable[[Array64], Array64]
ROUNDING = 1e-9


def aps(probs: Array64) -> Array64:
    """Score every class by its probability and that of all more probable ones.

    Args:
        probs: class probabilities ``(B, k)``.

    Returns:
        Scores ``(B, k)``; high for classes that would be a surprise.

    Sets grow where the model is unsure, and are larger on average than those of :func:`lac`. Romano, Sesia and Candès
    (2020), "Classification with valid and adaptive coverage", without randomisation; ties in the order of classes.

    >>> aps(np.array([[0.25, 0.5, 0.25]]))
    array([[0.75, 0.5 , 1.  ]])
    """
    order = np.argsort(-probs, axis=-1, kind="stable")
    total = np.cumsum(np.take_along_axis(probs, order, axis=-1), axis=-1)
    return np.take_along_axis(total, np.argsort(order, axis=-1), axis=-1)


def lac(probs: Array64) -> Array64:
    """Score every class by one less its probability. Sets are the smallest on average.

    Args:
        probs: class probabilities ``(B, k)``.

    Returns:
        Scores ``(B, k)``; high for classes that would be a surprise.

    Sadinle, Lei and Wasserman (2019), "Least ambiguous set-valued classifiers with bounded error levels".
    """
    return 1 - probs


class Conformal(NamedTuple):
    """Intervals and sets calibrated by :func:`conformal`.

    Args:
        threshold: the calibrated quantile of the scores, one for each of m targets.
        level: probability with which a new target is covered.
        score: for classes, the function that scored them; for numbers, None.
    """

    threshold: Array64
    level: float
    score: ClassScore | None

    def interval(self, predictive: Predictive) -> tuple[Array64, Array64]:
        """Return mean ± threshold · std, which holds each target with probability at least ``level``.

        Args:
            predictive: what the same model predicts for B new rows.

        Returns:
            ``(lower, upper)``, each ``(B, m)``.
        """
        if self.score is not None:
            raise ValueError("these were calibrated on classes: see sets")
        mean, std = _mean_and_std(predictive)
        if mean.shape[1] != self.threshold.size:
            raise ValueError(f"predictive has {mean.shape[1]} targets, but {self.threshold.size} were calibrated")
        return mean - self.threshold * std, mean + self.threshold * std

    def sets(self, predictive: Predictive) -> NDArray[np.bool_]:
        """Return sets of classes that hold the true one with probability at least ``level``.

        The most probable class is in every set, so that none is empty.

        Args:
            predictive: what the same model predicts for B new rows.

        Returns:
            ``(B, k)``, true for the classes in a row's set.
        """
        if self.score is None:
            raise ValueError("these were calibrated on numbers: see interval")
        probs = _single_target_probs(predictive)
        return (self.score(probs) <= self.threshold) | (probs == probs.max(axis=-1, keepdims=True))


def conformal(predictive: Predictive, y: Numbers, level: float = 0.9, score: ClassScore = lac) -> Conformal:
    r"""Calibrate on n held-out rows, used for nothing else, so that new rows are covered with probability ``level``.

    The threshold is the :math:`\lceil (n+1)\,\text{level} \rceil`-th smallest of the rows' scores, which are
    :math:`|y - \text{mean}|/\text{std}` for numbers and counts, target by target, and ``score`` (:func:`lac`,
    :func:`aps` or any function of the probabilities) for classes and a single 0-or-1 target. Coverage is on average
    over rows (marginal), for each target on its own; given these calibration rows it follows the law
    :math:`\mathrm{Beta}(j, n + 1 - j)`, where j is the rank above.

    Args:
        predictive: what was predicted for the n calibration rows.
        y: their targets ``(n, m)`` in their own units; for classes, integers ``(n,)``.
        level: probability of coverage, strictly between 0 and 1; high levels need many rows.
        score: how surprising each class is, from probabilities ``(n, k)`` to ``(n, k)``; unused for numbers.

    Raises:
        ValueError: if n is too small for ``level``, with the number of rows that is needed.
    """
    if not 0 < level < 1:
        raise ValueError(f"level={level} must lie strictly between 0 and 1")
    y = checked_targets(predictive, y)
    rank = math.ceil((len(y) + 1) * level - ROUNDING)
    if rank > len(y):
        needed = math.ceil(level / (1 - level) - ROUNDING)
        raise ValueError(f"{len(y)} calibration rows are too few for level={level}: at least {needed} are needed")
    if predictive.likelihood.support.labels:
        each = np.take_along_axis(score(_single_target_probs(predictive)), y.astype(np.int64), axis=-1)
        return Conformal(np.sort(each, axis=0)[rank - 1], level, score)
    mean, std = _mean_and_std(predictive)
    return Conformal(np.sort(np.abs(y - mean) / std, axis=0)[rank - 1], level, None)


def _mean_and_std(predictive: Predictive) -> tuple[Array64, Array64]:
    if predictive.likelihood.support.labels:
        raise ValueError("predictive is for classes, but these were calibrated on numbers")
    return compute_in_float64(predictive, mean_and_std)


def _single_target_probs(predictive: Predictive) -> Array64:
    """Class probabilities ``(B, k)``."""
    if not predictive.likelihood.support.labels:
        raise ValueError("predictive is for numbers, but these were calibrated on classes")
    probs = class_probs(predictive)
    if probs.shape[1] != 1:
        raise ValueError(f"predictive has {probs.shape[1]} targets, but sets are for one: calibrate them one by one")
    return probs[:, 0]
