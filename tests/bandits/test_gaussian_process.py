# SPDX-License-Identifier: Apache-2.0
"""The process over contexts and arms against the closed form of its posterior and of its marginal likelihood."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from fpovi.bandits import Agent
from fpovi.bandits.methods.gaussian_process import (
    JITTER,
    Hyper,
    Points,
    _draw,
    covariance,
    features,
    joint,
    log_marginal,
)

RANDOM = np.random.default_rng(0)
HYPER = Hyper(*(jnp.asarray(value, jnp.float32) for value in (0.2, -0.3, np.log(0.4), RANDOM.normal(size=(3, 5)))))
X, ARM = RANDOM.normal(size=(30, 2)).astype(np.float32), RANDOM.integers(3, size=30).astype(np.int32)
Y = RANDOM.normal(size=30).astype(np.float32)
REAL = (np.arange(30) < 20).astype(np.float32)
POINTS = Points(*map(jnp.asarray, (X, ARM, Y * REAL, REAL)))


def kernel(a, arm_a, b, arm_b):
    """k, from the formula in the docstring, by loops."""
    std, lengthscale = np.exp(0.2), np.exp(-0.3)
    vectors = np.asarray(HYPER.arm, float)
    found = np.empty((len(a), len(b)))
    for i in range(len(a)):
        for j in range(len(b)):
            far = np.sum((a[i].astype(float) - b[j]) ** 2) / (2 * lengthscale**2)
            far += np.sum((vectors[arm_a[i]] - vectors[arm_b[j]]) ** 2) / 2
            found[i, j] = std**2 * np.exp(-far)
    return found


def of_rewards():
    noise = 0.4**2 + JITTER * (1 + np.exp(0.4))
    return kernel(X[:20], ARM[:20], X[:20], ARM[:20]) + noise * np.eye(20)


def test_kernel_is_that_of_the_docstring():
    z = joint(HYPER, POINTS.x, POINTS.arm)
    np.testing.assert_allclose(covariance(HYPER, z, z), kernel(X, ARM, X, ARM), rtol=2e-4, atol=1e-5)  # float32


def test_marginal_likelihood_leaves_out_rows_that_are_not_there():
    expected = stats.multivariate_normal(np.zeros(20), of_rewards()).logpdf(Y[:20])
    found = float(log_marginal(HYPER, POINTS)) - 10 * np.log(2 * np.pi)
    assert found == pytest.approx(expected, rel=1e-3)


def test_draws_have_the_mean_and_covariance_of_the_posterior():
    at, arm = RANDOM.normal(size=(4, 2)).astype(np.float32), np.array([0, 1, 2, 0], np.int32)
    across = kernel(at, arm, X[:20], ARM[:20])
    mean = across @ np.linalg.solve(of_rewards(), Y[:20])
    exact = kernel(at, arm, at, arm) - across @ np.linalg.solve(of_rewards(), across.T)

    @jax.jit
    def functions(key):
        draws = _draw(20, key, HYPER, POINTS)
        z, there = joint(HYPER, jnp.asarray(at), jnp.asarray(arm)), joint(HYPER, POINTS.x, POINTS.arm)
        prior = draws.weight @ features(HYPER, draws.frequency, draws.phase, z).T
        return prior + (draws.correction * REAL) @ covariance(HYPER, z, there).T

    f = np.concatenate([functions(key) for key in jax.random.split(jax.random.key(0), 200)])
    error = np.sqrt(np.diag(exact))
    assert np.all(np.abs(f.mean(axis=0) - mean) < 4 * error / 4000**0.5)
    # four standard errors of a variance from 4,000 draws are 9 %; features drawn anew 200 times add little
    np.testing.assert_allclose(f.var(axis=0), error**2, rtol=0.1)
    np.testing.assert_allclose(np.corrcoef(f.T), exact / np.outer(error, error), atol=0.1)


@pytest.mark.usefixtures("loose_dtypes")
def test_it_learns_from_a_part_of_the_rows():
    agent = Agent([0, 1], 1, "gaussian_process", most=20, first_steps=30, steps=30, every=0, first_turns=0)
    x = RANDOM.uniform(-2, 2, size=(200, 1))
    agent.update(x, [0, 1] * 100, np.where(np.arange(200) % 2, 1.0, 3 * np.sign(x[:, 0])))
    agent.learn()
    at = np.array([[-1.0], [1.0]])
    assert agent.probabilities(at).argmax(axis=1).tolist() == [1, 0]
    assert agent.values(at).shape == (20, 2, 2)
