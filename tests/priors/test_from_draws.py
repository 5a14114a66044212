# SPDX-License-Identifier: Apache-2.0
"""Priors made of prior draws: they must find what is known in closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fpovi.networks import mlp
from fpovi.priors import moment_matched, nngp
from fpovi.priors.ssge import stein_score
from support.scenarios import linear_network, polynomial


def relative_error(a, b):
    return float(jnp.linalg.norm(a - b) / jnp.linalg.norm(b))


def test_moment_matched_is_exact_for_a_gaussian_prior(key):
    """A network linear in θ has f(x) ~ N(0, Φ Φᵀ): three points, three features."""
    network = linear_network(polynomial, 3)
    x, f = jnp.asarray([[-1.0], [0.2], [1.5]]), jax.random.normal(key, (4, 3, 1))
    covariance = polynomial(x) @ polynomial(x).T
    expected = -jnp.linalg.solve(covariance, f[..., 0].T).T[..., None]
    score = jax.jit(moment_matched(network, draws=50_000, floor=1e-9).score)(key, f, x)
    # the inverse of a covariance from M draws is good to about √(d/M) ≈ 1 %; 4 standard errors
    assert relative_error(score, expected) < 0.04


def test_moment_matched_tends_to_nngp_as_draws_and_width_grow(key):
    x, f = jax.random.normal(key, (3, 2)), jax.random.normal(key, (5, 3, 1))
    errors = []
    for width, draws in ((5, 50), (50, 1000), (200, 10_000)):
        network = mlp((2, width, 1))
        exact = jax.jit(nngp(network, jitter=1e-6).score)(key, f, x)
        errors.append(relative_error(jax.jit(moment_matched(network, draws=draws, floor=1e-6).score)(key, f, x), exact))
    assert errors[0] > errors[2]
    assert errors[1] > errors[2]
    assert errors[2] < 0.07  # √(3/10,000) is 1.7 %; 4 standard errors


def test_moment_matched_raises_eigenvalues_to_the_floor(key):
    """Two draws have a covariance of rank one: in all other directions the floor is the variance."""
    network = linear_network(polynomial, 3)
    x, f = jnp.asarray([[-1.0], [0.2], [1.5]]), jax.random.normal(key, (1, 3, 1))
    scores = [jax.jit(moment_matched(network, draws=2, floor=floor).score)(key, f, x) for floor in (1e-2, 1e-3)]
    norms = [float(jnp.linalg.norm(score)) for score in scores]
    assert norms[1] == pytest.approx(10 * norms[0], rel=0.01)


def test_ssge_finds_a_gaussians_score(key):
    samples = jax.random.normal(key, (400, 2)) * jnp.asarray([1.0, 0.5])
    f = jnp.asarray([[0.5, 0.3], [-1.0, 0.2], [0.3, -0.6], [1.2, 0.1]])
    estimate = jax.jit(stein_score)(f, samples, jnp.asarray(0.99))
    # .24 here: the bias of the eigenfunctions left out and the noise of 400 draws, as in Shi et al. (2018)
    assert relative_error(estimate, -f / jnp.asarray([1.0, 0.25])) < 0.3


def test_ssge_is_its_formula(key, x64):
    samples, f = jax.random.normal(key, (6, 2)), jax.random.normal(jax.random.key(1), (3, 2))
    stein = jax.jit(stein_score)(f, samples, jnp.asarray(1.0))
    samples, f = np.asarray(samples), np.asarray(f)
    squared = np.sum((samples[:, None] - samples) ** 2, -1)
    width = np.median(squared)
    kernel = lambda a, b: np.exp(-np.sum((a - b) ** 2) / (2 * width))  # noqa: E731
    values, vectors = np.linalg.eigh(np.array([[kernel(a, b) for b in samples] for a in samples]))
    expected = np.zeros((3, 2))
    for value, u in zip(values, vectors.T, strict=True):  # kept=1: all of them
        psi = [np.sqrt(6) / value * sum(u[m] * kernel(point, samples[m]) for m in range(6)) for point in f]
        gradients = [
            np.sqrt(6) / value * sum(u[m] * kernel(at, samples[m]) * -(at - samples[m]) / width for m in range(6))
            for at in samples
        ]
        expected += np.outer(psi, -np.mean(gradients, axis=0))
    np.testing.assert_allclose(stein, expected, rtol=1e-6, atol=1e-8)
