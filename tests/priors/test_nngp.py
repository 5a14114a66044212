# SPDX-License-Identifier: Apache-2.0
"""The infinite-width covariance against networks that are merely wide."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import dblquad

from fpovi.inference.particles import forward, sample_prior
from fpovi.networks import fan_in_scales, fan_out_scales, mlp
from fpovi.priors.nngp import EXPECTATIONS, hermite_expectation, nngp_covariance

ACTIVATIONS = {"relu": jax.nn.relu, "erf": jax.scipy.special.erf, "tanh": jnp.tanh}


@pytest.mark.parametrize(
    ("name", "hidden"),
    [
        *((name, (512,)) for name in ACTIVATIONS),
        ("relu", (128, 128)),
        ("tanh", (128, 128)),
        pytest.param("erf", (128, 128), marks=pytest.mark.slow),
    ],
)
def test_covariance_against_wide_networks(name, hidden, key):
    sizes = (2, *hidden, 1)
    scales = fan_in_scales(sizes, weight_variance=2.0, bias_variance=0.3)._replace(input=jnp.asarray([1.5, 0.7]))
    network = mlp(sizes, ACTIVATIONS[name], scales)
    x = jax.random.normal(key, (4, 2))

    def moments(key):
        f = forward(network, sample_prior(key, network, 250), (), x)[0][..., 0]
        return f.T @ f / 250

    estimate = jax.jit(lambda key: jax.lax.map(moments, jax.random.split(key, 16)).mean(0))(key)
    exact = jax.jit(nngp_covariance(network.architecture))(x, x)
    # 4,000 draws give a variance to √(2/4000) = 2.2 %: 3.5 standard errors; two layers of 128 add about 1/128
    np.testing.assert_allclose(estimate, exact, atol=0.085 * float(jnp.max(jnp.diagonal(exact))))


def test_fan_out_prior_has_the_variance_of_the_papers_experiments():
    """With ‖x‖ = 1, Var f(x) is about 2 for one hidden layer of 50."""
    sizes = (13, 50, 1)
    network = mlp(sizes, scales=fan_out_scales(sizes))
    x = jnp.ones((1, 13)) / 13**0.5
    assert float(nngp_covariance(network.architecture)(x, x)[0, 0]) == pytest.approx(2.0, rel=1e-5)


@pytest.mark.parametrize("phi", EXPECTATIONS)
def test_closed_forms_against_the_expansion(phi, x64):
    uu, vv, uv = jnp.asarray([1.0, 2.0]), jnp.asarray([0.5, 1.5]), jnp.asarray([0.3, -0.9])
    # relu's kink limits the nodes that integrate its coefficients to 2e-3; erf is smooth
    tolerance = 2e-3 if phi is jax.nn.relu else 1e-6
    np.testing.assert_allclose(EXPECTATIONS[phi](uu, uv, vv), hermite_expectation(phi, uu, uv, vv), atol=tolerance)


def test_expansion_against_scipy(x64):
    uu, vv, uv = 1.2, 0.8, 0.5
    rho = uv / np.sqrt(uu * vv)

    def integrand(z2, z1):
        u, v = np.sqrt(uu) * z1, np.sqrt(vv) * (rho * z1 + np.sqrt(1 - rho**2) * z2)
        return np.tanh(u) * np.tanh(v) * np.exp(-(z1**2 + z2**2) / 2) / (2 * np.pi)

    expected, _ = dblquad(integrand, -8, 8, -8, 8)
    ours = hermite_expectation(jnp.tanh, *(jnp.asarray(a) for a in (uu, uv, vv)))
    np.testing.assert_allclose(ours, expected, rtol=1e-7)  # dblquad's own accuracy


@pytest.mark.parametrize("phi", [jnp.tanh, jax.nn.gelu, jax.nn.softplus])
def test_covariances_without_a_closed_form_are_positive_definite(phi, key, x64):
    """Sixty points, some almost the same: what a step may ask for."""
    sizes = (3, 50, 50, 1)
    x = jax.random.normal(key, (30, 3))
    x = jnp.concatenate([x, x + 1e-3])
    covariance = jax.jit(nngp_covariance(mlp(sizes, phi, fan_in_scales(sizes, 2.0)).architecture))(x, x)
    assert float(jnp.linalg.eigvalsh(covariance)[0]) > -1e-12 * float(jnp.trace(covariance))


def test_cross_covariance_is_a_block_of_the_whole(key):
    architecture = mlp((2, 50, 50, 1)).architecture
    x = jax.random.normal(key, (5, 2))
    covariance = jax.jit(nngp_covariance(architecture))
    whole = covariance(x, x)
    np.testing.assert_allclose(covariance(x[:2], x[2:]), whole[:2, 2:], rtol=1e-5)
    assert jnp.all(jnp.linalg.eigvalsh(whole) > 0)
