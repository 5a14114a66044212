# SPDX-License-Identifier: Apache-2.0
"""The names of arms, in a fixed order of columns; which of them may be chosen."""

import math
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Bool, Int
from numpy.typing import NDArray

from fpovi.persistence.plain import short

Arm: TypeAlias = Any  # text, numbers, True and False, None, and tuples of these


class Arms:
    """Names in the order of columns. A column stays when its arm is removed, and is taken up again when it comes back.

    Attributes:
        names: of all columns.
        removed: the columns whose arms may not be chosen.
    """

    def __init__(self, names: Iterable[Arm], removed: Iterable[int] = ()):
        self.names: list[Arm] = []
        self.removed = set(removed)
        self._columns: dict[Arm, int] = {}
        self.add(names)
        if not self.names:
            raise ValueError("arms is empty, but at least one is needed")

    def __len__(self) -> int:
        return len(self.names)

    @property
    def present(self) -> tuple[Arm, ...]:
        """The names of arms that may be chosen."""
        return tuple(name for column, name in enumerate(self.names) if column not in self.removed)

    def add(self, names: Iterable[Arm]) -> None:
        """Add arms; those that were removed come back. Nothing is changed where one of them cannot be added."""
        names = check_names(names)
        twice = [name for name in names if name in self._columns and self._columns[name] not in self.removed]
        if twice:
            raise ValueError(f"arms has {short(twice[0])}, which is there already")
        for name in names:
            self.removed.discard(self._columns.get(name, -1))
            if name not in self._columns:
                self._columns[name] = len(self.names)
                self.names.append(name)

    def remove(self, names: Iterable[Arm]) -> None:
        """Remove arms; at least one has to stay."""
        columns = {self.column(name) for name in _listed(names)}
        if columns & self.removed:
            raise ValueError(f"arms has {short(self.names[min(columns & self.removed)])}, which was removed before")
        if len(self.removed | columns) == len(self.names):
            raise ValueError("no arm would be left: at least one has to stay")
        self.removed |= columns

    def column(self, name: Arm) -> int:
        """Return the column of an arm, or raise a ``ValueError``."""
        try:
            return self._columns[name]
        except (KeyError, TypeError):
            known = short([*self.present])
            raise ValueError(f"{short(name)} is no arm of this agent: its arms are {known}; see add_arms") from None

    def columns(self, names: Iterable[Arm]) -> Int[np.ndarray, " N"]:
        """Return the columns of arms, such as those that were chosen; removed ones are fine."""
        return np.fromiter((self.column(name) for name in _listed(names)), int)

    def mask(self, rows: int, allowed: Iterable[Arm] | NDArray[np.bool_] | None) -> Bool[np.ndarray, "N K"]:
        """Return which columns may be chosen in each row, or raise a ``ValueError`` where there is none.

        Args:
            rows: N.
            allowed: names for all rows; or a Boolean array ``(N, P)`` in the order of :attr:`present`.
        """
        present = np.ones(len(self), bool)
        present[list(self.removed)] = False
        if allowed is None:
            return np.broadcast_to(present, (rows, len(self)))
        if isinstance(allowed, np.ndarray) and allowed.dtype == bool:
            shape = (rows, int(present.sum()))
            if allowed.shape != shape:
                raise ValueError(f"allowed has shape {allowed.shape}, but one row per context and one column per arm "
                                 f"are needed, {shape}")  # fmt: skip
            mask = np.zeros((rows, len(self)), bool)
            mask[:, present] = allowed
        else:
            columns = self.columns(_listed(allowed))
            gone = [column for column in columns if column in self.removed]
            if gone:
                raise ValueError(f"allowed has {short(self.names[gone[0]])}, an arm that was removed")
            row = np.zeros(len(self), bool)
            row[columns] = True
            mask = np.broadcast_to(row, (rows, len(self)))
        if not mask.any(axis=1).all():
            where = int(np.argmin(mask.any(axis=1)))
            raise ValueError(f"allowed has no arm at row {where}: at least one must be allowed")
        return mask


def check_names(names: Iterable[Arm]) -> list[Arm]:
    """Return distinct names that a file can hold, or raise a ``ValueError``."""
    found = _listed(names)
    for name in found:
        if not _can_be_kept(name):
            raise ValueError(
                f"{short(name)} cannot be the name of an arm: use text, finite numbers, True, False, None or tuples of "
                "these"
            )
    if len(set(found)) < len(found):
        twice = next(name for place, name in enumerate(found) if name in found[:place])
        raise ValueError(f"arms has {short(twice)} twice, or a name that equals it (1, 1.0 and True are equal)")
    return found


def _listed(names: Any) -> list[Arm]:
    """Return names as a list; an array gives plain numbers and texts."""
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        raise ValueError(f"arms are {short(names)}, but a list of names is needed")
    return names.tolist() if isinstance(names, np.ndarray) else list(names)


def _can_be_kept(name: Any) -> bool:
    if isinstance(name, tuple):
        return all(map(_can_be_kept, name))
    if isinstance(name, float):
        return math.isfinite(name)
    return name is None or type(name) in (str, int, bool)


def to_json(name: Arm) -> Any:
    """Return a name in JSON types: tuples as lists.

    >>> from_json(to_json(("blue", 1, (None,))))
    ('blue', 1, (None,))
    """
    return [to_json(part) for part in name] if isinstance(name, tuple) else name


def from_json(name: Any) -> Arm:
    """Return the name of which :func:`to_json` was called."""
    return tuple(from_json(part) for part in name) if isinstance(name, list) else name
