# SPDX-License-Identifier: Apache-2.0
"""Priors at outputs that differ from point to point, against marginals written out with NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fpovi.likelihoods import categorical
from fpovi.networks import mlp
from fpovi.priors import flat, gaussian_process, moment_matched, nngp, sampled_gp, ssge, width_aware
from fpovi.priors._draws import prior_draws

K, B, N = 5, 4, 3
OWN = np.array([[0, 1, 2], [0, 1, 4], [0, 1, 2], [0, 1, 3]])
NETWORK = mlp((2, 20, K))
MAKE = {
    "moment_matched": lambda likelihood: moment_matched(NETWORK, likelihood),
    "nngp": lambda likelihood: nngp(NETWORK, likelihood),
    "sampled_gp": lambda likelihood: sampled_gp(NETWORK, likelihood),
    "ssge": lambda likelihood: ssge(NETWORK, likelihood, draws=50),
    "flat": lambda likelihood: flat(),
}


def f_and_x(key):
    f = jax.nn.log_softmax(jax.random.normal(key, (N, B, K)))
    return f, jax.random.normal(jax.random.fold_in(key, 1), (B, 2))


@pytest.mark.parametrize("likelihood", [None, categorical()], ids=["raw", "classes"])
@pytest.mark.parametrize("name", MAKE)
def test_the_same_outputs_at_each_point_are_those_of_all(name, likelihood, key, x64):
    prior, (f, x), shared = MAKE[name](likelihood), f_and_x(key), jnp.asarray([4, 1, 2])
    of_all = prior.score(key, f, x, shared)
    np.testing.assert_allclose(prior.score(key, f, x, jnp.tile(shared, (B, 1))), of_all, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("likelihood", [None, categorical()], ids=["raw", "classes"])
def test_a_gaussian_process_has_the_marginal_of_the_chosen_values(likelihood, key, x64):
    covariance = lambda a, b: jnp.exp(-jnp.sum((a[:, None] - b) ** 2, -1))  # noqa: E731
    f, x = f_and_x(key)
    prior = gaussian_process(covariance, likelihood, jitter=1e-6)
    across = np.eye(K) - (likelihood is not None) / K
    joint = np.kron(np.asarray(covariance(x, x)) + 1e-6 * np.eye(B), across)
    chosen = (np.arange(B)[:, None] * K + OWN).ravel()
    values = np.asarray(f - f.mean(-1, keepdims=True) if likelihood is not None else f).reshape(N, -1)[:, chosen]
    score = np.zeros((N, B * K))
    score[:, chosen] = -np.linalg.solve(joint[np.ix_(chosen, chosen)], values.T).T
    score = score.reshape(N, B, K)
    expected = score - score.mean(-1, keepdims=True) if likelihood is not None else score
    np.testing.assert_allclose(prior.score(key, f, x, jnp.asarray(OWN)), expected, rtol=1e-6)


def test_moments_are_those_of_the_chosen_values(key, x64):
    f, x = f_and_x(key)
    likelihood = categorical()
    score = moment_matched(NETWORK, likelihood, draws=100, floor=1e-9).score(key, f, x, jnp.asarray(OWN))
    rows = np.arange(B)[:, None]
    draws = np.asarray(prior_draws(key, NETWORK, x, 100, likelihood))[:, rows, OWN].reshape(100, -1)
    values = np.asarray(f)[:, rows, OWN].reshape(N, -1) - draws.mean(0)
    expected = -np.linalg.solve(np.cov(draws.T), values.T).T.reshape(N, B, -1)
    np.testing.assert_allclose(np.asarray(score)[:, rows, OWN], expected, rtol=1e-6)
    assert np.count_nonzero(score) == expected.size


def test_auxiliary_layers_need_the_same_outputs_everywhere(key):
    f, x = f_and_x(key)
    prior = width_aware(NETWORK)
    carry = prior.init(key, jax.vmap(NETWORK.sample_prior)(jax.random.split(key, N)))
    with pytest.raises(ValueError, match="prior=width_aware needs the same outputs at all points"):
        prior.advance(key, carry, f, x, jnp.asarray(OWN))
