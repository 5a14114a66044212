# SPDX-License-Identifier: Apache-2.0
"""The UCI regression sets (Hernández-Lobato & Adams 2015) and their rows for training, validation and tests.

There are the fixed standard splits (Gal & Ghahramani 2016), and random ones. The experiments of Wang et al. (2019) seed
NumPy's global generator, shuffle the rows, and cut. Drawn here with the same generator and seeds, the splits are theirs
for every set whose file lists the rows in the order of their download.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fpovi._lookup import lookup
from fpovi.datasets.catalogue import DATASETS
from fpovi.datasets.folder import data_file
from fpovi.tabular import standardiser

# name -> file in the data folder
UCI = {name: known.files[0].path for name, known in DATASETS.items() if known.files[0].path.startswith("uci/")}


class Regression(NamedTuple):
    """A regression set: all rows x ``(N, d)`` and y ``(N,)``, and the test rows of every standard split."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    test_index: NDArray[np.int32]


class Split(NamedTuple):
    """Training and test rows of one split, in their own units."""

    x_train: NDArray[np.float64]
    y_train: NDArray[np.float64]
    x_test: NDArray[np.float64]
    y_test: NDArray[np.float64]


def load_uci(name: str, folder: Path | str | None = None) -> Regression:
    """Read a UCI regression set.

    Args:
        name: one of :data:`UCI`.
        folder: the data folder; by default what FPOVI_DATA names, else the user's cache.
    """
    with np.load(data_file(lookup(UCI, name, "dataset"), folder), allow_pickle=False) as file:
        return Regression(file["x"], file["y"], file["test_index"])


def in_standard_test(data: Regression, number: int) -> NDArray[np.bool_]:
    """Return for every row whether it is a test row of standard split ``number``."""
    if not 0 <= number < len(data.test_index):
        raise ValueError(f"split={number} does not exist: this set has splits 0…{len(data.test_index) - 1}")
    test = np.zeros(len(data.y), bool)
    test[data.test_index[number]] = True
    return test


def standard_split(data: Regression, number: int) -> Split:
    """Return standard split ``number``: the listed rows are the test set, all others the training set."""
    test = in_standard_test(data, number)
    return Split(data.x[~test], data.y[~test], data.x[test], data.y[test])


FIRST_SEED, FIRST_SEED_OF_PROTEIN = 1334, 1333
IN_TENTHS = ("boston", "protein", "yacht")  # cut at 80 and 90 %; the others at 72 and 90 %
SOURCE_SHARE = 0.7  # of all rows, of a set that is divided into regions
TRAIN_SHARE = 0.9  # of the source's rows; the others test that nothing is lost there
Rows = NDArray[np.intp]


class Parts(NamedTuple):
    """Row numbers of a split. ``valid`` is held out of training only where something is chosen by it."""

    train: Rows
    valid: Rows
    test: Rows


class HeldOut(NamedTuple):
    """A split whose training rows lack some that serve to choose by: ``x_valid`` and ``y_valid``."""

    split: Split
    x_valid: NDArray[np.float64]
    y_valid: NDArray[np.float64]


def random_parts(name: str, rows: int, number: int) -> Parts:
    """Draw random split ``number`` of a data set: 10 % test rows, and 10 or 18 % for validation.

    Args:
        name: the data set; its seed and its shares are those of the paper's program for it.
        rows: how many rows it has.
        number: which split, from 0.
    """
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
    """Return random split ``number`` with nothing held out: 90 % of the rows train."""
    train, valid, test = random_parts(name, len(data.y), number)
    return _take(data, np.concatenate([train, valid]), test)


def standard_parts(data: Regression, number: int) -> Parts:
    """Return standard split ``number``, with a tenth of all rows drawn from its training rows for validation."""
    in_test = in_standard_test(data, number)
    order = np.random.RandomState(number).permutation(np.flatnonzero(~in_test))
    held = round(0.1 * len(in_test))
    return Parts(train=order[held:], valid=order[:held], test=np.flatnonzero(in_test))


def held_out(data: Regression, parts: Parts) -> HeldOut:
    """Return the rows of ``parts``, those for validation apart."""
    return HeldOut(_take(data, parts.train, parts.test), data.x[parts.valid], data.y[parts.valid])


def _take(data: Regression, train: Rows, test: Rows) -> Split:
    return Split(data.x[train], data.y[train], data.x[test], data.y[test])


class Regions(NamedTuple):
    """Row numbers: of the source, to train and to test on; of the target, without targets and to test on."""

    train: Rows
    source: Rows
    unlabelled: Rows
    target: Rows


def divide(x: NDArray[np.float64], number: int) -> Regions:
    """Return the rows below the quantile .7 of the first principal component as the source, the others as the target.

    Within a region rows are divided at random; ``number`` is the seed.
    """
    z = standardiser(x)(x)
    axis = np.linalg.svd(z, full_matrices=False)[2][0]
    axis *= np.sign(axis[np.argmax(np.abs(axis))])  # an axis has no direction of its own
    order = np.argsort(z @ axis, kind="stable")
    rng, cut = np.random.default_rng(number), round(SOURCE_SHARE * len(x))
    source, target = rng.permutation(order[:cut]), rng.permutation(order[cut:])
    kept, half = round(TRAIN_SHARE * len(source)), len(target) // 2
    return Regions(source[:kept], source[kept:], target[:half], target[half:])


SPLIT_KINDS: dict[str, Callable[[str, Regression, int], Split]] = {
    "standard": lambda name, data, number: standard_split(data, number),
    "random": random_split,
}
PARTS: dict[str, Callable[[str, Regression, int], Parts]] = {
    "standard": lambda name, data, number: standard_parts(data, number),
    "random": lambda name, data, number: random_parts(name, len(data.y), number),
}


def load_split(name: str, split_kind: str = "standard", number: int = 0, folder: Path | str | None = None) -> Split:
    """Return a split of a UCI set.

    Args:
        name: one of :data:`~fpovi.datasets.uci.UCI`.
        split_kind: how splits are made, one of :data:`SPLIT_KINDS`.
        number: which split, from 0.
        folder: the data folder; by default what FPOVI_DATA names, else the user's cache.
    """
    return lookup(SPLIT_KINDS, split_kind, "split_kind")(name, load_uci(name, folder), number)


def load_held_out(
    name: str, split_kind: str = "standard", number: int = 0, folder: Path | str | None = None
) -> HeldOut:
    """Return the split of :func:`load_split` with validation rows taken out of its training rows."""
    data = load_uci(name, folder)
    return held_out(data, lookup(PARTS, split_kind, "split_kind")(name, data, number))
