# SPDX-License-Identifier: Apache-2.0
"""Encode columns of numbers, times and durations with mean 0 and variance 1, extreme tails drawn in."""

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from fpovi.persistence import plain
from fpovi.tabular.values import read_numbers
from fpovi.tabular.weights import moments, quantile, tally

EXTREME_KURTOSIS = 20.0  # a Gaussian has 3, an exponential 9, a log-normal with σ = 1 has 114
WORTHWHILE = 0.9  # a squash must lower the kurtosis to this share; two-valued columns look the same under any

Values = Float[np.ndarray, " N"]


class Squash(NamedTuple):
    """The map arcsinh((x − centre)/scale): linear about the centre, logarithmic far from it."""

    centre: float
    scale: float

    def __call__(self, x: Values) -> Values:
        return np.arcsinh(_ratio(x, self.centre, self.scale))


@dataclass(frozen=True)
class Measured:
    """A column of numbers, times or durations, encoded as (x − shift)/scale, missing values as 0.

    Attributes:
        kind: "number", "time" or "duration".
        squash: a map for extreme tails that comes first, or None.
        shift: the mean of the training rows.
        scale: their standard deviation, or None for a column that was constant. Such a column is left out, as there are
            no units for a later value that differs.
        missing: whether a 0/1 column for missing values follows.
    """

    kind: str
    squash: Squash | None
    shift: float
    scale: float | None
    missing: bool

    @classmethod
    def learn(cls, column: pd.Series, kind: str, weight: Values, label: str) -> "Measured":
        """Learn from the rows of a column, all of positive weight."""
        values = read_numbers(column, kind, label)
        known = ~np.isnan(values)
        x, weight = tally(values[known], weight[known])
        squash = _choose_squash(x, weight)
        seen = moments(x if squash is None else squash(x), weight)
        return cls(kind, squash, seen.mean, seen.std if seen.varies else None, not bool(known.all()))

    def features(self, name: str) -> list[str]:
        """Return the names of the encoded columns."""
        return [name] * (self.scale is not None) + [f"{name} is missing"] * self.missing

    def numbers(self, column: pd.Series, label: str, unknown: str) -> Values:
        """Return the values, times and durations in seconds, NaN where missing."""
        return read_numbers(column, self.kind, label)

    def encode(self, column: pd.Series, label: str, unknown: str) -> Float[np.ndarray, "N _"]:
        """Return the encoded columns."""
        values = self.numbers(column, label, unknown)
        absent = np.isnan(values)
        encoded = []
        if self.scale is not None:
            values = values if self.squash is None else self.squash(values)
            encoded.append(np.where(absent, 0.0, _ratio(values, self.shift, self.scale)))
        if self.missing:
            encoded.append(absent.astype(np.float64))
        return np.stack(encoded, axis=1) if encoded else np.zeros((len(values), 0))

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {**asdict(self), "squash": None if self.squash is None else list(self.squash)}

    @classmethod
    def from_json(cls, fields: Any) -> "Measured":
        """Restore a column, or raise a ``ValueError`` for what :meth:`to_json` cannot have written."""
        fields = plain.record(fields, "column", {"kind", "squash", "shift", "scale", "missing"})
        squash = None if fields["squash"] is None else plain.numbers(fields["squash"], "squash")
        scale = None if fields["scale"] is None else plain.number(fields["scale"], "scale")
        if squash is not None and (len(squash) != 2 or squash[1] <= 0):
            raise ValueError("squash must be a centre and a positive scale")
        if scale is not None and scale <= 0:
            raise ValueError("scale must be positive")
        return cls(
            plain.text(fields["kind"], "kind"),
            None if squash is None else Squash(*squash),
            plain.number(fields["shift"], "shift"),
            scale,
            plain.flag(fields["missing"], "missing"),
        )


def _ratio(x: Values, shift: float, scale: float) -> Values:
    """Return (x − shift)/scale, by halves because the difference of two numbers of float64 may not be one."""
    with np.errstate(over="ignore"):
        return (x * 0.5 - shift * 0.5) / scale * 2.0


def _choose_squash(x: Values, weight: Values) -> Squash | None:
    """Choose the squash that leaves the lightest tails, or None for a column whose tails are not extreme.

    Candidates are centred at the median, in units of the median distance from it, or for positive numbers at 0, in
    units of a small quantile: that is a logarithm for columns that span decades.
    """
    before = moments(x, weight)
    if not before.varies or before.kurtosis <= EXTREME_KURTOSIS:
        return None
    centre = quantile(x, weight, 0.5)
    half_distance = np.abs(x * 0.5 - centre * 0.5)
    away = half_distance > 0  # a column of mostly one value has a typical distance too
    candidates = [Squash(centre, 2.0 * quantile(half_distance[away], weight[away], 0.5))]
    if x.min() > 0:
        candidates.append(Squash(0.0, quantile(x, weight, 0.05)))
    best, kurtosis = None, before.kurtosis
    for squash in candidates:
        squashed = moments(squash(x), weight) if np.isfinite(squash.scale) else before
        if squashed.varies and squashed.kurtosis < WORTHWHILE * kurtosis:
            best, kurtosis = squash, squashed.kurtosis
    return best
