# SPDX-License-Identifier: Apache-2.0
"""The UCI regression sets with their standard splits (Hernández-Lobato & Adams 2015; Gal & Ghahramani 2016)."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fpovi._lookup import lookup
from fpovi.datasets.catalogue import DATASETS
from fpovi.datasets.folder import data_file

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
