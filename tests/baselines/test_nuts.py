# SPDX-License-Identifier: Apache-2.0
import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fpovi.baselines import nuts
from fpovi.inference.batches import make_batch
from fpovi.likelihoods import gaussian
from support.scenarios import linear_network, linear_posterior, polynomial

pytestmark = pytest.mark.usefixtures("loose_dtypes")


def a_line():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (12, 1))
    return x, 1 + 2 * x[:, 0] + 0.3 * rng.normal(size=12)


def test_a_linear_models_posterior_is_recovered(key):
    x, y = a_line()
    draws = nuts(key, linear_network(polynomial, 3), gaussian(0.3), make_batch(x, y), chains=4, warmup=300, draws=500)
    assert float(jnp.max(blackjax.rhat(draws.theta))) < 1.02
    mean, covariance = linear_posterior(np.asarray(polynomial(jnp.asarray(x))), y, 0.3)
    theta = np.asarray(draws.theta).reshape(-1, 3)
    # at least 500 effective draws: the mean is good to .05 standard deviations, the variance to 6 %; 4 standard errors
    deviation = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(theta.mean(0), mean, atol=0.2 * deviation.max())
    np.testing.assert_allclose(theta.std(0), deviation, rtol=0.25)
    assert int(jnp.sum(draws.divergent)) == 0


@pytest.mark.parametrize("floor", [0.0, 1e-3])
def test_a_learned_noise_scale_has_the_posterior_that_quadrature_gives(floor, key):
    """f = 0 known: p(σ | y) ∝ N(y; 0, σ²) IG(σ; 1, .1) on a grid of σ, so the change of variables must be right.

    A floor as low as this one changes nothing, and is no coordinate of the sampler.
    """
    likelihood = gaussian(floor=floor)
    x, y = np.zeros((5, 1)), np.array([0.5, -0.2, 0.1, -0.4, 0.3])
    silent = linear_network(lambda x: jnp.zeros((x.shape[0], 1)), 1)
    draws = nuts(key, silent, likelihood, make_batch(x, y), chains=4, warmup=300, draws=1000)
    if floor:
        assert np.all(np.asarray(draws.params.floor) == np.float32(floor))
    sigma = np.asarray(jax.vmap(jax.vmap(likelihood.noise))(draws.params)).ravel()
    grid = np.linspace(1e-3, 5, 50_000)
    log_density = -5 * np.log(grid) - np.sum(y**2) / (2 * grid**2) - 2 * np.log(grid) - 0.1 / grid
    density = np.exp(log_density - log_density.max())
    expected = np.sum(grid * density) / np.sum(density)
    # the standard deviation of σ is about .12; a thousand effective draws give its mean to .004
    assert sigma.mean() == pytest.approx(expected, abs=0.02)


def test_bad_arguments_are_named(key):
    with pytest.raises(ValueError, match="draws=0"):
        nuts(key, linear_network(polynomial, 3), gaussian(0.3), make_batch(*a_line()), draws=0)
