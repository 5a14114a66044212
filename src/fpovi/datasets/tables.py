# SPDX-License-Identifier: Apache-2.0
"""Tables as people have them, with columns of all kinds, and random splits of them."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from fpovi._lookup import lookup
from fpovi.datasets.folder import data_file

LEAST_TEST, MOST_TEST, MOST_TRAIN, SEED = 100, 3000, 5000, 1000

# name -> the column to predict
REGRESSION = {
    "ames": "Sale_Price",
    "diamonds": "price",
    "chicago": "ridership",
    "nmes1988": "visits",
    "medexp": "med",
    "biomass": "HHV",
    "rainibk": "rain",
    "acs12": "income",
    "college": "Grad.Rate",
    "gapminder": "life_expectancy",
}
CLASSIFICATION = {
    "cells": "class",
    "credit": "Status",
    "caravan": "Purchase",
    "hpc": "class",
    "olive": "area",
    "chile": "vote",
    "orange_juice": "Purchase",
    "mpls_stops": "problem",
    "flchain": "death",
    "stackoverflow": "Remote",
}


class TableSplit(NamedTuple):
    """Rows to learn from and rows to predict; ``x`` are data frames and ``y`` columns, as a user has them."""

    x_train: pd.DataFrame
    y_train: pd.Series
    x_test: pd.DataFrame
    y_test: pd.Series


def load_table(name: str, folder: Path | str | None = None) -> tuple[pd.DataFrame, pd.Series]:
    """Return the features and the target of a table.

    Args:
        name: a key of :data:`REGRESSION` or :data:`CLASSIFICATION`.
        folder: the data folder, which holds ``tables/NAME.parquet``; by default what FPOVI_DATA names.
    """
    target = lookup(REGRESSION | CLASSIFICATION, name, "dataset")
    frame = pd.read_parquet(data_file(f"tables/{name}.parquet", folder))
    return frame.drop(columns=target), frame[target]


def load_table_split(name: str, number: int = 0, folder: Path | str | None = None) -> TableSplit:
    """Return a random split of a table: a fifth of the rows to predict, at most 3,000, and at most 5,000 to learn from.

    Args:
        name: a key of :data:`REGRESSION` or :data:`CLASSIFICATION`.
        number: which split, from 0.
        folder: as in :func:`load_table`.
    """
    x, y = load_table(name, folder)
    order = np.random.default_rng(SEED + number).permutation(len(y))
    size = min(max(len(y) // 5, LEAST_TEST), MOST_TEST)
    test, train = order[:size], order[size:][:MOST_TRAIN]
    return TableSplit(x.iloc[train], y.iloc[train], x.iloc[test], y.iloc[test])
