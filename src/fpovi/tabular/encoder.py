# SPDX-License-Identifier: Apache-2.0
"""Learn from training rows how to encode a table of any columns as an array of numbers of about unit size."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from jaxtyping import Float

from fpovi._lookup import lookup
from fpovi.persistence import plain
from fpovi.tabular.category import Category
from fpovi.tabular.frame import Columns, align, as_frame, names_of
from fpovi.tabular.measured import Measured
from fpovi.tabular.shared_unit import in_shared_unit
from fpovi.tabular.unit import Span, check_unit
from fpovi.tabular.values import MEASURED, kind_of
from fpovi.tabular.weights import check_weight
from fpovi.types import Numbers

UNKNOWN = {"error": "error", "missing": "missing"}  # what to do with a category that was not seen in training
FARTHEST = 1e6  # values beyond as many standard deviations are taken to be there, so that float32 holds their powers


@dataclass(frozen=True)
class Empty:
    """A column without a single value in training, which is left out whatever it holds later."""

    kind: ClassVar[str] = "empty"

    def features(self, name: str) -> list[str]:
        """Return no names."""
        return []

    def numbers(self, column: pd.Series, label: str, unknown: str) -> Float[np.ndarray, " N"]:
        """Return NaN for every row."""
        return np.full(len(column), np.nan)

    def encode(self, column: pd.Series, label: str, unknown: str) -> Float[np.ndarray, "N 0"]:
        """Return an array without columns, ``(N, 0)``."""
        return np.zeros((len(column), 0))

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {"kind": self.kind}

    @classmethod
    def from_json(cls, fields: Any) -> "Empty":
        """Restore a column, or raise a ``ValueError`` for what :meth:`to_json` cannot have written."""
        plain.record(fields, "column", {"kind"})
        return cls()


COLUMN_READERS: dict[str, Callable[[Any], Measured | Category | Empty]] = {
    **dict.fromkeys(MEASURED, Measured.from_json),
    "category": Category.from_json,
    "empty": Empty.from_json,
}


@dataclass(frozen=True)
class Encoder:
    """Turns rows of a table into an array for the network: ``encoder(X)``. Made by :func:`learn_encoder`.

    Attributes:
        names: what the table's columns are called, or None where they go by position.
        learned: what was learned of each column.
        span: the range of the training rows where all columns are numbers of one unit, such as pixels, else None.
    """

    names: tuple[str, ...] | None
    learned: tuple[Measured | Category | Empty, ...]
    span: Span | None = None

    @property
    def columns(self) -> Columns:
        """The names and kinds of the table's columns, in order."""
        return Columns(self.names, tuple(column.kind for column in self.learned))

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the encoded columns, in order; a single column of zeros if no column of the table varied."""
        names = self.names or [f"x{i}" for i in range(len(self.learned))]
        found = [feature for name, column in zip(names, self.learned, strict=True) for feature in column.features(name)]
        return tuple(found) or ("nothing varies",)

    @property
    def input_shape(self) -> tuple[int]:
        """The shape of a row before it is encoded."""
        return (len(self.learned),)

    @property
    def shape(self) -> tuple[int]:
        """The shape of an encoded row."""
        return (len(self.features),)

    def __call__(self, X: Any, unknown: str = "error") -> Float[np.ndarray, "N d"]:
        """Encode rows of a table with the same columns.

        Args:
            X: a data frame (columns found by name if names were learned, others ignored) or rows and columns.
            unknown: what to do with a category that was not seen in training: "error" raises a ``ValueError``,
                "missing" takes it for a missing value. Where rare levels were put together, it is one of those.

        Returns:
            One row per row of X and one column per name in :attr:`features`, free of NaN.

        Raises:
            ValueError: for absent columns, for values that cannot be encoded, with column and row, and for numbers of
                another unit than those of training, where all columns have one.
        """
        unknown = lookup(UNKNOWN, unknown, "unknown")
        columns = self.columns
        frame = align(X, columns)
        self._check_unit(frame)
        encoded = np.zeros((len(frame), len(self.features)))
        start = 0
        for i, column in enumerate(self.learned):
            block = column.encode(frame.iloc[:, i], columns.label(i), unknown)
            encoded[:, start : start + block.shape[1]] = block
            start += block.shape[1]
        return np.clip(encoded, -FARTHEST, FARTHEST, out=encoded)

    def _check_unit(self, frame: pd.DataFrame) -> None:
        if self.span is None:
            return
        cells = enumerate(self.learned)
        numbers = np.stack([column.numbers(frame.iloc[:, i], self.columns.label(i), "error") for i, column in cells])
        if not np.isnan(numbers).all():
            found = Span.of(numbers)
            # small fractions are of another unit where numbers were whole, and may be just that where they were not
            check_unit(found if self.span.whole else found._replace(whole=True), self.span)

    def numbers(self, X: Any, unknown: str = "error") -> Float[np.ndarray, "N _"]:
        """Return one number per cell of a table with the same columns, in the learned order and in their own units.

        Times are in seconds since 1970, durations in seconds, a category is the place of its level; NaN is missing, and
        so is −1 for a category.

        Args:
            X: a data frame, or rows and columns.
            unknown: "error" or "missing", what to do with a category that was not seen in training.

        >>> learn_encoder([["red", 1.0], ["blue", 3.0]]).numbers([["blue", 5.0], [None, 6.0]])
        array([[ 0.,  5.],
               [-1.,  6.]])
        """
        unknown = lookup(UNKNOWN, unknown, "unknown")
        columns = self.columns
        frame = align(X, columns)
        cells = [c.numbers(frame.iloc[:, i], columns.label(i), unknown) for i, c in enumerate(self.learned)]
        return np.stack(cells, axis=1)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types in which every digit survives."""
        names = None if self.names is None else list(self.names)
        span = None if self.span is None else self.span.to_json()
        return {"names": names, "columns": [column.to_json() for column in self.learned], "span": span}

    @classmethod
    def from_json(cls, fields: Any) -> "Encoder":
        """Restore an encoder.

        Args:
            fields: what :meth:`to_json` returned.

        Raises:
            ValueError: for anything that :meth:`to_json` cannot have written.
        """
        if isinstance(fields, dict):
            fields = {"span": None, **fields}  # which files of version 0.1 do not have
        fields = plain.record(fields, "encoder", {"names", "columns", "span"})
        names = None if fields["names"] is None else plain.distinct_texts(fields["names"], "names")
        columns = plain.items(fields["columns"], "columns")
        if not columns or (names is not None and len(names) != len(columns)):
            raise ValueError("columns must hold at least one, and as many as there are names")
        span = None if fields["span"] is None else Span.from_json(fields["span"])
        return cls(names, tuple(_column(column) for column in columns), span)


