# SPDX-License-Identifier: Apache-2.0
"""Mixed tables and their splits, where the data lie."""

import json

import numpy as np
import pandas as pd
import pytest

from fpovi.datasets.folder import data_folder
from fpovi.datasets.tables import CLASSIFICATION, REGRESSION, load_table, load_table_split

there = pytest.mark.skipif(not (data_folder() / "tables").is_dir(), reason="FPOVI_DATA holds no tables")


@there
def test_targets_and_sizes_are_those_of_the_list():
    listed = {each["name"]: each for each in json.loads((data_folder() / "tables/tables.json").read_text())}
    assert set(listed) == set(REGRESSION | CLASSIFICATION)
    for name, target in (REGRESSION | CLASSIFICATION).items():
        assert listed[name]["target"] == target
        assert (listed[name]["task"] == "classification") == (name in CLASSIFICATION)
    for name in ("olive", "biomass"):
        x, y = load_table(name)
        assert x.shape == (listed[name]["rows"], listed[name]["features"])
        assert len(y) == len(x)


@there
def test_a_split_is_the_one_that_was_agreed_on():
    x, y = load_table("mpls_stops")
    order = np.random.default_rng(1002).permutation(20_000)
    split = load_table_split("mpls_stops", 2)
    pd.testing.assert_frame_equal(split.x_test, x.iloc[order[:3000]])
    pd.testing.assert_frame_equal(split.x_train, x.iloc[order[3000:8000]])
    pd.testing.assert_series_equal(split.y_test, y.iloc[order[:3000]])
    assert len(load_table_split("olive").y_test) == 114


def test_a_table_that_is_not_there_says_where_it_is_looked_for(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"tables/olive\.parquet is not there: set FPOVI_DATA"):
        load_table("olive", tmp_path)
    with pytest.raises(ValueError, match="dataset"):
        load_table("titanic", tmp_path)
