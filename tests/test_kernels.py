# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.distance import cdist

from fpovi.kernels import KERNELS, activation, function_value, imq, median_lengthscale, rbf, squared_distances
from fpovi.networks import mlp
from fpovi.types import Network


def test_squared_distances_against_scipy(key):
    a, b = jax.random.normal(key, (4, 3)) + 100, jax.random.normal(key, (5, 3)) + 100
    # centring keeps the cancellation of float32 away: 100² would otherwise leave an error of 1e-3
    np.testing.assert_allclose(squared_distances(a, b), cdist(a, b) ** 2, rtol=1e-4, atol=1e-4)


def test_median_lengthscale_is_the_heuristic(key, x64):
    f = jax.random.normal(key, (7, 3))
    expected = np.sqrt(np.median(cdist(f, f) ** 2) / (2 * np.log(8)))
    np.testing.assert_allclose(median_lengthscale(f), expected, rtol=1e-12)


def test_median_lengthscale_is_floored():
    assert median_lengthscale(jnp.zeros((1, 3))) == pytest.approx(1e-5**0.5)
    assert median_lengthscale(jnp.ones((4, 3))) == pytest.approx(1e-5**0.5)


@pytest.mark.parametrize("make", [rbf, imq])
def test_lengthscale_is_settled_once_and_not_differentiated(make, key):
    f = jax.random.normal(key, (5, 3))
    fixed = make().at(f)
    assert fixed.at(2 * f).lengthscale == fixed.lengthscale
    gradient = jax.grad(lambda f: jnp.sum(make()(f, f)))(f)
    np.testing.assert_allclose(gradient, jax.grad(lambda f: jnp.sum(fixed(f, f)))(f), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", [rbf, imq])
def test_gram_is_symmetric_with_ones_on_the_diagonal(make, key):
    f = jax.random.normal(key, (6, 3))
    gram = make()(f, f)
    np.testing.assert_allclose(jnp.diagonal(gram), 1, rtol=1e-5)
    np.testing.assert_allclose(gram, gram.T, rtol=1e-5)
    assert jnp.all(jnp.linalg.eigvalsh(gram) > 0)


@pytest.mark.parametrize("lengthscale", [0.0, -1.0, float("nan")])
@pytest.mark.parametrize("make", [rbf, imq])
def test_a_lengthscale_must_be_positive(make, lengthscale):
    with pytest.raises(ValueError, match=r"lengthscale=.* must be positive"):
        make(lengthscale)


@pytest.mark.parametrize("make", [function_value, activation])
def test_representation_kernels_mix_the_others_gradients(make, key, x64):
    """Σⱼ wⱼ ∂K(θᵢ, θⱼ)/∂θⱼ, from the definition by automatic differentiation of every pair."""
    network = mlp((2, 4, 1), activation=jnp.tanh)
    x = jax.random.normal(key, (3, 2))
    particles = jax.vmap(network.sample_prior)(jax.random.split(key, 4))
    rows, unravel = _ravel(particles)
    kernel = make(rbf(1.7))
    say = kernel.forward(network, lambda outputs: outputs)
    bound = kernel.on(jax.vmap(lambda row: say(unravel(row), (), x, True)[0].ravel()))
    weight = jnp.asarray([1.0, 0.5, 2.0, 1.5])

    def pair(a, b):
        return bound(a[None], b[None])[0, 0]

    expected = [sum(weight[j] * jax.grad(pair, argnums=1)(rows[i], rows[j]) for j in range(4)) for i in range(4)]
    np.testing.assert_allclose(bound.repulsion(rows, weight), jnp.stack(expected), rtol=1e-10, atol=1e-12)
    # a stationary kernel would give minus the derivative in the first argument: here that is another vector
    stationary = -jnp.stack([sum(weight[j] * jax.grad(pair)(rows[i], rows[j]) for j in range(4)) for i in range(4)])
    assert jnp.max(jnp.abs(stationary - jnp.stack(expected))) > 1e-3


def test_function_value_kernel_is_the_base_kernel_on_outputs(key):
    network = mlp((2, 4, 1))
    x = jax.random.normal(key, (3, 2))
    particles = jax.vmap(network.sample_prior)(jax.random.split(key, 4))
    rows, unravel = _ravel(particles)
    bound = function_value().on(jax.vmap(lambda row: network.apply(unravel(row), (), x, True)[0].ravel()))
    f = jax.vmap(lambda theta: network.apply(theta, (), x, True)[0].ravel())(particles)
    np.testing.assert_allclose(bound(rows, rows), rbf()(f, f), rtol=1e-5)
    np.testing.assert_allclose(bound.at(rows).settled_lengthscale(), median_lengthscale(f), rtol=1e-5)


def test_activation_kernel_needs_activations():
    bare = Network(lambda key: ((), ()), lambda key: (), lambda theta: jnp.zeros(()), lambda *args: args)
    with pytest.raises(ValueError, match="activations"):
        activation().forward(bare, lambda outputs: outputs)


def test_table_names_every_kernel():
    assert set(KERNELS) == {"rbf", "imq", "function_value", "activation"}


def _ravel(particles):
    from fpovi.inference.particles import ravel

    return ravel(particles)
