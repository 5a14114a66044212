# SPDX-License-Identifier: Apache-2.0
"""Encode columns of categories as one-hot columns that together count like one column of numbers."""

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from fpovi.persistence import plain
from fpovi.tabular.values import read_levels


@dataclass(frozen=True)
class Category:
    r"""A column of categories, encoded one-hot, centred and of total variance 1, missing values as 0.

    .. math:: (1[x = l] - p_l)/s, \qquad s^2 = \sum_l p_l (1 - p_l)

    Two levels take one column, of variance 1 by itself, and a single one none.

    Attributes:
        levels: the levels that have a column, sorted.
        other: whether all other levels are put together as one more, the last.
        share: of each level the share p of the training weight, that of ``other`` last.
        missing: whether a 0/1 column for missing values follows.
    """

    levels: tuple[str, ...]
    other: bool
    share: tuple[float, ...]
    missing: bool
    kind: ClassVar[str] = "category"

    @classmethod
    def learn(cls, column: pd.Series, weight: Float[np.ndarray, " N"], label: str, max_categories: int) -> "Category":
        """Learn from the rows of a column, all of positive weight."""
        codes, written = read_levels(column, label)
        known = codes >= 0
        total = dict.fromkeys(written, 0.0)
        for level, mass in zip(written, np.bincount(codes[known], weight[known], len(written)).tolist(), strict=True):
            total[level] += mass
        common = sorted((level for level in total if total[level] > 0), key=lambda level: (-total[level], level))
        kept, rare = sorted(common[:max_categories]), common[max_categories:]
        masses = [total[level] for level in kept] + [sum(total[level] for level in rare)] * bool(rare)
        share = tuple(mass / sum(masses) for mass in masses)
        return cls(tuple(kept), bool(rare), share, not bool(known.all()))

    def features(self, name: str) -> list[str]:
        """Return the names of the encoded columns."""
        groups = [f"{name}={level}" for level in self.levels] + [f"{name} is another"] * self.other
        return groups[self._hot] + [f"{name} is missing"] * self.missing

    def numbers(self, column: pd.Series, label: str, unknown: str) -> Float[np.ndarray, " N"]:
        """Return the place in ``levels`` that each row has, one past the last for another level, −1 where missing."""
        return self._groups(column, label, unknown).astype(np.float64)

    def encode(self, column: pd.Series, label: str, unknown: str) -> Float[np.ndarray, "N _"]:
        """Return the encoded columns."""
        return self.codebook()[self._groups(column, label, unknown)]

    def _groups(self, column: pd.Series, label: str, unknown: str) -> Int[np.ndarray, " N"]:
        codes, written = read_levels(column, label)
        place = {level: i for i, level in enumerate(self.levels)}
        unlisted = len(self.levels) if self.other else -1
        group_of = np.asarray([place.get(level, unlisted) for level in written] + [-1])  # the last is code −1's
        group = group_of[codes]
        if unknown == "error":
            refused = (group < 0) & (codes >= 0)
            if refused.any():
                row = int(np.argmax(refused))
                self._refuse(written[codes[row]], f"{label}, row {column.index[row]}")
        return group

    def codebook(self) -> Float[np.ndarray, "groups _"]:
        """Return one row of encoded columns per level, and one for a missing value at the end."""
        p = np.asarray(self.share)[self._hot]
        one_hot = (np.eye(len(self.share))[:, self._hot] - p) / np.sqrt(np.sum(p * (1 - p)) or 1.0)
        book = np.append(one_hot, np.zeros((1, len(p))), axis=0)
        indicator = np.arange(len(book)) == len(book) - 1
        return np.column_stack([book, indicator]) if self.missing else book

    @property
    def _hot(self) -> slice:
        """The levels that have a column of their own."""
        return slice(None) if len(self.share) > 2 else slice(1, None)

    def _refuse(self, level: str, where: str) -> None:
        known = ", ".join(plain.short(level) for level in self.levels[:5]) + ", …" * (len(self.levels) > 5)
        raise ValueError(
            f"X has {plain.short(level)} in {where}, where only {known} were seen in fit: "
            "unknown='missing' would take it for a missing value"
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {"kind": self.kind, **asdict(self), "levels": list(self.levels), "share": list(self.share)}

    @classmethod
    def from_json(cls, fields: Any) -> "Category":
        """Restore a column, or raise a ``ValueError`` for what :meth:`to_json` cannot have written."""
        fields = plain.record(fields, "column", {"kind", "levels", "other", "share", "missing"})
        names, share = plain.distinct_texts(fields["levels"], "levels"), plain.numbers(fields["share"], "share")
        other = plain.flag(fields["other"], "other")
        if list(names) != sorted(names) or not names:
            raise ValueError("levels must be sorted, and at least one")
        if len(share) != len(names) + other or min(share) <= 0 or max(share) > 1 or abs(sum(share) - 1) > 1e-6:
            raise ValueError("share must hold one positive number per level, in total 1")
        return cls(names, other, share, plain.flag(fields["missing"], "missing"))
