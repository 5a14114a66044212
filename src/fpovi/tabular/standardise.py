# SPDX-License-Identifier: Apache-2.0
"""Map numbers to mean 0 and variance 1, and back to their own units."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fpovi.persistence import plain
from fpovi.tabular.weights import ROUNDING, check_weight, moments, tally
from fpovi.types import Numbers


class Standardiser(NamedTuple):
    """The affine map (a − shift)/scale, per column: ``standardiser(a)``.

    Attributes:
        shift: the mean of each column.
        scale: the standard deviation of each column, 1 for one that does not vary.
    """

    shift: NDArray[np.float64]
    scale: NDArray[np.float64]

    def __call__(self, a: Numbers) -> NDArray[np.float64]:
        return (np.asarray(a, np.float64) - self.shift) / self.scale

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types in which every digit survives."""
        return {"shift": np.atleast_1d(self.shift).tolist(), "scale": np.atleast_1d(self.scale).tolist()}

    @classmethod
    def from_json(cls, fields: Any) -> "Standardiser":
        """Restore a standardiser.

        Args:
            fields: what :meth:`to_json` returned.

        Raises:
            ValueError: for anything that :meth:`to_json` cannot have written.
        """
        fields = plain.record(fields, "standardiser", {"shift", "scale"})
        shift, scale = (plain.numbers(fields[name], name) for name in ("shift", "scale"))
        if len(shift) != len(scale) or not scale or min(scale) <= 0:
            raise ValueError("scale needs one positive number for each of shift")
        return cls(np.asarray(shift), np.asarray(scale))


def standardiser(a: Numbers) -> Standardiser:
    """Learn the map that gives every column mean 0 and variance 1.

    Args:
        a: numbers ``(N,)`` or ``(N, d)``, at least one row.

    >>> standardiser(np.array([[1.0, 5.0], [3.0, 5.0]]))(np.array([[3.0, 6.0]]))
    array([[1., 1.]])
    """
    a = np.asarray(a, np.float64)
    if a.ndim < 1 or len(a) == 0:
        raise ValueError(f"a has shape {a.shape}, but at least one row is needed")
    # by range, because the standard deviation of a constant column is the rounding error of its mean
    varies = np.ptp(a, axis=0) > ROUNDING * np.abs(a).max(axis=0)
    return Standardiser(np.asarray(a.mean(axis=0)), np.where(varies, a.std(axis=0), 1.0))


def learn_target(y: Numbers, weight: Numbers | None = None) -> Standardiser:
    """Learn the map that gives every target mean 0 and variance 1, rows weighted.

    A standardised prediction ``(…, m)`` is undone by ``shift + scale * prediction``.

    Args:
        y: targets ``(N,)`` or ``(N, m)``.
        weight: one number per row, ones by default.

    Returns:
        A map with ``shift`` and ``scale`` of shape ``(m,)``. A target that does not vary keeps scale 1.

    Raises:
        ValueError: if a target of positive weight is no finite number.

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
