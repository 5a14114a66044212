# SPDX-License-Identifier: Apache-2.0
"""Random splits are those of the paper's seeds, complete and disjoint; scaling knows the training rows only."""

import hashlib
import os

import numpy as np
import pytest
from scipy.stats import norm, rankdata
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from fpovi.datasets.scaling import INPUTS, normal_scores, scale_split, whiten
from fpovi.datasets.uci import (
    PARTS,
    SPLIT_KINDS,
    UCI,
    Regression,
    Split,
    held_out,
    load_held_out,
    load_split,
    random_parts,
    standard_parts,
)

needs_data = pytest.mark.skipif(not os.environ.get("FPOVI_DATA"), reason="FPOVI_DATA names no folder with data files")


def numbered(rows):
    y = np.arange(float(rows))
    return Regression(np.stack([y, -y], axis=1), y, np.zeros((1, 1), np.int32))


@pytest.mark.parametrize("name", ["boston", "concrete"])
@pytest.mark.parametrize("rows", [10, 308, 1030])
def test_parts_are_complete_and_disjoint(name, rows):
    parts = random_parts(name, rows, 3)
    assert sorted(np.concatenate(parts)) == list(range(rows))


@pytest.mark.parametrize(
    ("name", "rows", "sizes"),
    # train, valid, test: cut at 80 and 90 %, rounded; else at 90 % and 4/5 of that, both cut off
    [("boston", 506, (405, 51, 50)), ("yacht", 308, (246, 31, 31)), ("protein", 45730, (36584, 4573, 4573)),
     ("concrete", 1030, (741, 186, 103)), ("wine-red", 1599, (1151, 288, 160)), ("kin8nm", 8192, (5897, 1475, 820))],
)  # fmt: skip
def test_parts_have_the_papers_sizes(name, rows, sizes):
    assert tuple(map(len, random_parts(name, rows, 0))) == sizes


def test_the_draw_is_that_of_numpys_global_generator():
    """As the paper's programs do it: seed, then shuffle."""
    state = np.random.get_state()  # noqa: NPY002
    try:
        np.random.seed(1334 + 2)  # noqa: NPY002
        shuffled = np.arange(1030)
        np.random.shuffle(shuffled)  # noqa: NPY002
        np.random.seed(1333 + 2)  # noqa: NPY002
        chosen = np.random.choice(np.arange(1000), 1000, replace=False)  # noqa: NPY002
    finally:
        np.random.set_state(state)  # noqa: NPY002
    np.testing.assert_array_equal(random_parts("concrete", 1030, 2).test, shuffled[927:])
    np.testing.assert_array_equal(random_parts("protein", 1000, 2).test, chosen[800:900])


# rows of the set, and the start of the sha256 of the test rows of its first five splits
FROZEN = {
    "boston": (506, "5d6998efde0cafd1"),
    "concrete": (1030, "b09f6099eb421b2c"),
    "protein": (45730, "6e417fcc597447cf"),
}


@pytest.mark.parametrize("name", FROZEN)
def test_splits_never_change(name):
    """A result is tied to its split by number alone: another draw under the same number would go unnoticed."""
    count, known = FROZEN[name]
    rows = np.concatenate([random_parts(name, count, number).test for number in range(5)])
    assert hashlib.sha256(rows.astype("<i8").tobytes()).hexdigest()[:16] == known


@pytest.mark.parametrize("kind", SPLIT_KINDS)
def test_validation_rows_come_from_the_training_rows(kind):
    """A tenth of all rows, and the test rows stay the same."""
    data = numbered(200)._replace(test_index=np.arange(40, dtype=np.int32).reshape(2, 20))
    whole, inner = SPLIT_KINDS[kind]("boston", data, 1), held_out(data, PARTS[kind]("boston", data, 1))
    assert set(whole.y_train) == set(inner.split.y_train) | set(inner.y_valid)
    assert set(whole.y_test) == set(inner.split.y_test)
    assert len(inner.y_valid) == len(whole.y_train) - len(inner.split.y_train) == 20
    np.testing.assert_array_equal(inner.x_valid[:, 0], inner.y_valid)


def test_standard_validation_rows_never_change_and_differ_between_splits():
    data = numbered(50)._replace(test_index=np.arange(10, dtype=np.int32).reshape(2, 5))
    first, second = (standard_parts(data, number).valid.tolist() for number in range(2))
    assert first == [35, 42, 32, 9, 15]
    assert set(first) != set(second)
    with pytest.raises(ValueError, match="split=2 does not exist"):
        standard_parts(data, 2)


@needs_data
def test_rows_held_out_of_real_sets():
    found = load_held_out("yacht", "random", 3)
    assert (len(found.split.y_train), len(found.y_valid), len(found.split.y_test)) == (246, 31, 31)


@needs_data
@pytest.mark.parametrize("kind", SPLIT_KINDS)
def test_a_split_by_name(kind):
    split = load_split("yacht", kind, 4)
    assert len(split.y_train) == 277
    assert len(split.y_test) == 31


@needs_data
def test_the_kinds_of_splits_differ():
    assert not np.array_equal(load_split("yacht", "standard").y_test, load_split("yacht", "random").y_test)


def test_bad_numbers_and_names():
    with pytest.raises(ValueError, match="number=-1 must not be negative"):
        random_parts("boston", 10, -1)
    assert set(SPLIT_KINDS) == {"standard", "random"}
    if os.environ.get("FPOVI_DATA"):
        with pytest.raises(ValueError, match="split_kind='fixed' is not known; choose one of random, standard"):
            load_split("yacht", "fixed")


