# SPDX-License-Identifier: Apache-2.0
"""Tell numbers of another unit than those of training, such as pixels of 0…255 and of 0…1."""

from typing import Any, NamedTuple

import numpy as np

from fpovi.persistence import plain

OTHER_UNIT = 20.0  # times as wide or as large as in training: values of another unit


class Span(NamedTuple):
    """The smallest and largest number of a table or array, and whether all are whole numbers."""

    low: float
    high: float
    whole: bool

    @classmethod
    def of(cls, numbers: Any) -> "Span":
        """Return the span of an array, of which NaN is no part."""
        with np.errstate(invalid="ignore"):
            whole = bool(np.all((numbers == np.round(numbers)) | np.isnan(numbers)))
        return cls(float(np.nanmin(numbers)), float(np.nanmax(numbers)), whole)

    @property
    def largest(self) -> float:
        """The largest size of a number."""
        return max(abs(self.low), abs(self.high))

    def to_json(self) -> list[Any]:
        """Return plain JSON types."""
        return list(self)

    @classmethod
    def from_json(cls, fields: Any) -> "Span":
        """Restore a span, or raise a ``ValueError`` for what :meth:`to_json` cannot have written."""
        low, high, whole = [*plain.items(fields, "span"), None, None, None][:3]
        return cls(plain.number(low, "low"), plain.number(high, "high"), plain.flag(whole, "whole"))


def check_unit(found: Span, seen: Span) -> None:
    """Raise a ``ValueError`` for numbers of another unit than those of training.

    Args:
        found: the span of new rows.
        seen: the span of the rows of training.

    >>> check_unit(Span(0, 1, False), Span(0, 2, False))
    """
    wide = found.high - found.low > OTHER_UNIT * (seen.high - seen.low) > 0
    large = found.largest > OTHER_UNIT * seen.largest > 0
    small = 0 < found.largest * OTHER_UNIT < seen.largest and not found.whole
    if wide or large or small:
        raise ValueError(
            f"X has values from {found.low:g} to {found.high:g}, but they went from {seen.low:g} to {seen.high:g} in "
            "fit: pixels of 0…255 and of 0…1 are told apart like this, so bring X to the unit of the training rows"
        )
