# SPDX-License-Identifier: Apache-2.0
"""Targets of a table: split off, checked, and told apart as numbers or classes."""

import numpy as np
import pandas as pd
import pytest

from fpovi.tabular.target_columns import infer_task, split_target
from support.table_files import mixed_frame, refused


@pytest.fixture
def frame():
    return mixed_frame()


def test_one_target_is_a_column_and_several_a_frame(frame):
    X, y = split_target(frame, "number")
    assert "number" not in X
    pd.testing.assert_series_equal(y, frame["number"])
    X, y = split_target(frame, ["number", "count"])
    assert list(X) == ["word, quoted", "truth", "day", "gaps"]
    assert list(y) == ["number", "count"]


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ("nummer", "target: there is no column 'nummer'; did you mean 'number'?"),
        (
            "xyz",
            "target: there is no column 'xyz'; "
            "the columns are 'number', 'count', 'word, quoted', 'truth', 'day', 'gaps'",
        ),
        (["number", "cuont"], "target: there is no column 'cuont'; did you mean 'count'"),
        (["number", "number"], "names a column twice"),
        ([], "no column is named"),
        ("gaps", "column 'gaps' has 25 missing values, the first at row 0"),
        (["number", "count", "word, quoted", "truth", "day"], None),
    ],
)
def test_targets_are_checked(frame, column, said):
    if said is None:
        said = "the table has no columns besides"
        frame = frame.drop(columns="gaps")
    assert said in refused(split_target, frame, column)


@pytest.mark.parametrize(
    ("y", "task"),
    [
        (["a", "b"], "classification"),
        ([True, False], "classification"),
        (pd.Series(["a", "b", "a"]), "classification"),
        (pd.Series(["a", "b"], dtype="category"), "classification"),
        (pd.Series([1.5, 2.5], dtype="category"), "classification"),
        (pd.Series([True, False], dtype="boolean"), "classification"),
        (pd.Series(["a", "b"], dtype=object), "classification"),
        ([0, 1, 1, 0], "classification"),
        (pd.Series([0, 1, 1, 0], dtype="Int64"), "classification"),
        (np.asarray([[0], [1], [1], [0]]), "classification"),
        (np.arange(100) % 10, "classification"),
        (np.arange(100) % 11, "regression"),
        ([1, 2, 3], "regression"),
        ([0.0, 1.0, 1.0, 0.0], "regression"),
        (pd.Series([1, 2.5], dtype=object), "regression"),
        (np.zeros((10, 2), int), "regression"),
        (pd.DataFrame({"a": [1.5, 2.5], "b": [0, 1]}), "regression"),
    ],
)
def test_the_task_follows_from_the_targets(y, task):
    assert infer_task(y) == task


@pytest.mark.parametrize(
    ("y", "said"),
    [
        (pd.to_datetime(["2024-01-01"]), "are neither numbers nor classes"),
        ([1j], "are neither numbers nor classes"),
        (pd.Series([1, "a"], dtype=object), "are neither numbers nor classes"),
        (pd.DataFrame({"a": ["x"], "b": ["y"]}), "several columns of classes"),
        (pd.DataFrame({"a": [True, False], "b": [False, True]}), "several columns of classes"),
    ],
)
def test_targets_that_suit_no_task_say_so(y, said):
    assert said in refused(infer_task, y)