def a_split(seed=0):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(3, [1.0, 20.0, 0.1], (50, 3)), rng.normal(-5, 4, 50)
    x[:, 2] = 7.0  # does not vary
    return Split(x[:40], y[:40], x[40:] + 100, y[40:] + 100)


def test_scaling_is_learned_from_training_rows_alone():
    split = a_split()
    scaled = scale_split(split)
    oracle = StandardScaler().fit(split.x_train)
    np.testing.assert_allclose(scaled.train.x, oracle.transform(split.x_train), atol=1e-5)
    np.testing.assert_allclose(scaled.x_test, oracle.transform(split.x_test), rtol=1e-5)
    np.testing.assert_array_equal(scaled.y_test, split.y_test)
    shift, scale = scaled.target
    np.testing.assert_allclose(np.asarray(scaled.train.y)[:, 0] * scale + shift, split.y_train, rtol=1e-5)
    assert scaled.train.x.dtype == np.float32


def test_unit_norm():
    split = a_split()
    plain, unit = scale_split(split), scale_split(split, unit_norm=True)
    np.testing.assert_allclose(unit.train.x, plain.train.x / np.sqrt(3), atol=1e-6)
    varying = np.asarray(unit.train.x)[:, :2]
    assert np.mean(np.sum(varying**2, axis=1)) == pytest.approx(2 / 3, rel=1e-5)


@needs_data
@pytest.mark.parametrize("name", sorted(set(UCI) - {"naval", "protein"}))
def test_squared_norm_of_real_inputs_is_one(name):
    x = np.asarray(scale_split(load_split(name, "random"), unit_norm=True).train.x)
    assert np.mean(np.sum(x**2, axis=1)) == pytest.approx(1, rel=1e-4)


@pytest.mark.parametrize("x", [np.full((5, 2), 3.1), np.full((5, 2), np.nan)])
def test_inputs_without_principal_components_are_refused(x):
    with pytest.raises(ValueError, match="x_train must be finite, and some column must vary"):
        whiten(Split(x, np.arange(5.0), x, np.arange(5.0)))


def test_fewer_rows_than_inputs_have_fewer_components():
    x = np.random.default_rng(0).normal(size=(6, 10))
    white = whiten(Split(x[:4], x[:4, 0], x[4:], x[4:, 0]))
    assert (white.x_train.shape, white.x_test.shape) == ((4, 3), (2, 3))
    np.testing.assert_allclose(white.x_train.T @ white.x_train / 4, np.eye(3), atol=1e-10)  # float64


def test_normal_scores_are_normal_quantiles_of_ranks():
    """scipy's ranks of the training rows, ties at their mean; test rows in between, and never beyond the last."""
    x = np.round(np.random.default_rng(0).exponential(size=(200, 2)), 1)  # with ties
    x_test = np.asarray([[-5.0, 100.0], [0.25, 0.3]])
    found = normal_scores(Split(x, x[:, 0], x_test, np.zeros(2)))
    expected = norm.ppf((rankdata(x, axis=0) - 0.5) / len(x))
    np.testing.assert_allclose(found.x_train, expected, rtol=1e-12)  # float64
    assert found.x_test[0].tolist() == [expected[:, 0].min(), expected[:, 1].max()]
    at = lambda value, column: expected[x[:, column] == value, column][0]  # noqa: E731
    np.testing.assert_allclose(found.x_test[1], [(at(0.2, 0) + at(0.3, 0)) / 2, at(0.3, 1)], rtol=1e-9)


def test_even_inputs_follow_no_outlier():
    """Inputs with tails as long as Cauchy's; of normal ones none of 1,000 is beyond 3.3, give or take a rotation."""
    x = np.random.default_rng(0).standard_cauchy(size=(1000, 3))
    split = Split(x, x[:, 0], 10 * x[:5], x[:5, 0])
    assert np.abs(INPUTS["white"](split).x_train).max() > 20
    even = INPUTS["even"](split)
    assert max(np.abs(even.x_train).max(), np.abs(even.x_test).max()) < 5


def test_what_has_no_rank_is_refused():
    x = np.asarray([[1.0], [np.nan], [np.inf]])
    with pytest.raises(ValueError, match="x_train must be finite to be ranked"):
        normal_scores(Split(x, x[:, 0], x, x[:, 0]))


def test_whitening_is_scikit_learns():
    """Principal components of standardised inputs, up to their signs, on training and test rows; constants are gone."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 3)) + 1e-3 * rng.normal(size=(60, 3))  # nearly copies
    x = np.column_stack([5 + x, np.full(60, 7.0), x[:, 0]])  # and a constant, and a copy
    white = whiten(Split(x[:40], x[:40, 0], x[40:], x[40:, 0]))
    scaler = StandardScaler().fit(x[:40])
    theirs = PCA(3, whiten=True, svd_solver="full").fit(scaler.transform(x[:40]))
    for ours, rows in ((white.x_train, x[:40]), (white.x_test, x[40:])):
        # theirs divide by n − 1, and have the largest component first; float64, of components 1,000 times as small
        expected = theirs.transform(scaler.transform(rows)) * (40 / 39) ** 0.5
        np.testing.assert_allclose(np.abs(ours[:, ::-1]), np.abs(expected), rtol=1e-6)
