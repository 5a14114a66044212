# SPDX-License-Identifier: Apache-2.0
import json

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler

from fpovi.tabular import Standardiser, learn_target, standardiser


@pytest.fixture
def table():
    return np.random.default_rng(0).normal(size=(50, 3)) * [1e-6, 1.0, 1e6] + [0.0, -3.0, 1e7]


def test_columns_get_mean_zero_and_variance_one(table):
    standard = standardiser(table)(table)
    np.testing.assert_allclose(standard.mean(axis=0), 0, atol=1e-13)  # float64, 50 terms of size 1
    np.testing.assert_allclose(standard.std(axis=0), 1, rtol=1e-12)


def test_new_rows_use_the_old_shift_and_scale(table):
    fitted = standardiser(table)
    np.testing.assert_allclose(
        fitted([[0.0, 0.0, 0.0]]), [-table.mean(axis=0) / table.std(axis=0)], rtol=1e-12
    )  # one formula, written twice


def test_shift_and_scale_undo_the_map(table):
    fitted = standardiser(table)
    np.testing.assert_allclose(fitted.shift + fitted.scale * fitted(table), table, rtol=1e-12)  # float64


@pytest.mark.parametrize("value", [0.0, 5.0, 0.1, 0.998])
def test_a_constant_column_keeps_scale_one(value):
    """0.1 and 0.998 have no exact binary form: the mean of many is off by a rounding, and so is their deviation."""
    fitted = standardiser(np.full((10_000, 2), value))
    np.testing.assert_array_equal(fitted.scale, 1)
    np.testing.assert_allclose(fitted(np.full((1, 2), value + 1)), 1, rtol=1e-9)  # 10,000 roundings of the mean


def test_a_column_of_tiny_steps_still_varies():
    np.testing.assert_allclose(standardiser([[1e-30], [3e-30]]).scale, 1e-30, rtol=1e-12)


def test_whole_numbers_and_one_dimension_will_do():
    np.testing.assert_array_equal(standardiser([1, 3])([3, 5]), [1, 3])


@pytest.mark.parametrize("empty", [np.zeros((0, 2)), np.zeros(0), np.float64(1.0)])
def test_at_least_one_row_is_needed(empty):
    with pytest.raises(ValueError, match=r"a has shape .* at least one row is needed"):
        standardiser(empty)


def test_targets_are_standardised_as_by_scikit_learn(table):
    weight = np.random.default_rng(1).integers(0, 4, 50)
    ours = learn_target(table, weight)
    theirs = StandardScaler().fit(table, sample_weight=weight)
    np.testing.assert_allclose(ours.shift, theirs.mean_, rtol=1e-12, atol=1e-18)  # theirs updates a running mean
    np.testing.assert_allclose(ours.scale, theirs.scale_, rtol=1e-9)
    repeated = learn_target(np.repeat(table, weight, axis=0))
    np.testing.assert_array_equal(ours, repeated)  # to the last bit


@pytest.mark.parametrize("y", [[1.0, 3.0], [1, 3], pd.Series([1, 3]), pd.Series([1, 3], dtype="Int64"), [[1], [3]]])
def test_one_target_has_shape_one(y):
    fitted = learn_target(y)
    assert fitted.shift.tolist() == [2.0]
    assert fitted.scale.tolist() == [1.0]
    np.testing.assert_array_equal(fitted([2.0, 4.0]), [0.0, 2.0])


def test_a_constant_target_keeps_scale_one():
    fitted = learn_target([[0.1, 1.0], [0.1, 3.0], [0.1, 5.0]])
    np.testing.assert_allclose(fitted.shift, [0.1, 3.0], rtol=1e-15)  # one rounding of the mean
    assert fitted.scale[0] == 1


@pytest.mark.parametrize("target", [True, False])
def test_json_keeps_every_digit(table, target):
    fitted = learn_target(table) if target else standardiser(table)
    again = Standardiser.from_json(json.loads(json.dumps(fitted.to_json(), allow_nan=False)))
    np.testing.assert_array_equal(again.shift, fitted.shift)
    np.testing.assert_array_equal(again.scale, fitted.scale)


@pytest.mark.parametrize(
    "fields",
    [
        None,
        [],
        {},
        {"shift": [0.0]},
        {"shift": 0.0, "scale": 1.0},
        {"shift": [0.0], "scale": [0.0]},
        {"shift": [0.0], "scale": [1.0, 1.0]},
        {"shift": [], "scale": []},
        {"shift": [float("nan")], "scale": [1.0]},
        {"shift": ["0"], "scale": [1.0]},
        {"shift": [10**400], "scale": [1.0]},
        {"shift": [0.0], "scale": [1.0], "more": 1},
    ],
)
def test_hostile_json_is_a_value_error(fields):
    with pytest.raises(ValueError, match=r"shift|scale|standardiser"):
        Standardiser.from_json(fields)


@pytest.mark.parametrize(
    ("y", "said"),
    [
        ([1.0, np.nan], "y has nan at row 1, but all targets must be finite"),
        ([[1.0, 2.0], [1.0, np.inf]], "y has inf at row 1"),
        (["a", "b"], "y has values of type .U1, but real numbers are needed"),
        (np.asarray(["a", 1], object), "y cannot be read as an array of numbers"),
        (np.asarray([1j]), "y has values of type complex128"),
        ([], r"y has shape \(0,\)"),
        (np.ones((2, 2, 2)), r"y has shape \(2, 2, 2\)"),
        (5.0, r"y has shape \(\)"),
    ],
)
def test_targets_that_are_no_numbers_are_refused(y, said):
    with pytest.raises(ValueError, match=said):
        learn_target(y)


def test_targets_of_weight_zero_may_be_anything():
    assert learn_target([1.0, np.nan, 3.0], [1, 0, 1]).shift.tolist() == [2.0]
