# SPDX-License-Identifier: Apache-2.0
"""Weighted statistics of one column, where a weight of 2 means exactly: this row twice.

Exactly, to the last bit: :func:`tally` counts the distinct values first, and what follows sees only the tally.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from fpovi.types import Numbers

ROUNDING = 10 * np.finfo(np.float64).eps


class Moments(NamedTuple):
    """Mean, standard deviation and kurtosis (3 for a Gaussian); ``varies`` is False for a constant up to rounding."""

    mean: float
    std: float
    kurtosis: float
    varies: bool


def check_weight(weight: Numbers | None, rows: int) -> Float[np.ndarray, " N"]:
    """One weight per row, ones by default, or a ``ValueError`` that says what is wrong.

    Divided by a power of two that brings the largest below 1: whole numbers stay exact, and sums within range.

    >>> check_weight([3, 0, 1], 3)
    array([0.75, 0.  , 0.25])
    """
    if weight is None:
        return np.ones(rows)
    try:
        weight = np.asarray(weight, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"weight cannot be read as an array of numbers: {error}") from error
    if weight.shape != (rows,):
        raise ValueError(f"weight has shape {weight.shape}, but one number for each of {rows} rows is needed")
    bad = ~(np.isfinite(weight) & (weight >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"weight has {weight[row]} at row {row}, but all must be finite and none negative")
    if not weight.any():
        raise ValueError("weight is 0 everywhere, but at least one must be positive")
    return np.ldexp(weight, -np.frexp(weight.max())[1])


def tally(
    x: Float[np.ndarray, " N"], weight: Float[np.ndarray, " N"]
) -> tuple[Float[np.ndarray, " M"], Float[np.ndarray, " M"]]:
    """The distinct values in order, each with its weights added up.

    >>> tally(np.array([3.0, 1.0, 3.0]), np.array([1.0, 1.0, 2.0]))
    (array([1., 3.]), array([1., 3.]))
    """
    x = x + 0.0  # negative zeros are zeros
    if (weight == weight[0]).all():
        values, counts = np.unique(x, return_counts=True)
        return values, counts * weight[0]
    order = np.lexsort((weight, x))  # by weight too: the sum is rounded alike however the rows were listed
    x, weight = x[order], weight[order]
    starts = np.flatnonzero(np.append(True, x[1:] != x[:-1]))
    return x[starts], np.add.reduceat(weight, starts)


def moments(x: Float[np.ndarray, " N"], weight: Float[np.ndarray, " N"]) -> Moments:
    r"""Moments with weights :math:`p_i = w_i/\sum_j w_j`, of finite numbers of any size.

    .. math:: m = \sum_i p_i x_i, \qquad s^2 = \sum_i p_i (x_i - m)^2, \qquad \kappa = \sum_i p_i (x_i - m)^4 / s^4

    >>> moments(np.array([0.0, 4.0]), np.array([3.0, 1.0])).mean
    1.0
    """
    # a power of two changes no digit, and keeps squares and fourth powers inside the range of float64
    unit = 2.0 ** (np.frexp(np.abs(x).max())[1] - 1)
    z, p = x / unit, weight / weight.sum()
    mean = np.sum(p * z)
    mean += np.sum(p * (z - mean))  # the second pass takes back the rounding of the first
    squares = (z - mean) ** 2
    variance = np.sum(p * squares)
    std = float(np.sqrt(variance) * unit)
    # by range: the standard deviation of a constant column is the rounding error of its mean, rarely 0
    varies = bool(np.ptp(z) > ROUNDING * np.abs(z).max()) and std > 0
    kurtosis = float(np.sum(p * (squares / variance) ** 2)) if varies else 0.0
    return Moments(float(mean * unit), std, kurtosis, varies)


def quantile(x: Float[np.ndarray, " N"], weight: Float[np.ndarray, " N"], level: float) -> float:
    """The smallest x with at least a share ``level`` of the weight at or below it.

    >>> quantile(np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 1.0]), 0.5)
    2.0
    """
    order = np.argsort(x)
    below = np.cumsum(weight[order])
    # the margin: 0.3 + 0.3 and 0.6 are the same weight, and must reach the same level
    reached = below >= level * below[-1] * (1 - 1e-12)
    return float(x[order[np.argmax(reached)]])
