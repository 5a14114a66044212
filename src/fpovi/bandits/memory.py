# SPDX-License-Identifier: Apache-2.0
"""What an agent has been told: contexts, arms and rewards, in the memory of the host."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

LEAST_ROOM = 64


class Rows(NamedTuple):
    """Encoded contexts ``(N, d)``, columns of arms, rewards and weights."""

    x: Float[np.ndarray, "N d"]
    arm: Int[np.ndarray, " N"]
    reward: Float[np.ndarray, " N"]
    weight: Float[np.ndarray, " N"]

    def last(self, count: int) -> "Rows":
        """Return the last so many rows."""
        first = max(len(self.arm) - count, 0)
        return Rows(*(array[first:] for array in self))


class Memory:
    """Rows in the order they came; with ``most``, the last so many of them.

    Attributes:
        seen: how many have ever come.
    """

    def __init__(self, inputs: int, most: int | None = None):
        if most is not None and most < 1:
            raise ValueError(f"memory={most} must be at least 1, or None for all rows")
        self.most, self.seen = most, 0
        self._start = self._stop = 0  # of the rows that count, in arrays that may have room at both ends
        self._kept = Rows(np.zeros((0, inputs), np.float32), np.zeros(0, np.int32), np.zeros(0), np.zeros(0))

    def __len__(self) -> int:
        return self._stop - self._start

    @property
    def rows(self) -> Rows:
        """All rows, the oldest first."""
        return Rows(*(array[self._start : self._stop] for array in self._kept))

    def add(self, new: Rows) -> None:
        """Add rows; where there are more than ``most``, the oldest are forgotten."""
        self.seen += len(new.arm)
        new = new if self.most is None else new.last(self.most)
        count = len(new.arm)
        if self._stop + count > len(self._kept.arm):
            self._move(count)
        for array, one in zip(self._kept, new, strict=True):
            array[self._stop : self._stop + count] = one
        self._stop += count
        if self.most is not None:
            self._start = max(self._start, self._stop - self.most)

    def _move(self, count: int) -> None:
        """Move the rows that stay to arrays twice as long as they and ``count`` more, so that few additions move."""
        stay = self.rows if self.most is None else self.rows.last(self.most - count)
        size = len(stay.arm)
        room = max(2 * (size + count), LEAST_ROOM)
        self._kept = Rows(*(np.concatenate([old, np.zeros((room - size, *old.shape[1:]), old.dtype)]) for old in stay))
        self._start, self._stop = 0, size

    def restore(self, rows: Rows, seen: int) -> None:
        """Replace everything by the rows of another memory, which has seen so many."""
        self._kept, self.seen = rows, seen
        self._start, self._stop = 0, len(rows.arm)


def rows_from(arrays: dict[str, np.ndarray]) -> Rows:
    """Return the rows whose fields these are."""
    fields: dict[str, Any] = {name: arrays[name] for name in Rows._fields}
    return Rows(**fields)


def column(name: str, values: Any, rows: int) -> Float[np.ndarray, " N"]:
    """Return a finite number per row, or raise a ``ValueError``."""
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} cannot be read as numbers: {error}") from error
    if array.shape != (rows,):
        raise ValueError(f"{name} has shape {array.shape}, but one number for each of {rows} rows is needed")
    if not np.isfinite(array).all():
        row = int(np.argmin(np.isfinite(array)))
        raise ValueError(f"{name} has {array[row]} at row {row}, but all must be finite numbers")
    return array
