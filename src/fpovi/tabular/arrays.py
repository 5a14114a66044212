# SPDX-License-Identifier: Apache-2.0
"""Scale arrays of one shape, such as images: every entry stays, and rows keep their shape."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped
from numpy.typing import NDArray

from fpovi._lookup import lookup
from fpovi.persistence import plain
from fpovi.tabular.frame import Columns, as_table
from fpovi.tabular.shared_unit import share_a_range
from fpovi.tabular.unit import Span, check_unit
from fpovi.tabular.weights import ROUNDING, check_weight, merge_rows

AUTO = "auto"
SCALINGS = (AUTO, "entry", "channel", "whole", "none")
POOLED = {"channel": -1, "whole": 0}  # where the axes end that share a mean and a standard deviation
MOST_AXES = 8
BLOCK = 4096  # rows looked at together


@dataclass(frozen=True)
class ArrayEncoder:
    """Turns arrays of one shape into arrays for the network: ``encoder(X)``. Made by :func:`learn_arrays`.

    Attributes:
        shape: of one row, such as ``(28, 28, 1)``.
        shift, scale: one number, one per channel (the last axis), or one per entry.
        low, high: the smallest and largest value seen in training.
    """

    shape: tuple[int, ...]
    shift: NDArray[np.float64]
    scale: NDArray[np.float64]
    low: float
    high: float

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of a row before it is encoded."""
        return self.shape

    @property
    def columns(self) -> Columns:
        """No columns: a row is one array."""
        return Columns(None, ())

    def __call__(self, X: Any, unknown: str = "error") -> Float[np.ndarray, "N *d_x"]:
        """Return (X − shift)/scale in float32.

        Args:
            X: arrays of the shape seen in training, ``(N, *shape)``.
            unknown: of no meaning here.

        Raises:
            ValueError: for other shapes, values that are not finite, and values of another unit.
        """
        numbers = self.check(X)
        shift, scale = self.shift.astype(np.float32), self.scale.astype(np.float32)
        return (np.asarray(numbers, np.float32) - shift) / scale

    def numbers(self, X: Any, unknown: str = "error") -> Float[np.ndarray, "N *d_x"]:
        """Return the values of X as they are, in float64: what an exported program takes."""
        return np.asarray(self.check(X), np.float64)

    def check(self, X: Any) -> Shaped[np.ndarray, "N *d_x"]:
        """Return X as numbers, or raise a ``ValueError`` for what cannot be rows like those of training."""
        numbers = as_numbers(X)
        if numbers.shape[1:] != self.shape:
            one = numbers.shape == self.shape
            turned = len(self.shape) == 3 and numbers.shape[1:] == (self.shape[2], *self.shape[:2])
            hint = ": put channels last, np.moveaxis(X, 1, -1)" if turned else ": for one row, X[None]" if one else ""
            raise ValueError(f"X has rows of shape {numbers.shape[1:]}, but {self.shape} was seen in fit{hint}")
        low, high = _range(numbers)
        if len(self.shape) > 1 or not self.shift.shape:  # else each entry may have a unit of its own
            whole = bool(np.all(numbers == np.round(numbers)))
            check_unit(Span(low, high, whole), Span(self.low, self.high, whole=False))
        return numbers

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types in which every digit survives."""
        shift, scale = self.shift.ravel().tolist(), self.scale.ravel().tolist()
        return {"shape": list(self.shape), "shift": shift, "scale": scale, "low": self.low, "high": self.high}

    @classmethod
    def from_json(cls, fields: Any) -> "ArrayEncoder":
        """Restore an encoder, or raise a ``ValueError`` for anything that :meth:`to_json` cannot have written."""
        fields = plain.record(fields, "encoder", {"shape", "shift", "scale", "low", "high"})
        shape = tuple(fields["shape"]) if isinstance(fields["shape"], list) else ()
        if not 1 <= len(shape) <= MOST_AXES or not all(type(size) is int and 1 <= size <= 10**7 for size in shape):
            raise ValueError(f"shape is {fields['shape']!r:.40}, but a few whole numbers are needed")
        shift, scale = (np.asarray(plain.numbers(fields[name], name)) for name in ("shift", "scale"))
        sizes = {1: (), shape[-1]: shape[-1:], math.prod(shape): shape}
        if shift.size != scale.size or shift.size not in sizes or np.any(scale <= 0):
            raise ValueError("shift and scale need one positive scale for all, for each channel or for each entry")
        to = sizes[shift.size]
        low, high = (plain.number(fields[name], name) for name in ("low", "high"))
        return cls(shape, shift.reshape(to), scale.reshape(to), low, high)


def is_array(X: Any) -> bool:
    """Tell whether X is an array of numbers, and no table of columns of any kind."""
    return (isinstance(X, np.ndarray) and X.dtype.kind in "biuf") or _axes(X) > 2


def seems_channels_first(shape: tuple[int, ...]) -> bool:
    """Tell whether rows look like images whose channels, one or three, come first.

    >>> seems_channels_first((3, 32, 32)), seems_channels_first((28, 28, 1))
    (True, False)
    """
    return len(shape) == 3 and shape[0] in (1, 3) and min(shape[1:]) > 3


def as_rows(X: Any) -> Any:
    """Return arrays of rows of any shape as numbers, and tables as tables."""
    return as_numbers(X) if not hasattr(X, "iloc") and _axes(X) > 2 else as_table(X)


def _axes(X: Any) -> int:
    """Return how many axes X has; lists of unequal lengths are for :func:`as_table` to refuse."""
    try:
        return np.asarray(X).ndim
    except ValueError:
        return 2


def as_numbers(X: Any) -> Shaped[np.ndarray, "N *d_x"]:
    """Return X as an array of numbers ``(N, *shape)``, or raise a ``ValueError``."""
    numbers = np.asarray(X)
    if numbers.ndim < 2 or numbers.shape[0] == 0 or 0 in numbers.shape:
        raise ValueError(f"X has shape {numbers.shape}, but at least one row of at least one number is needed")
    if numbers.dtype.kind not in "biuf":
        raise ValueError(f"X has values of type {numbers.dtype}, but with network= only numbers can be used")
    return numbers


def learn_arrays(X: Any, weight: Any = None, scaling: str = AUTO) -> ArrayEncoder:
    """Learn from training arrays how to bring them to mean 0 and variance 1.

    Args:
        X: numbers ``(N, *shape)``.
        weight: one number per row, ones by default; rows of weight 0 do not count.
        scaling: "entry" (each place of a row has its mean and standard deviation), "channel" (one pair for each index
            of the last axis), "whole" (one pair for all), "none", or "auto": "channel" for rows of several axes;
            for vectors "whole" if their entries are many that mostly share a range, such as pixels, else "entry". What
            does not vary keeps its unit.

    Raises:
        ValueError: for values that are no finite numbers.

    >>> learn_arrays(np.arange(8.0).reshape(2, 2, 2, 1))(np.full((1, 2, 2, 1), 3.5)).ravel().tolist()
    [0.0, 0.0, 0.0, 0.0]
    """
    lookup(dict.fromkeys(SCALINGS), scaling, "scaling")
    numbers = as_numbers(X)
    weight = check_weight(weight, len(numbers))
    numbers, weight = numbers[weight > 0], weight[weight > 0]
    shape, (low, high) = numbers.shape[1:], _range(numbers)
    if scaling == AUTO:
        scaling = "channel" if len(shape) > 1 else "whole" if _of_one_unit(numbers) else "entry"
    mean, variance = (np.zeros(()), np.ones(())) if scaling == "none" else _moments(numbers, weight)
    if scaling in POOLED:
        together = tuple(range(len(shape)))[: POOLED[scaling] or None]
        mean, variance = mean.mean(axis=together), variance.mean(axis=together) + mean.var(axis=together)
    varies = np.sqrt(variance) > ROUNDING * max(abs(low), abs(high))
    return ArrayEncoder(shape, np.asarray(mean), np.where(varies, np.sqrt(variance), 1.0), low, high)


def _of_one_unit(numbers: Shaped[np.ndarray, "N d"]) -> bool:
    low, high = (end.astype(np.float64) for end in (numbers.min(axis=0), numbers.max(axis=0)))
    return share_a_range(low, high, low < high)


def collect_rows(x: Any, y: Any, weight: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]:
    """Return rows to learn from: vectors merged and sorted (:func:`merge_rows`), arrays as they are.

    Rows of weight 0 are left out.
    """
    if np.ndim(x) == 2:
        return merge_rows(x, y, weight)
    kept = weight > 0
    return x[kept], y[kept], np.asarray(weight, np.float64)[kept]


def _moments(numbers: NDArray[Any], weight: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return weighted mean and variance of each entry, a block of rows at a time."""
    share, mean, variance = weight / weight.sum(), np.zeros(numbers.shape[1:]), np.zeros(numbers.shape[1:])
    blocks = [slice(first, first + BLOCK) for first in range(0, len(numbers), BLOCK)]
    for rows in blocks:
        mean += np.tensordot(share[rows], numbers[rows].astype(np.float64), 1)
    for rows in blocks:
        variance += np.tensordot(share[rows], (numbers[rows] - mean) ** 2, 1)
    return mean, variance


def _range(numbers: NDArray[Any]) -> tuple[float, float]:
    """Return the smallest and largest value, or raise a ``ValueError`` if one is not finite."""
    low, high = float(numbers.min()), float(numbers.max())
    if not (np.isfinite(low) and np.isfinite(high)):
        bad = ~np.isfinite(numbers).reshape(len(numbers), -1).all(axis=1)
        raise ValueError(
            f"X has {bad.sum()} rows with NaN or infinity, the first at row {int(np.argmax(bad))}: a network given as "
            "network= sees every number, so fill them in or leave these rows out"
        )
    return low, high
