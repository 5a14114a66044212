# SPDX-License-Identifier: Apache-2.0
"""Rows that say the same thing, said once."""

from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from fpovi.tabular.moments import check_weight
from fpovi.types import Numbers


def merge_rows(
    X: Numbers, y: Numbers, weight: Numbers | None = None
) -> tuple[Float[np.ndarray, "M d"], NDArray[Any], Float[np.ndarray, " M"]]:
    """Every distinct row of (X, y) once, its weights added up, in lexicographic order.

    Rows of weight 0 are left out. So a table with weights, the same table with rows repeated, and either in any order
    all give the same arrays: what is fitted to them cannot differ.

    Args:
        X: encoded inputs ``(N, d)``, free of NaN.
        y: targets ``(N,)`` or ``(N, m)``, numbers free of NaN.
        weight: one number per row, ones by default.

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
    """The order of the rows, and in that order, which are the first of their kind.

    Key by key, only the rows that are tied so far are sorted on: a table of real numbers takes one sort, not d.
    Among equals the order is by ``weight``, so that their sum is rounded the same way however they were listed.
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
