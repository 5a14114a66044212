# SPDX-License-Identifier: Apache-2.0
"""Compare stated probabilities with frequencies, for classes and for intervals."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fpovi.calibration.held_out import (
    Array64,
    cdf,
    checked_targets,
    class_probs,
    compute_in_float64,
    normalised_weights,
    refuse_classes,
    require_classes,
    weighted_mean,
)
from fpovi.predictive import Predictive
from fpovi.types import Key, Numbers


class Reliability(NamedTuple):
    """Predictions sorted into bins by confidence.

    Args:
        edges: ``(bins + 1,)``, from 0 to 1.
        confidence: mean confidence of each bin, NaN if it is empty.
        accuracy: mean accuracy of each bin, NaN if it is empty.
        share: weight of each bin; all sum to 1.
    """

    edges: Array64
    confidence: Array64
    accuracy: Array64
    share: Array64


def reliability(
    predictive: Predictive, y: Numbers, bins: int = 15, sample_weight: Numbers | None = None
) -> Reliability:
    """Return mean confidence and accuracy of the most probable class, in ``bins`` of equal width.

    Confidence is the probability of that class, and a bin holds its upper edge. Several 0-or-1 targets are pooled.

    Args:
        predictive: what was predicted for B rows; classes, or 0 and 1.
        y: classes ``(B,)`` as integers, or 0 and 1 ``(B, m)``.
        bins: number of bins, at least 1.
        sample_weight: weights ``(B,)`` of the rows; equal by default.
    """
    require_classes(predictive, "reliability")
    if bins < 1:
        raise ValueError(f"bins={bins} must be at least 1")
    y = checked_targets(predictive, y)
    probs = class_probs(predictive)
    confidence, right = probs.max(axis=-1), probs.argmax(axis=-1) == y
    weight = np.broadcast_to(normalised_weights(sample_weight, len(y))[:, None] / y.shape[1], y.shape)
    edges = np.linspace(0, 1, bins + 1)
    # the inner edges alone: rounding may put a sum of probabilities a hair above 1
    which = np.searchsorted(edges[1:-1], confidence.ravel())
    share, *sums = (
        np.asarray(np.bincount(which, (weight * values).ravel(), minlength=bins), np.float64)
        for values in (np.ones_like(confidence), confidence, right)
    )
    means = [np.divide(total, share, out=np.full(bins, np.nan), where=share > 0) for total in sums]
    return Reliability(edges, means[0], means[1], share)


def ece(predictive: Predictive, y: Numbers, bins: int = 15, sample_weight: Numbers | None = None) -> float:
    r"""Return the expected calibration error over the bins of :func:`reliability`.

    .. math:: \sum_b \text{share}_b\,|\text{accuracy}_b - \text{confidence}_b|

    It is biased upwards where bins hold few rows: compare at equal size only.

    Args:
        predictive: what was predicted for B rows; classes, or 0 and 1.
        y: classes ``(B,)`` as integers, or 0 and 1 ``(B, m)``.
        bins: number of bins, at least 1.
        sample_weight: weights ``(B,)`` of the rows; equal by default.
    """
    found = reliability(predictive, y, bins, sample_weight)
    return float(np.nansum(found.share * np.abs(found.accuracy - found.confidence)))


def ece_range(
    predictive: Predictive, key: Key, bins: int = 15, level: float = 0.95, draws: int = 1000
) -> tuple[float, float]:
    """Return the range of :func:`ece` that a calibrated model with these very probabilities has with ``level``.

    Where its most probable classes are right as often as it says, on so many rows, chance alone leaves that much.

    Args:
        predictive: what was predicted for B rows; classes, or 0 and 1.
        key: decides which rows are right in each draw.
        bins: number of bins, as in :func:`ece`.
        level: probability of the range, strictly between 0 and 1.
        draws: how often rows are drawn.

    Returns:
        The lower and the upper end.
    """
    require_classes(predictive, "ece_range")
    confidence = class_probs(predictive).max(axis=-1).ravel()
    which = np.searchsorted(np.linspace(0, 1, bins + 1)[1:-1], confidence)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    errors = []
    for _ in range(draws):
        right = rng.random(len(confidence)) < confidence
        errors.append(np.abs(np.bincount(which, right - confidence, minlength=bins)).sum() / len(confidence))
    low, high = np.quantile(errors, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def coverage(
    predictive: Predictive, y: Numbers, levels: Sequence[float] | Array64, sample_weight: Numbers | None = None
) -> Array64:
    """Return the share of targets inside the central interval of each level, ends included.

    The intervals of counts hold at least their level, since whole numbers cannot be cut.

    Args:
        predictive: what was predicted for B rows; anything but classes.
        y: targets ``(B, m)`` in their own units.
        levels: probabilities inside the intervals, each strictly between 0 and 1.
        sample_weight: weights ``(B,)`` of the rows; equal by default.

    Returns:
        One share for each level.
    """
    refuse_classes(predictive, "coverage")
    y = checked_targets(predictive, y)

    intervals = compute_in_float64(predictive, lambda p: [p.interval(level) for level in levels])
    return np.array([weighted_mean((low <= y) & (y <= high), sample_weight) for low, high in intervals])


def sharpness(predictive: Predictive, level: float = 0.95, sample_weight: Numbers | None = None) -> float:
    """Return the mean width of the central interval of ``level``, in the targets' units: narrow is good, if it covers.

    Args:
        predictive: what was predicted for B rows; anything but classes.
        level: probability inside the interval, strictly between 0 and 1.
        sample_weight: weights ``(B,)`` of the rows; equal by default.
    """
    refuse_classes(predictive, "sharpness")
    low, high = compute_in_float64(predictive, lambda p: p.interval(level))
    return weighted_mean(high - low, sample_weight)


def pit(predictive: Predictive, y: Numbers, key: Key | None = None) -> Array64:
    r"""Return the probability integral transform :math:`F(y)`: uniform if the predictive distribution is right.

    For counts and 0 or 1 it is drawn uniformly between :math:`F(y - 1)` and :math:`F(y)`.

    Args:
        predictive: what was predicted for B rows; anything but classes.
        y: targets ``(B, m)`` in their own units.
        key: a key of ``jax.random``, needed for counts and 0 or 1 only.

    Returns:
        Numbers between 0 and 1, ``(B, m)``.
    """
    refuse_classes(predictive, "pit")
    y = checked_targets(predictive, y)
    upper: Array64 = compute_in_float64(predictive, cdf, y)
    if not predictive.likelihood.support.atoms:
        return upper
    if key is None:
        raise ValueError("key=None, but for whole numbers the transform is random: give a key")
    lower = compute_in_float64(predictive, cdf, y - 1)
    share = compute_in_float64(predictive, lambda p: jax.random.uniform(key, y.shape, jnp.float64))
    return lower + share * (upper - lower)
