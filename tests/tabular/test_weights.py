# SPDX-License-Identifier: Apache-2.0
"""Weighted rows: a weight of 2 is the row twice, and the order of rows does not matter."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fpovi.tabular import merge_rows
from fpovi.tabular.weights import moments, quantile

SMALL = st.sampled_from([-1.0, -0.0, 0.0, 0.5, 2.0])


@st.composite
def rows(draw):
    n, d, m = draw(st.integers(1, 12)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
    cells = draw(st.lists(SMALL, min_size=n * (d + m), max_size=n * (d + m)))
    table = np.asarray(cells).reshape(n, d + m)
    copies = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n).filter(any))
    return table[:, :d], table[:, d:], np.asarray(copies, float)


@settings(max_examples=100, deadline=None)
@given(rows(), st.randoms(use_true_random=False))
def test_weights_copies_and_orders_give_the_same_arrays(table, random):
    X, y, weight = table
    order = np.repeat(np.arange(len(X)), weight.astype(int)).tolist()
    random.shuffle(order)
    for one, other in zip(merge_rows(X, y, weight), merge_rows(X[order], y[order]), strict=True):
        np.testing.assert_array_equal(one, other)
        assert not np.signbit(one[one == 0]).any()


@settings(max_examples=100, deadline=None)
@given(rows())
def test_rows_are_numpys_unique_ones(table):
    X, y, weight = table
    kept = weight > 0
    together = np.column_stack([X, y]) + 0.0
    unique, inverse = np.unique(together[kept], axis=0, return_inverse=True)
    merged_X, merged_y, merged_weight = merge_rows(X, y, weight)
    np.testing.assert_array_equal(np.column_stack([merged_X, merged_y]), unique)
    np.testing.assert_array_equal(merged_weight, np.bincount(inverse.ravel(), weight[kept]))


def test_sums_are_rounded_alike_however_copies_are_listed():
    rng = np.random.default_rng(0)
    weight = rng.uniform(size=100) * 10 ** rng.uniform(-8, 8, 100)
    X, y = np.zeros((100, 2)), np.ones(100)
    for _ in range(5):
        np.testing.assert_array_equal(merge_rows(X, y, weight)[2], merge_rows(X, y, rng.permutation(weight))[2])


def test_targets_keep_their_type_and_shape():
    X = [[1.0], [0.0], [1.0]]
    assert merge_rows(X, [1, 2, 1])[1].dtype == np.int64
    assert merge_rows(X, [True, False, True])[1].tolist() == [False, True]
    assert merge_rows(X, [[1.0, 2.0]] * 3)[1].shape == (2, 2)


def test_equal_inputs_with_other_targets_stay_apart():
    X, y, weight = merge_rows([[1.0], [1.0], [1.0]], [0, 1, 0])
    assert X.tolist() == [[1.0], [1.0]]
    assert y.tolist() == [0, 1]
    assert weight.tolist() == [2.0, 1.0]


@pytest.mark.parametrize(
    ("X", "y", "weight", "said"),
    [
        ([1.0], [1.0], None, r"X has shape \(1,\) and y \(1,\), but \(N, d\)"),
        ([[1.0]], [1.0, 2.0], None, r"X has shape \(1, 1\) and y \(2,\)"),
        ([[np.nan]], [1.0], None, "X or y has NaN"),
        ([[1.0]], [np.nan], None, "X or y has NaN"),
        ([[1.0]], ["a"], None, "y has values of type .U1, but numbers are needed"),
        ([[1.0]], [1.0], [-1.0], "weight has -1.0 at row 0"),
        ([[1.0]], [1.0], [0.0], "weight is 0 everywhere"),
    ],
)
def test_what_cannot_be_merged_is_refused(X, y, weight, said):
    with pytest.raises(ValueError, match=said):
        merge_rows(X, y, weight)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_kurtosis_is_scipys(rng):
    x, copies = rng.exponential(size=40), rng.integers(1, 4, 40)
    ours = moments(x, copies.astype(float))
    repeated = np.repeat(x, copies)
    assert ours.kurtosis == pytest.approx(stats.kurtosis(repeated, fisher=False), rel=1e-12)  # float64
    assert ours.std == pytest.approx(repeated.std(), rel=1e-12)


@pytest.mark.parametrize("level", [0.05, 0.5, 0.9])
def test_quantile_is_numpys_by_inverting_the_distribution(rng, level):
    x, copies = rng.normal(size=30), rng.integers(1, 4, 30)
    expected = np.quantile(np.repeat(x, copies), level, method="inverted_cdf")
    assert quantile(x, copies.astype(float), level) == expected
    assert quantile(x, copies * 0.1, level) == expected


def test_quantile_gives_equal_weights_equal_levels():
    """0.3 + 0.3 is a rounding away from 0.6, and halves of the weight must be halves in any unit."""
    rng = np.random.default_rng(0)
    for unit in (1.0, 0.1, 0.3, 1 / 7):
        for _ in range(300):
            copies = rng.integers(1, 5, rng.integers(2, 12))
            x = rng.normal(size=len(copies)).round(1)
            expected = np.quantile(np.repeat(x, copies), 0.5, method="inverted_cdf")
            assert quantile(x, copies * unit, 0.5) == expected
