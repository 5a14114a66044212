# SPDX-License-Identifier: Apache-2.0
"""Which rows train and which test: the fixed standard splits, and random ones drawn as the paper draws them.

The experiments of Wang et al. (2019) seed NumPy's global generator, shuffle the rows, and cut. Drawn here with the same
generator and seeds, the splits are theirs for every set whose file lists the rows in the order of their download.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fpovi.datasets.uci import Regression, Split, in_standard_test, load_uci, standard_split
from fpovi.types import lookup

FIRST_SEED, FIRST_SEED_OF_PROTEIN = 1334, 1333
IN_TENTHS = ("boston", "protein", "yacht")  # cut at 80 and 90 %; the others at 72 and 90 %
Rows = NDArray[np.intp]


class Parts(NamedTuple):
    """Row numbers. ``valid`` is held out of training only where something is chosen by it."""

    train: Rows
    valid: Rows
    test: Rows


class HeldOut(NamedTuple):
    """A split from whose training rows some are taken away, to choose by: ``x_valid`` and ``y_valid``."""

    split: Split
    x_valid: NDArray[np.float64]
    y_valid: NDArray[np.float64]


def random_parts(name: str, rows: int, number: int) -> Parts:
    """Random split ``number`` (from 0) of the data set ``name``: 10 % test rows, and 10 or 18 % for validation."""
    if number < 0:
        raise ValueError(f"number={number} must not be negative")
    seed = number + (FIRST_SEED_OF_PROTEIN if name == "protein" else FIRST_SEED)
    order = np.random.RandomState(seed).permutation(rows)  # the paper's generator, which NumPy has frozen
    if name in IN_TENTHS:
        first, second = round(0.8 * rows), round(0.9 * rows)
        return Parts(train=order[:first], valid=order[second:], test=order[first:second])
    second = int(0.9 * rows)
    first = second * 4 // 5
    return Parts(train=order[:first], valid=order[first:second], test=order[second:])


def random_split(name: str, data: Regression, number: int) -> Split:
    """Random split ``number`` with nothing held out: 90 % of the rows train."""
    train, valid, test = random_parts(name, len(data.y), number)
    return _take(data, np.concatenate([train, valid]), test)


def standard_parts(data: Regression, number: int) -> Parts:
    """Standard split ``number``, and of its training rows some at random for validation: a tenth of all rows."""
    in_test = in_standard_test(data, number)
    order = np.random.RandomState(number).permutation(np.flatnonzero(~in_test))
    held = round(0.1 * len(in_test))
    return Parts(train=order[held:], valid=order[:held], test=np.flatnonzero(in_test))


def held_out(data: Regression, parts: Parts) -> HeldOut:
    """The rows of ``parts``, those for validation apart."""
    return HeldOut(_take(data, parts.train, parts.test), data.x[parts.valid], data.y[parts.valid])


def _take(data: Regression, train: Rows, test: Rows) -> Split:
    return Split(data.x[train], data.y[train], data.x[test], data.y[test])


SPLIT_KINDS: dict[str, Callable[[str, Regression, int], Split]] = {
    "standard": lambda name, data, number: standard_split(data, number),
    "random": random_split,
}
PARTS: dict[str, Callable[[str, Regression, int], Parts]] = {
    "standard": lambda name, data, number: standard_parts(data, number),
    "random": lambda name, data, number: random_parts(name, len(data.y), number),
}


def load_split(name: str, split_kind: str = "standard", number: int = 0, folder: Path | str | None = None) -> Split:
    """Split ``number`` of a UCI set, drawn in one of the ways that :data:`SPLIT_KINDS` lists."""
    return lookup(SPLIT_KINDS, split_kind, "split_kind")(name, load_uci(name, folder), number)


def load_held_out(
    name: str, split_kind: str = "standard", number: int = 0, folder: Path | str | None = None
) -> HeldOut:
    """The same split with validation rows taken out of its training rows."""
    data = load_uci(name, folder)
    return held_out(data, lookup(PARTS, split_kind, "split_kind")(name, data, number))
