# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fpovi.inference.particles import forward, init_particles, num_particles, ravel, sample_prior
from fpovi.networks import mlp


def test_forward_is_each_network_alone(key):
    network = mlp((2, 5, 3))
    particles, state = init_particles(key, network, 4)
    x = jax.random.normal(key, (6, 2))
    outputs, _ = forward(network, particles, state, x)
    for i in range(4):
        one = jax.tree.map(lambda leaf, i=i: leaf[i], particles)
        np.testing.assert_allclose(outputs[i], network.apply(one, (), x, False)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("together", [1, 2, 4])
def test_a_few_at_a_time_are_as_all_at_once(together, key, monkeypatch):
    network, x = mlp((2, 5, 3)), jax.random.normal(key, (6, 2))
    particles, state = init_particles(key, network, 5)
    velocity = jax.random.normal(key, (5, 6, 3))

    def there_and_back():
        outputs, pullback = jax.vjp(lambda particles: forward(network, particles, state, x)[0], particles)
        return outputs, pullback(velocity)[0]

    at_once = there_and_back()
    monkeypatch.setattr("fpovi.inference.particles.IN_LAST_CACHE", 1)
    monkeypatch.setattr("fpovi.inference.particles.IN_OWN_CACHE", together * 6 * (5 + 3))
    assert "scan" in str(jax.make_jaxpr(there_and_back)())
    # sums of a few terms of order 1, perhaps in another order
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), there_and_back(), at_once)


def test_particles_differ_and_follow_the_key(key):
    network = mlp((2, 5, 1))
    first, _ = init_particles(key, network, 3)
    again, _ = init_particles(key, network, 3)
    rows, _ = ravel(first)
    assert jnp.array_equal(rows, ravel(again)[0])
    assert not jnp.array_equal(rows[0], rows[1])


def test_ravel_and_back(key):
    network = mlp((2, 5, 1))
    particles = sample_prior(key, network, 3)
    rows, unravel = ravel(particles)
    assert rows.shape == (3, 2 * 5 + 5 + 5 + 1)
    assert num_particles(particles) == 3
    back = jax.vmap(unravel)(rows)
    assert all(jnp.array_equal(a, b) for a, b in zip(jax.tree.leaves(back), jax.tree.leaves(particles), strict=True))


@pytest.mark.parametrize("n", [0, -1])
def test_no_particles_is_an_error(n, key):
    with pytest.raises(ValueError, match=f"n_particles={n} must be at least 1"):
        init_particles(key, mlp((1, 1)), n)
