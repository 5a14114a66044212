# SPDX-License-Identifier: Apache-2.0
"""Networks that carry batch statistics, in the steps of all algorithms."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fpovi.inference import function_space, make_batch, weight_space
from fpovi.inference.particles import forward
from fpovi.inference.score import posterior_score
from fpovi.likelihoods import categorical
from fpovi.measurement import points, train_only
from fpovi.networks import from_equinox
from fpovi.priors import flat, moment_matched
from fpovi.types import FunctionPrior

pytestmark = pytest.mark.usefixtures("loose_dtypes")


class Net(eqx.Module):
    linear: eqx.nn.Linear
    norm: eqx.nn.BatchNorm

    def __init__(self, key):
        self.linear = eqx.nn.Linear(2, 3, key=key)
        self.norm = eqx.nn.BatchNorm(3, axis_name="batch", mode="batch")

    def __call__(self, x, state):
        return self.norm(self.linear(x), state)


NETWORK, LIKELIHOOD, ROWS = from_equinox(eqx.nn.make_with_state(Net)), categorical(), 8


@pytest.fixture
def data(key):
    x = jax.random.normal(key, (ROWS, 2))
    return make_batch(x, np.arange(ROWS) % 3)


def step(algorithm, data, key):
    state = algorithm.init(key, 2)
    return state, jax.jit(algorithm.step)(key, state, data)[0]


def test_statistics_are_carried_per_particle(data, key):
    before, after = step(weight_space(NETWORK, LIKELIHOOD), data, key)
    for i in range(2):
        theta, state = jax.tree.map(lambda leaf, i=i: leaf[i], (before.particles, before.network_state))
        _, expected = NETWORK.apply(theta, state, data.x, True)
        mine = jax.tree.map(lambda leaf, i=i: leaf[i], after.network_state)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), mine, expected)


def test_extra_points_leave_no_trace_in_statistics(data, key):
    far = points(100 + np.arange(6.0).reshape(3, 2))
    states = [
        step(function_space(NETWORK, LIKELIHOOD, flat(), measurement=measurement), data, key)[1].network_state
        for measurement in (far, train_only())
    ]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), *states)


def test_predictions_are_made_with_the_running_statistics(data, key):
    _, after = step(weight_space(NETWORK, LIKELIHOOD), data, key)
    together, state = forward(NETWORK, after.particles, after.network_state, data.x)
    alone, _ = forward(NETWORK, after.particles, after.network_state, data.x[:1])
    np.testing.assert_allclose(together[:, :1], alone, rtol=1e-4, atol=1e-5)
    assert all(map(jnp.array_equal, jax.tree.leaves(state), jax.tree.leaves(after.network_state)))


def test_the_prior_is_given_a_quarter_of_the_labelled_rows(data, key):
    seen = []

    def score(key, f, x, outputs=None, context=None):
        seen.append(context)
        return jnp.zeros_like(f)

    prior = FunctionPrior(score, for_classes=True, takes_context=True)
    state = weight_space(NETWORK, LIKELIHOOD).init(key, 2)
    whole = posterior_score(LIKELIHOOD, prior, 3, None, 1.0, 1.0)
    x = jnp.concatenate([data.x, jnp.ones((4, 2))])
    whole(list(jax.random.split(key, 3)), state, jnp.zeros((2, ROWS + 4, 3)), x, data)
    np.testing.assert_array_equal(seen[0], data.x[: ROWS // 4])


def test_a_whole_step_with_the_priors_of_draws(data, key):
    prior = moment_matched(NETWORK, LIKELIHOOD, draws=4)
    _, after = step(function_space(NETWORK, LIKELIHOOD, prior, measurement=points(np.ones((2, 2)))), data, key)
    assert all(jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(after.particles))
