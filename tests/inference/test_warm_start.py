# SPDX-License-Identifier: Apache-2.0
"""Particles that begin at the posterior of their last layer, against Bayesian linear regression by scikit-learn."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import DotProduct

from fpovi.inference import function_space
from fpovi.inference.particles import forward
from fpovi.inference.warm_start import posterior_last_layer
from fpovi.likelihoods import gaussian
from fpovi.networks import fan_in_scales, from_equinox, mlp
from fpovi.priors import nngp

SIZES = (2, 6, 1)
SCALES = fan_in_scales(SIZES, weight_variance=2.0, bias_variance=0.5)


def table(rows=15, targets=1):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 2))
    y = np.sin(x[:, :1]) + 0.1 * rng.normal(size=(rows, targets))
    return jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)


@pytest.mark.parametrize("unit_weights", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_last_layer_is_that_of_linear_regression(unit_weights, weighted, key):
    """Every particle with the same hidden layers: their outputs are draws of one Gaussian process, scikit-learn's."""
    network = mlp(SIZES, scales=SCALES, unit_weights=unit_weights)
    same = network._replace(sample_prior=lambda _: network.sample_prior(key))
    x, y = table()
    weight = jnp.asarray(np.random.default_rng(1).uniform(0.2, 2.0, (15, 1)), jnp.float32) if weighted else None
    fit = jax.jit(partial(posterior_last_layer, network=same, x=x, y=y, noise=0.1, n=4000, weight=weight))
    f = np.asarray(forward(network, fit(key), (), x)[0][..., 0], np.float64)

    phi = np.asarray(network.activations(network.sample_prior(key), (), x, True)[0][:, :6], np.float64) * (2 / 6) ** 0.5
    alpha = 0.01 / (1.0 if weight is None else np.asarray(weight[:, 0], np.float64))
    kernel = DotProduct(0.5**0.5)  # bias variance plus inner product of features
    process = GaussianProcessRegressor(kernel, alpha=alpha, optimizer=None).fit(phi, np.asarray(y, np.float64))
    mean, covariance = process.predict(phi, return_cov=True)
    # 4,000 draws: a mean is known to sd/√4000, a covariance to about √(2/4000) of the variances; 4.5 of each
    np.testing.assert_allclose(f.mean(0), mean, atol=4.5 / 4000**0.5 * np.sqrt(covariance.diagonal().max()))
    np.testing.assert_allclose(np.cov(f.T), covariance, atol=4.5 * (2 / 4000) ** 0.5 * covariance.diagonal().max())


def test_hidden_layers_are_prior_draws(key):
    network = mlp((2, 300, 1), unit_weights=True)
    particles = posterior_last_layer(key, network, *table(), noise=0.1, n=3)
    assert particles.weights[0].shape == (3, 2, 300)
    np.testing.assert_allclose(jnp.std(particles.weights[0]), 1.0, atol=0.07)  # 1,800 numbers: 4 standard errors
    assert not jnp.allclose(particles.weights[0][0], particles.weights[0][1])


def test_targets_have_their_own_weights(key):
    """A target without observations keeps its prior, and does not disturb the other."""
    network = mlp((2, 6, 2))
    x, y = table(targets=2)
    weight = jnp.ones_like(y).at[:, 1].set(0.0)
    f = forward(network, posterior_last_layer(key, network, x, y, 0.01, 200, weight), (), x)[0]
    changed = forward(network, posterior_last_layer(key, network, x, y.at[:, 1].add(9.0), 0.01, 200, weight), (), x)[0]
    np.testing.assert_allclose(f, changed, atol=1e-5)
    assert jnp.mean(jnp.std(f[..., 1], axis=0)) > 2 * jnp.mean(jnp.std(f[..., 0], axis=0))


def test_refits_raise_the_noise_to_what_is_left(key):
    """Three features cannot follow 15 random targets: refitted, weights stay small though the noise was to be tiny."""
    network, (x, _) = mlp((2, 3, 1), unit_weights=True), table()
    y = jax.random.normal(key, (15, 1))
    sizes = []
    for refits in (0, 3):
        particles = posterior_last_layer(key, network, x, y, 1e-4, 10, refits=refits)
        sizes.append(float(jnp.mean(particles.weights[-1] ** 2)))
    assert sizes[1] < sizes[0] / 2
    easy = 0.5 * x[:, :1]  # where nothing is left, nothing is raised
    plain, refitted = (posterior_last_layer(key, mlp((2, 40, 1)), x, easy, 0.5, 2, refits=r) for r in (0, 2))
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6), plain, refitted)


def test_algorithms_begin_there(key):
    network = mlp((2, 20, 20, 1))
    particles = posterior_last_layer(key, network, *table(), noise=0.1, n=4)
    state = function_space(network, gaussian(floor=0.0), nngp(network)).init(key, 4, particles=particles)
    jax.tree.map(np.testing.assert_array_equal, state.particles, particles)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"network": mlp((2, 1))}, "mlp with a hidden layer"),
        ({"network": from_equinox(lambda key: __import__("equinox").nn.Linear(2, 1, key=key))}, "mlp with a hidden"),
        ({"y": jnp.zeros((15, 2))}, "y has shape"),
        ({"n": 0}, "n=0"),
        ({"noise": 0.0}, "noise=0.0"),
        ({"refits": -1}, "refits=-1"),
        ({"weight": jnp.ones((15, 3))}, "weight has shape"),
    ],
)
def test_bad_arguments_are_named(change, said, key):
    x, y = table()
    arguments = {"network": mlp(SIZES), "x": x, "y": y, "noise": 0.1, "n": 2, **change}
    with pytest.raises(ValueError, match=said):
        posterior_last_layer(key, **arguments)
