# SPDX-License-Identifier: Apache-2.0
"""Distances between posteriors, against closed forms."""

import numpy as np
from scipy import stats

from fpovi.experiments.sine.comparison import LEVELS, quantiles, wasserstein2


def test_quantiles_are_the_hundred_in_the_middle():
    draws = np.random.default_rng(0).permutation(np.arange(1001.0))[:, None] * [1.0, -2.0]
    got = quantiles(draws)
    assert got.shape == (100, 2)
    np.testing.assert_allclose(got[:, 0], 1000 * (np.arange(100) + 0.5) / 100, rtol=1e-12)  # of a straight line
    np.testing.assert_allclose(got[:, 1], -2 * got[::-1, 0], rtol=1e-12)


def test_distance_between_gaussians_is_the_closed_form():
    mean, std = np.array([0.0, 1.0, -2.0]), np.array([1.0, 0.5, 2.0])
    other_mean, other_std = np.array([0.3, 1.0, -2.0]), np.array([1.0, 1.5, 2.0])
    a, b = (stats.norm(m, s).ppf(LEVELS[:, None]) for m, s in ((mean, std), (other_mean, other_std)))
    expected = np.sqrt((mean - other_mean) ** 2 + (std - other_std) ** 2)
    # a hundred quantiles leave out the tails, which hold 1.3 % of a Gaussian's standard deviation
    np.testing.assert_allclose(wasserstein2(a, b), expected, rtol=0.02)


def test_distance_between_draws_is_the_assignment_of_sorted_ones():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(5_000, 3)), rng.normal(0.5, 2.0, size=(5_000, 3))
    exact = np.sqrt(np.mean((np.sort(a, axis=0) - np.sort(b, axis=0)) ** 2, axis=0))
    # the tails again
    np.testing.assert_allclose(wasserstein2(quantiles(a), quantiles(b)), exact, rtol=0.02)


def test_distance_grows_with_a_shift_and_is_symmetric():
    a = quantiles(np.random.default_rng(0).normal(size=(500, 1)))
    np.testing.assert_allclose(wasserstein2(a, a), 0)
    np.testing.assert_allclose(wasserstein2(a, a + 3), 3, rtol=1e-12)  # float64
    np.testing.assert_allclose(wasserstein2(a, 2 * a), wasserstein2(2 * a, a), rtol=1e-12)
