# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import multivariate_normal

from fpovi.likelihoods import categorical
from fpovi.priors import gaussian_process


def covariance(a, b):
    return jnp.exp(-jnp.sum((a[:, None] - b) ** 2, -1) / 2)


def test_log_prob_against_scipy(key, x64):
    x, f = jax.random.normal(key, (5, 2)), jax.random.normal(key, (3, 5, 2))
    matrix = np.asarray(covariance(x, x)) + 1e-2 * np.eye(5)
    expected = [sum(multivariate_normal.logpdf(f[i, :, j], cov=matrix) for j in range(2)) for i in range(3)]
    np.testing.assert_allclose(gaussian_process(covariance, jitter=1e-2).log_prob(key, f, x), expected, rtol=1e-10)


def test_float32_inputs_are_solved_in_float64(key):
    """Five points so close that float32 has no Cholesky factor of their covariance."""
    x = jnp.linspace(0, 0.01, 5)[:, None]
    f = jax.random.normal(key, (1, 5, 1))
    score = gaussian_process(covariance, jitter=1e-6).score(key, f, x)
    wide = np.asarray(x, np.float64)
    matrix = np.exp(-((wide - wide.T) ** 2) / 2) + 1e-6 * np.eye(5)
    np.testing.assert_allclose(score[0, :, 0], -np.linalg.solve(matrix, np.asarray(f[0, :, 0], np.float64)), rtol=1e-4)


def test_centred_ignores_a_common_shift_of_the_logits(key, x64):
    """C ⊗ (I − 11ᵀ/k) and its pseudo-inverse, written out."""
    prior = gaussian_process(covariance, jitter=1e-2, likelihood=categorical())
    x, f = jax.random.normal(key, (4, 2)), jax.random.normal(key, (2, 4, 3))
    shifted = f + jax.random.normal(key, (2, 4, 1))
    np.testing.assert_allclose(prior.score(key, shifted, x), prior.score(key, f, x), rtol=1e-9, atol=1e-9)
    matrix = np.kron(np.asarray(covariance(x, x)) + 1e-2 * np.eye(4), np.eye(3) - np.ones((3, 3)) / 3)
    expected = -(np.linalg.pinv(matrix) @ np.asarray(f).reshape(2, 12).T).T.reshape(2, 4, 3)
    np.testing.assert_allclose(prior.score(key, f, x), expected, rtol=1e-8, atol=1e-8)


def test_a_marginal_over_some_of_the_classes(key, x64):
    """Two of three centred logits: N(0, C ⊗ (I − 11ᵀ/3)₂₂) with its ordinary inverse, written out."""
    prior = gaussian_process(covariance, jitter=1e-2, likelihood=categorical())
    x, f = jax.random.normal(key, (4, 2)), jax.random.normal(key, (2, 4, 3))
    between = (np.eye(3) - np.ones((3, 3)) / 3)[:2, :2]
    precision = np.linalg.inv(np.kron(np.asarray(covariance(x, x)) + 1e-2 * np.eye(4), between))

    def log_prob(f):
        picked = (f - jnp.mean(f, axis=-1, keepdims=True))[..., :2].reshape(2, 8)
        return -jnp.sum(picked * (picked @ precision)) / 2

    score = prior.score(key, f, x, jnp.asarray([0, 1]))
    np.testing.assert_allclose(score, jax.grad(log_prob)(f), rtol=1e-8, atol=1e-8)
