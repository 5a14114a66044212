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

from fpovi.data.uci import Regression, Split, load_uci, standard_split
from fpovi.types import lookup

FIRST_SEED, FIRST_SEED_OF_PROTEIN = 1334, 1333
IN_TENTHS = ("boston", "protein", "yacht")  # cut at 80 and 90 %; the others at 72 and 90 %
Rows = NDArray[np.intp]


class Parts(NamedTuple):
    """Row numbers. ``valid`` is held out of training only where something is chosen by it."""

    train: Rows
    valid: Rows
    test: Rows


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


def validation_split(name: str, data: Regression, number: int) -> Split:
    """What random split ``number`` leaves for choosing: its validation rows are the test rows of this split."""
    train, valid, _ = random_parts(name, len(data.y), number)
    return _take(data, train, valid)


def _take(data: Regression, train: Rows, test: Rows) -> Split:
    return Split(data.x[train], data.y[train], data.x[test], data.y[test])


DRAWS: dict[str, Callable[[str, Regression, int], Split]] = {
    "standard": lambda name, data, number: standard_split(data, number),
    "random": random_split,
}


def load_split(name: str, draw: str = "standard", number: int = 0, folder: Path | str | None = None) -> Split:
    """Split ``number`` of a UCI set, drawn in one of the ways that :data:`DRAWS` lists."""
    return lookup(DRAWS, draw, "draw")(name, load_uci(name, folder), number)
