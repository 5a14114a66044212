# SPDX-License-Identifier: Apache-2.0
"""Do stated probabilities come true? Frequencies beside confidences, for classes and for intervals."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fpovi.calibration.rows import (
    Array64,
    answer,
    average,
    cdf,
    class_probs,
    labels_only,
    numbers_only,
    row_weights,
    targets,
)
from fpovi.predictive import Predictive
from fpovi.types import Key, Numbers


class Reliability(NamedTuple):
    """Predictions sorted into bins by confidence; ``share`` sums to 1, and an empty bin has NaN for its means."""

    edges: Array64
    confidence: Array64
    accuracy: Array64
    share: Array64


def reliability(
    predictive: Predictive, y: Numbers, bins: int = 15, sample_weight: Numbers | None = None
) -> Reliability:
    """Mean confidence and accuracy of the most probable class, in ``bins`` of equal width.

    Confidence is the probability of that class, and a bin holds its upper edge. Several 0-or-1 targets are pooled.
    """
    labels_only(predictive, "reliability")
    if bins < 1:
        raise ValueError(f"bins={bins} must be at least 1")
    y = targets(predictive, y)
    probs = class_probs(predictive)
    confidence, right = probs.max(axis=-1), probs.argmax(axis=-1) == y
    weight = np.broadcast_to(row_weights(sample_weight, len(y))[:, None] / y.shape[1], y.shape)
    edges = np.linspace(0, 1, bins + 1)
    # rounding may put a sum of probabilities a hair above 1
    which = np.minimum(np.searchsorted(edges, confidence.ravel(), side="left") - 1, bins - 1)
    share, *sums = (
        np.asarray(np.bincount(which, (weight * values).ravel(), minlength=bins), np.float64)
        for values in (np.ones_like(confidence), confidence, right)
    )
    means = [np.divide(total, share, out=np.full(bins, np.nan), where=share > 0) for total in sums]
    return Reliability(edges, means[0], means[1], share)


def ece(predictive: Predictive, y: Numbers, bins: int = 15, sample_weight: Numbers | None = None) -> float:
    r"""Expected calibration error: :math:`\sum_b \text{share}_b\,|\text{accuracy}_b - \text{confidence}_b|`.

    Over the bins of :func:`reliability`. It is biased upwards where bins hold few rows: compare at equal size only.
    """
    found = reliability(predictive, y, bins, sample_weight)
    return float(np.nansum(found.share * np.abs(found.accuracy - found.confidence)))


def coverage(
    predictive: Predictive, y: Numbers, levels: Sequence[float] | Array64, sample_weight: Numbers | None = None
) -> Array64:
    """The share of targets inside the central interval of each level, ends included.

    The intervals of counts hold at least their level, since whole numbers cannot be cut.
    """
    numbers_only(predictive, "coverage")
    y = targets(predictive, y)

    intervals = answer(predictive, lambda p: [p.interval(level) for level in levels])
    return np.array([average((low <= y) & (y <= high), sample_weight) for low, high in intervals])


def sharpness(predictive: Predictive, level: float = 0.95, sample_weight: Numbers | None = None) -> float:
    """The mean width of the central interval of ``level``, in the target's units: narrow is good, if it covers."""
    numbers_only(predictive, "sharpness")
    low, high = answer(predictive, lambda p: p.interval(level))
    return average(high - low, sample_weight)


def pit(predictive: Predictive, y: Numbers, key: Key | None = None) -> Array64:
    r"""Probability integral transform, ``(B, m)``: uniform on [0, 1] where the predictive distribution is right.

    It is :math:`F(y)`. For counts and 0 or 1 it is drawn uniformly between :math:`F(y - 1)` and :math:`F(y)`,
    which needs a ``key``.
    """
    numbers_only(predictive, "pit")
    y = targets(predictive, y)
    upper: Array64 = answer(predictive, cdf, y)
    if not predictive.likelihood.discrete:
        return upper
    if key is None:
        raise ValueError("key=None, but for whole numbers the transform is random: give a key")
    lower = answer(predictive, cdf, y - 1)
    share = answer(predictive, lambda p: jax.random.uniform(key, y.shape, jnp.float64))
    return lower + share * (upper - lower)
