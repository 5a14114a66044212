# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from fpovi.preprocessing import standardiser


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
