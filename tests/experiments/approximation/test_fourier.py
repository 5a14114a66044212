# SPDX-License-Identifier: Apache-2.0
"""Networks of cosines, against NumPy's cosine and the covariance they should have."""

import jax
import jax.numpy as jnp
import numpy as np

from fpovi.experiments.approximation.versions import cosine, fourier_network
from fpovi.inference.particles import forward, sample_prior


def test_the_cosine_and_its_slope_are_those_of_numpy(x64):
    x = jnp.asarray(np.random.default_rng(0).uniform(-100, 100, 10_000))
    np.testing.assert_allclose(cosine(x), np.cos(x), atol=1e-13)
    slope = jax.vmap(jax.grad(cosine))(x)
    np.testing.assert_allclose(slope, -np.sin(x), atol=1e-13)


def test_draws_of_the_prior_have_the_covariance_of_the_process(x64):
    """At any number of units: the sum's covariance is that of one unit. 20,000 draws know it to about 1/√10,000."""
    x = np.linspace(-1, 1, 5)[:, None]
    network = fourier_network(8, 0.5, 0.1)
    draws = sample_prior(jax.random.key(0), network, 20_000)
    f = np.asarray(forward(network, draws, (), jnp.asarray(x))[0])[..., 0]
    np.testing.assert_allclose(f.mean(axis=0), 0, atol=0.03)
    np.testing.assert_allclose(np.cov(f.T), np.exp(-((x - x.T) ** 2) / (2 * 0.5**2)), atol=0.05)
