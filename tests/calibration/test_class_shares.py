# SPDX-License-Identifier: Apache-2.0
"""Other shares of classes, against Bayes' rule for two normals of known width."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from fpovi.calibration import estimate_class_shares, with_class_shares
from fpovi.likelihoods import gaussian
from fpovi.predictive import of_classes
from support.mixtures import predictive

MEANS = np.asarray([-1.0, 1.0])


def two_normals(shares, rows=4000):
    """Rows of two classes with these shares, and their exact probabilities under even shares and under these."""
    rng = np.random.default_rng(0)
    x = rng.normal(MEANS[rng.choice(2, rows, p=shares)])
    density = stats.norm.pdf(x[:, None], MEANS)
    exact = density * shares
    return density / density.sum(axis=1, keepdims=True), exact / exact.sum(axis=1, keepdims=True)


def test_probabilities_are_those_of_bayes_rule():
    even, exact = two_normals([0.2, 0.8])
    particles = of_classes(jnp.log(jnp.asarray(np.stack([even, even]), jnp.float32)))
    found = with_class_shares(particles, [7, 7], [20, 80])
    np.testing.assert_allclose(found.probs, exact, atol=1e-6)
    np.testing.assert_allclose(with_class_shares(found, [0.2, 0.8], [0.5, 0.5]).probs, even, atol=1e-6)
    np.testing.assert_allclose(found.mutual_information, 0, atol=1e-6)


def test_each_particle_is_weighted_by_itself():
    f = jnp.log(jnp.asarray([[[0.9, 0.1]], [[0.2, 0.8]]]))
    found = with_class_shares(of_classes(f), [0.5, 0.5], [0.1, 0.9]).probs
    expected = np.mean([0.09 / (0.09 + 0.09), 0.02 / (0.02 + 0.72)])
    np.testing.assert_allclose(found, [[expected, 1 - expected]], rtol=1e-5)


def test_shares_are_found_without_labels():
    even, _ = two_normals([0.2, 0.8])
    found = estimate_class_shares(of_classes(jnp.log(jnp.asarray(even[None], jnp.float32))), [1, 1])
    np.testing.assert_allclose(found, [0.2, 0.8], atol=0.03)  # three standard errors of overlapping classes, 4,000 rows
    # where the likelihood of the mixture of densities is largest
    density = even  # up to a factor for each row
    grid = np.linspace(0.001, 0.999, 999)
    best = grid[np.argmax([np.log(density @ [p, 1 - p]).sum() for p in grid])]
    assert found[0] == pytest.approx(best, abs=1e-3)


@pytest.mark.parametrize("shares", [[1], [1, 0], [1, np.nan], [[0.5, 0.5]]])
def test_what_is_no_share_is_refused(shares):
    even = of_classes(np.log([[[0.5, 0.5]]]))
    with pytest.raises(ValueError, match="must be 2 positive numbers, one for each class"):
        with_class_shares(even, [1, 1], shares)


def test_numbers_have_no_classes():
    with pytest.raises(ValueError, match="predictive is of numbers"):
        with_class_shares(predictive(gaussian(0.25), np.zeros((1, 3, 1))), [1], [1])
