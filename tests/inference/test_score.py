# SPDX-License-Identifier: Apache-2.0
"""Where the prior is felt, and at which classes. What becomes of scores is tested in ``test_function_space.py``."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fpovi.inference import make_batch
from fpovi.inference.score import prior_points, shared_classes, some_classes


@pytest.mark.parametrize(("labelled", "extra"), [(1, 20), (3, 100), (20, 1), (20, 0), (8, 8)])
def test_as_many_points_feel_the_prior_as_asked(labelled, extra, key):
    chosen = np.asarray(prior_points(key, jnp.ones((labelled, 1)), labelled + extra, 16))
    assert len(np.unique(chosen)) == min(16, labelled + extra)


def test_padding_feels_the_prior_last(key):
    weight = jnp.zeros((20, 1)).at[jnp.asarray([3, 5, 11])].set(1.0)
    assert set(np.asarray(prior_points(key, weight, 40, 6))[:3].tolist()) == {3, 5, 11}


def test_the_true_class_is_among_a_few_that_all_points_share(key):
    y = np.arange(40) % 10
    batch = make_batch(np.zeros((40, 2)), y)
    chosen = np.asarray(some_classes(4, 10)(key, batch, jnp.arange(55)))
    assert chosen.shape == (55, 4)
    assert all(len(set(row)) == 4 for row in chosen)
    assert all(label in row for label, row in zip(y, chosen[:40], strict=True))
    np.testing.assert_array_equal(chosen[:, :3], np.broadcast_to(chosen[0, :3], (55, 3)))
    shared = set(chosen[-1])
    assert all(set(row) == shared for label, row in zip(y, chosen[:40], strict=True) if label in shared)


def test_every_class_is_chosen_equally_often(key):
    batch = make_batch(np.zeros((1, 2)), np.zeros(1, int))
    chosen = jax.vmap(lambda key: some_classes(3, 6)(key, batch, jnp.arange(2))[1])(jax.random.split(key, 6000))
    # each class is in half of 6,000 choices, give or take five standard deviations of .0065
    np.testing.assert_allclose(np.bincount(np.asarray(chosen).ravel()) / 6000, 0.5, atol=0.033)


def test_classes_of_chosen_rows_are_theirs(key):
    batch = make_batch(np.zeros((40, 2)), np.arange(40) % 10)
    rows = jnp.asarray([33, 7, 50, 12])
    chosen = np.asarray(some_classes(3, 10)(key, batch, rows))
    assert all(label in row for label, row in zip((3, 7, 2), chosen[[0, 1, 3]], strict=True))
    all_rows = np.asarray(some_classes(3, 10)(key, batch, jnp.arange(60)))
    np.testing.assert_array_equal(chosen, all_rows[rows])


def test_shared_classes_hold_the_true_ones_of_all_labelled_points_and_random_others(key):
    batch = make_batch(np.zeros((40, 2)), np.arange(40) % 10)
    rows = jnp.asarray([3, 13, 8, 55])  # the last is no labelled point
    choose = lambda key: shared_classes(6, 10)(key, batch, rows)  # noqa: E731
    chosen = np.asarray(jax.vmap(choose)(jax.random.split(key, 4000)))
    assert chosen.shape == (4000, 6)
    assert all(len(set(row)) == 6 for row in chosen)
    # the other four come from eight classes: half of 4,000 choices, give or take five standard deviations of .008
    expected = np.where(np.isin(np.arange(10), [3, 8]), 1.0, 0.5)
    np.testing.assert_allclose(np.bincount(chosen.ravel()) / 4000, expected, atol=0.04)


@pytest.mark.parametrize("count", [1, 11])
def test_shared_classes_are_some_or_all(count):
    with pytest.raises(ValueError, match=f"count={count} must be at least 2, and at most the number of classes, 10"):
        shared_classes(count, 10)


@pytest.mark.parametrize("count", [1, 10, 11])
def test_counts_that_leave_nothing_to_compare_or_out_are_refused(count):
    with pytest.raises(ValueError, match=f"count={count} must be at least 2, and less than the number of classes, 10"):
        some_classes(count, 10)
