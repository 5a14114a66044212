# SPDX-License-Identifier: Apache-2.0
"""A prior of weights beneath functions: the step of a function prior where the two correspond, and MAP for one."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fpovi.flows import ensemble, gfsf
from fpovi.inference import function_space
from fpovi.inference.batches import make_batch
from fpovi.inference.loop import run
from fpovi.likelihoods import gaussian
from fpovi.measurement import train_only
from fpovi.priors import flat, gaussian_process, on_weights
from support.scenarios import linear_network, linear_posterior, polynomial

NOISE = 0.3
X = np.asarray([[-1.0], [0.2], [1.0]])
Y = np.asarray([0.5, -0.3, 1.0])


def algorithm(network, prior, *before, flow=gfsf, optimiser=None):
    optimiser = optax.sgd(1.0) if optimiser is None else optimiser
    return function_space(
        network, gaussian(NOISE), prior, flow=flow, measurement=train_only(), prior_size=None,
        optimiser=optax.chain(*before, optimiser),
    )  # fmt: skip


def test_it_is_the_function_prior_where_weights_and_values_correspond(key, x64):
    """Three weights, three values, θ ~ N(0, I): f ~ N(0, ΦΦᵀ)."""
    network = linear_network(polynomial, 3)
    exact = gaussian_process(lambda a, b: polynomial(a) @ polynomial(b).T, jitter=0.0)
    steps = [algorithm(network, exact), algorithm(network, flat(), on_weights(network))]
    batch, moved = make_batch(X, Y), []
    for each in steps:
        state = each.init(key, 6)
        moved.append(each.step(key, state, batch)[0].particles - state.particles)
    np.testing.assert_allclose(moved[1], moved[0], rtol=1e-8)  # float64; ΦΦᵀ has condition 100
    assert float(jnp.linalg.norm(moved[0])) > 1


@pytest.mark.usefixtures("loose_dtypes")  # Adam's own
def test_one_particle_goes_to_the_most_probable_weights(key, x64):
    network = linear_network(polynomial, 3)
    climb = algorithm(network, flat(), on_weights(network), flow=ensemble, optimiser=optax.adam(1e-2))
    found = run(key, climb, climb.init(key, 1), make_batch(X[:2], Y[:2]), 3000).state.particles[0]
    expected, _ = linear_posterior(np.asarray(polynomial(jnp.asarray(X[:2]))), Y[:2], NOISE)
    np.testing.assert_allclose(found, expected, atol=1e-3)  # the last steps of Adam, at a rate of .01
    assert np.abs(expected).min() > 0.01


def test_it_says_what_it_needs():
    network = linear_network(polynomial, 3)
    transformation = on_weights(network)
    updates = jnp.zeros((2, 3))
    with pytest.raises(ValueError, match="on_weights needs the particles"):
        transformation.update(updates, transformation.init(updates))
    descent, _ = transformation.update(updates, transformation.init(updates), jnp.ones((2, 3)))
    np.testing.assert_array_equal(descent, jnp.ones((2, 3)))  # downhill is away from the weights' mean, 0