def _column(fields: Any) -> Measured | Category | Empty:
    kind = fields.get("kind") if isinstance(fields, dict) else None
    return lookup(COLUMN_READERS, plain.text(kind, "kind of a column"), "kind")(fields)


def learn_encoder(
    X: Any, weight: Numbers | None = None, *, max_categories: int = 50, every_column: bool = False
) -> Encoder:
    """Learn from training rows how to encode a table.

    Numbers, booleans, dates and durations (in seconds) are standardised; where tails are extreme, after an arcsinh
    that brings them in. Strings and categoricals become one-hot columns of unit total variance. Constant columns are
    left out. Missing values get 0, the mean, and a 0/1 column of their own if there were any in training.

    Numbers in many columns that mostly share a range, such as the pixels of flat images, share mean and variance too:
    on a scale of their own, pixels that hardly ever vary would be huge where they do.

    Statistics are weighted such that a row of weight 2 is that row twice, and one of weight 0 is not there.

    Args:
        X: a data frame, or rows and columns ``(N, d)`` of numbers, strings or dates.
        weight: one number per row, ones by default.
        max_categories: how many levels of a column are kept, the most common ones; others are put together.
        every_column: keep numbers that do not vary too.

    Raises:
        ValueError: for what is no table, and for values that are no numbers, strings, dates or durations.

    >>> encoder = learn_encoder([["red", 1.0], ["blue", 3.0]])
    >>> encoder.features
    ('x0=red', 'x1')
    >>> encoder([["blue", 5.0]])
    array([[-1.,  3.]])
    """
    if isinstance(max_categories, bool) or not isinstance(max_categories, int | np.integer) or max_categories < 1:
        raise ValueError(f"max_categories={max_categories!r} must be a whole number, at least 1")
    frame = as_frame(X)
    names = names_of(frame)
    weight = check_weight(weight, len(frame))
    frame, weight = frame[weight > 0], weight[weight > 0]
    labels = Columns(names, ())
    learned: list[Measured | Category | Empty] = []
    for i in range(frame.shape[1]):
        column, label = frame.iloc[:, i], labels.label(i)
        kind = kind_of(column, label)
        if kind == "empty":
            learned.append(Empty())
        elif kind == "category":
            learned.append(Category.learn(column, weight, label, int(max_categories)))
        else:
            learned.append(Measured.learn(column, kind, weight, label))
    columns, span = in_shared_unit(frame, learned, weight)
    if every_column:
        kept = next((column.scale for column in columns if span is not None and column.scale is not None), 1.0)
        columns = [_varying(column, kept) for column in columns]
    return Encoder(names, tuple(columns), span)


def _varying(column: Measured | Category | Empty, scale: float) -> Measured | Category | Empty:
    """Return a column that is not left out, in this unit if it did not vary."""
    return replace(column, scale=scale) if isinstance(column, Measured) and column.scale is None else column
