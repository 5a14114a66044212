# SPDX-License-Identifier: Apache-2.0
"""Affine maps between a table's own units and the units networks like."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fpovi.persistence import plain
from fpovi.tabular.moments import ROUNDING, check_weight, moments, tally
from fpovi.types import Numbers


class Standardiser(NamedTuple):
    """The affine map (a − shift)/scale, per column; columns that do not vary keep scale 1."""

    shift: NDArray[np.float64]
    scale: NDArray[np.float64]

    def __call__(self, a: Numbers) -> NDArray[np.float64]:
        return (np.asarray(a, np.float64) - self.shift) / self.scale

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types; every digit survives."""
        return {"shift": np.atleast_1d(self.shift).tolist(), "scale": np.atleast_1d(self.scale).tolist()}

    @classmethod
    def from_json(cls, fields: Any) -> "Standardiser":
        """The standardiser that :meth:`to_json` described; a ``ValueError`` for anything else."""
        fields = plain.record(fields, "standardiser", {"shift", "scale"})
        shift, scale = (plain.numbers(fields[name], name) for name in ("shift", "scale"))
        if len(shift) != len(scale) or not scale or min(scale) <= 0:
            raise ValueError("scale needs one positive number for each of shift")
        return cls(np.asarray(shift), np.asarray(scale))


def standardiser(a: Numbers) -> Standardiser:
    """The map that gives the columns of ``a`` mean 0 and variance 1.

    >>> standardiser(np.array([[1.0, 5.0], [3.0, 5.0]]))(np.array([[3.0, 6.0]]))
    array([[1., 1.]])
    """
    a = np.asarray(a, np.float64)
    if a.ndim < 1 or len(a) == 0:
        raise ValueError(f"a has shape {a.shape}, but at least one row is needed")
    # by range: the standard deviation of a constant column is the rounding error of its mean, rarely 0
    varies = np.ptp(a, axis=0) > ROUNDING * np.abs(a).max(axis=0)
    return Standardiser(np.asarray(a.mean(axis=0)), np.where(varies, a.std(axis=0), 1.0))


def learn_target(y: Numbers, weight: Numbers | None = None) -> Standardiser:
    """The map that gives each of the targets y ``(N,)`` or ``(N, m)`` mean 0 and variance 1, rows weighted.

    Its ``shift`` and ``scale`` have shape ``(m,)``, so that a standardised prediction ``(…, m)`` is undone by
    ``shift + scale * prediction``. A target that does not vary keeps scale 1.

    >>> learn_target([1.0, 3.0, 9.0], weight=[1, 1, 0])
    Standardiser(shift=array([2.]), scale=array([1.]))
    """
    try:
        y = np.asarray(y)
        y = y.astype(np.float64) if y.dtype.kind in "biufO" else y
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"y cannot be read as an array of numbers: {error}") from error
    if y.dtype != np.float64:
        raise ValueError(f"y has values of type {y.dtype}, but real numbers are needed")
    if y.ndim not in (1, 2) or y.size == 0:
        raise ValueError(f"y has shape {y.shape}, but (N,) or (N, m) with at least one row is needed")
    y = y.reshape(len(y), -1)
    weight = check_weight(weight, len(y))
    bad = ~np.isfinite(y) & (weight > 0)[:, None]
    if bad.any():
        row, target = (int(index) for index in np.argwhere(bad)[0])
        raise ValueError(f"y has {y[row, target]} at row {row}, but all targets must be finite")
    columns = [moments(*tally(column, weight[weight > 0])) for column in y[weight > 0].T]
    scale = [column.std if column.varies else 1.0 for column in columns]
    return Standardiser(np.asarray([column.mean for column in columns]), np.asarray(scale))
