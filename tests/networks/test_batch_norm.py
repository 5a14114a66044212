# SPDX-License-Identifier: Apache-2.0
"""What rows that are no data do to the statistics of a batch: nothing, in every network that has some."""

import equinox as eqx
import flax.linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fpovi.networks import from_equinox, from_flax, resnet
from fpovi.networks.batch_norm import no_statistics, normalise

ROWS, IMAGE = 6, (4, 4, 3)


class EquinoxNet(eqx.Module):
    convolution: eqx.nn.Conv2d
    norm: eqx.nn.BatchNorm

    def __init__(self, key):
        self.convolution = eqx.nn.Conv2d(3, 2, 3, key=key)
        self.norm = eqx.nn.BatchNorm(2, axis_name="batch", mode="batch")

    def __call__(self, x, state):
        h, state = self.norm(self.convolution(jnp.moveaxis(x, -1, 0)), state)
        return h.mean((1, 2)), state


class FlaxNet(flax.linen.Module):
    @flax.linen.compact
    def __call__(self, x, train):
        h = flax.linen.Conv(2, (3, 3))(x)
        return flax.linen.BatchNorm(use_running_average=not train)(h).mean((1, 2))


NETWORKS = {
    "resnet": resnet(8, width=2, classes=2),
    "equinox": from_equinox(eqx.nn.make_with_state(EquinoxNet)),
    "flax": from_flax(FlaxNet(), jnp.zeros((1, *IMAGE))),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_points_that_are_no_data_leave_no_trace(name, key):
    network = NETWORKS[name]
    theta, state = network.init(key)
    x = jax.random.normal(key, (ROWS + 3, *IMAGE)).at[ROWS:].multiply(100)
    apply = jax.jit(network.apply, static_argnums=3)
    alone, after = apply(theta, state, x[:ROWS], True)
    outputs, same = apply(theta, state, x, ROWS)
    # the same sums, perhaps in another order
    np.testing.assert_allclose(outputs[:ROWS], alone, rtol=1e-4, atol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), same, after)
    # and what follows does not see what follows it
    np.testing.assert_allclose(apply(theta, state, x[: ROWS + 1], ROWS)[0], outputs[: ROWS + 1], rtol=1e-4, atol=1e-4)
    still = apply(theta, after, x, False)[1]
    assert all(jnp.array_equal(a, b) for a, b in zip(jax.tree.leaves(after), jax.tree.leaves(still), strict=True))


@pytest.mark.parametrize("name", NETWORKS)
def test_points_that_are_no_data_are_normalised_as_those_that_are(name, key):
    """From the first step on, when running statistics are still those of no data."""
    network = NETWORKS[name]
    theta, state = network.init(key)
    x = 3 + 2 * jax.random.normal(key, (ROWS, *IMAGE))
    apply = jax.jit(lambda x: network.apply(theta, state, jnp.concatenate([x, x]), ROWS)[0])
    twice = apply(x)
    np.testing.assert_allclose(twice[ROWS:], twice[:ROWS], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["equinox", "flax"])
def test_statistics_have_derivatives_at_points_that_are_no_data(name, key):
    """These networks normalise what is linear in x: twice as large a batch has the same outputs."""
    network = NETWORKS[name]
    theta, state = network.init(key)
    x = 3 + 2 * jax.random.normal(key, (ROWS + 3, *IMAGE))
    squares = jax.jit(lambda scale: jnp.sum(network.apply(theta, state, scale * x, ROWS)[0][ROWS:] ** 2))
    assert abs(jax.grad(squares)(1.0)) < 1e-3 * squares(1.0)


def test_running_statistics_of_equinox_go_on_as_they_would(key):
    network = NETWORKS["equinox"]
    theta, state = network.init(key)
    x = jax.random.normal(key, (ROWS + 3, *IMAGE))
    apply = jax.jit(network.apply, static_argnums=3)
    alone = together = state
    for scale in (1.0, 2.0, 3.0):
        _, alone = apply(theta, alone, scale * x[:ROWS], True)
        _, together = apply(theta, together, scale * x, ROWS)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), together, alone)


class OtherState(flax.linen.Module):
    @flax.linen.compact
    def __call__(self, x, train):
        mean = self.variable("statistics", "mean", jnp.zeros, 3)
        if train:
            mean.value = 0.5 * mean.value + 0.5 * x.mean((0, 1, 2))
        return flax.linen.BatchNorm(use_running_average=not train)(x - mean.value).mean((1, 2))


def test_other_state_of_flax_sees_no_points_that_are_no_data(key):
    network = from_flax(OtherState(), jnp.zeros((1, *IMAGE)))
    theta, state = network.init(key)
    x = jax.random.normal(key, (ROWS + 3, *IMAGE)).at[ROWS:].multiply(100)
    _, after = network.apply(theta, state, x, ROWS)
    np.testing.assert_allclose(after["statistics"]["mean"], x[:ROWS].mean((0, 1, 2)) / 2, rtol=1e-5)


def test_statistics_by_hand(key):
    h = 3 + 2 * jax.random.normal(key, (50, 5, 5, 2))
    rows = np.asarray(h[:40]).reshape(-1, 2)
    out, (mean, variance) = normalise(h, no_statistics(2), 40)
    np.testing.assert_allclose(mean, 0.1 * rows.mean(0), rtol=1e-4)
    np.testing.assert_allclose(variance, 0.9 + 0.1 * rows.var(0), rtol=1e-4)
    np.testing.assert_allclose(out, (np.asarray(h) - rows.mean(0)) / np.sqrt(rows.var(0) + 1e-5), rtol=1e-3, atol=1e-4)
    # evaluation: the running statistics, and they stay
    running = (jnp.asarray([1.0, 2.0]), jnp.asarray([4.0, 9.0]))
    out, after = normalise(h, running, 0)
    np.testing.assert_allclose(out, (np.asarray(h) - [1, 2]) / np.sqrt(np.asarray([4, 9]) + 1e-5), rtol=1e-5, atol=1e-6)
    assert after is running


@pytest.mark.parametrize("rows", [5, 7])
def test_derivative_is_that_of_the_formula(rows, key, x64):
    h, g = jax.random.normal(key, (2, 7, 3, 2))

    def by_hand(h):
        seen = h[:rows].reshape(-1, 2)
        return (h - seen.mean(0)) / jnp.sqrt(seen.var(0) + 1e-5)

    ours, theirs = (jax.vjp(f, h)[1](g)[0] for f in (lambda h: normalise(h, no_statistics(2), rows)[0], by_hand))
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
