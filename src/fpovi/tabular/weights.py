# SPDX-License-Identifier: Apache-2.0
"""Weights of rows: a row of weight 2 counts exactly like that row twice, to the last bit.

For that, weights of equal values (:func:`tally`) and of equal rows (:func:`merge_rows`) are added up before anything is
computed from them.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from fpovi.types import Numbers

ROUNDING = 10 * np.finfo(np.float64).eps


class Moments(NamedTuple):
    """Weighted moments of a column.

    Attributes:
        mean: the mean.
        std: the standard deviation.
        kurtosis: the fourth standardised moment, 3 for a Gaussian, 0 for a constant.
        varies: False for a column that is constant up to rounding.
    """

    mean: float
    std: float
    kurtosis: float
    varies: bool


def check_weight(weight: Numbers | None, rows: int) -> Float[np.ndarray, " N"]:
    """Return one weight per row, ones by default, or raise a ``ValueError`` that says what is wrong.

    Weights are divided by the power of two that brings the largest below 1, so that whole numbers stay exact and sums
    stay in the range of float64.

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
    """Return the distinct values in order, and for each the sum of its weights.

    >>> tally(np.array([3.0, 1.0, 3.0]), np.array([1.0, 1.0, 2.0]))
    (array([1., 3.]), array([1., 3.]))
    """
    x = x + 0.0  # negative zeros are zeros
    if (weight == weight[0]).all():
        values, counts = np.unique(x, return_counts=True)
        return values, counts * weight[0]
    order = np.lexsort((weight, x))  # by weight too, so that the order of the rows does not change how sums are rounded
    x, weight = x[order], weight[order]
    starts = np.flatnonzero(np.append(True, x[1:] != x[:-1]))
    return x[starts], np.add.reduceat(weight, starts)


def moments(x: Float[np.ndarray, " N"], weight: Float[np.ndarray, " N"]) -> Moments:
    r"""Compute moments with weights :math:`p_i = w_i/\sum_j w_j`, of finite numbers of any size.

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
    # by range, because the standard deviation of a constant column is the rounding error of its mean
    varies = bool(np.ptp(z) > ROUNDING * np.abs(z).max()) and std > 0
    kurtosis = float(np.sum(p * (squares / variance) ** 2)) if varies else 0.0
    return Moments(float(mean * unit), std, kurtosis, varies)


def quantile(x: Float[np.ndarray, " N"], weight: Float[np.ndarray, " N"], level: float) -> float:
    """Return the smallest x with at least a share ``level`` of the weight at or below it.

    >>> quantile(np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 1.0]), 0.5)
    2.0
    """
    margin = 1 - 1e-12  # 0.3 + 0.3 and 0.6 are the same weight, and must reach the same level
    return float(np.quantile(x, level * margin, weights=weight, method="inverted_cdf"))


def merge_rows(
    X: Numbers, y: Numbers, weight: Numbers | None = None
) -> tuple[Float[np.ndarray, "M d"], NDArray[Any], Float[np.ndarray, " M"]]:
    """Merge equal rows of (X, y) into one with the sum of their weights, and sort them.

    Rows of weight 0 are left out. So a table with weights, the same table with rows repeated, and either in any order
    all give the same arrays, and therefore the same fit.

    Args:
        X: encoded inputs ``(N, d)``, free of NaN.
        y: targets ``(N,)`` or ``(N, m)``, numbers free of NaN.
        weight: one number per row, ones by default.

    Returns:
        ``(X, y, weight)`` of the distinct rows, in lexicographic order.

    >>> merge_rows([[2.0], [1.0], [2.0]], [0, 5, 0], [1.0, 1.0, 3.0])
    (array([[1.], [2.]]), array([5, 0]), array([1., 4.]))
    """
    X, y = np.asarray(X, np.float64), np.asarray(y)
    if X.ndim != 2 or y.ndim not in (1, 2) or len(X) != len(y):
        raise ValueError(f"X has shape {X.shape} and y {y.shape}, but (N, d) and (N,) or (N, m) are needed")
    if y.dtype.kind not in "biuf":
        raise ValueError(f"y has values of type {y.dtype}, but numbers are needed")
    if np.isnan(X).any() or (y.dtype.kind == "f" and np.isnan(y).any()):
        raise ValueError("X or y has NaN, but a row with NaN equals no other: encode X and check y first")
    check_weight(weight, len(X))
    weight = np.ones(len(X)) if weight is None else np.asarray(weight, np.float64)
    kept = weight > 0
    # + 0.0: negative zeros are equal to zeros, and must not depend on which copy came first
    X, y, weight = X[kept] + 0.0, y[kept] + np.zeros((), y.dtype), weight[kept]

    order, first = _lexicographic([*X.T, *y.reshape(len(y), -1).T], weight)
    starts = order[first]
    return X[starts], y[starts], np.add.reduceat(weight[order], np.flatnonzero(first))


def _lexicographic(
    keys: list[NDArray[Any]], weight: Float[np.ndarray, " N"]
) -> tuple[Int[np.ndarray, " N"], NDArray[np.bool_]]:
    """Return the order of the rows and, in that order, which rows differ from the one before.

    Key by key, only rows that are tied so far are sorted further: a table of real numbers takes one sort, not d.
    Equal rows are ordered by ``weight``, so that their order in the table does not change how the sum is rounded.
    """
    order = np.arange(len(weight))
    first = np.arange(len(weight)) == 0
    for key in [*keys, weight]:
        group = np.cumsum(first)
        alone = first & np.append(first[1:], True)
        places = np.flatnonzero(~alone)
        if len(places) == 0:
            break
        rows, group = order[places], group[places]
        rows = rows[np.lexsort((key[rows], group))]
        order[places] = rows
        if key is not weight:
            first[places[1:]] |= (key[rows[1:]] != key[rows[:-1]]) | (group[1:] != group[:-1])
    return order, first
