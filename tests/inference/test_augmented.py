# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fpovi.baselines import map_ensemble
from fpovi.inference import augmented, function_space, make_batch, run, weight_space
from fpovi.likelihoods import gaussian
from fpovi.networks import mlp
from fpovi.priors import nngp
from fpovi.types import Algorithm, ParametrisedAlgorithm

pytestmark = pytest.mark.usefixtures("loose_dtypes")
NETWORK, LIKELIHOOD = mlp((2, 4, 1)), gaussian()
ALGORITHMS = {
    "function space": function_space(NETWORK, LIKELIHOOD, nngp(NETWORK)),
    "weight space": weight_space(NETWORK, LIKELIHOOD),
}


def same(key, x):
    return x


def noisy(key, x):
    return x + jax.random.normal(key, x.shape, x.dtype)


@pytest.fixture
def data(key):
    return make_batch(jax.random.normal(key, (12, 2)), np.arange(12.0))


def end(algorithm, data, key):
    plain = algorithm.algorithm if isinstance(algorithm, ParametrisedAlgorithm) else algorithm
    return run(key, algorithm, plain.init(key, 3), data, 4, batch_size=5).state.particles


def are_equal(a, b):
    return all(map(jnp.array_equal, jax.tree.leaves(a), jax.tree.leaves(b)))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_step_draws_what_it_drew_before(name, data, key):
    """To the last bit: the transform has a key of its own."""
    algorithm = ALGORITHMS[name]
    plain = end(algorithm, data, key)
    assert are_equal(plain, end(augmented(algorithm, same), data, key))
    changed = end(augmented(algorithm, noisy), data, key)
    assert not are_equal(plain, changed)
    assert are_equal(changed, end(augmented(algorithm, noisy), data, key))


def test_every_step_is_given_other_inputs(data, key):
    plain, seen = ALGORITHMS["weight space"], []

    def watched(key, state, batch):
        seen.append(batch.x)
        return plain.step(key, state, batch)

    algorithm = augmented(Algorithm(plain.init, watched), noisy)
    for one in jax.random.split(key):
        algorithm.step(one, algorithm.init(key, 2), data)
    first, second = seen
    assert first.shape == data.x.shape
    assert not jnp.any(first == second)
    assert not jnp.any(first == data.x)


def build(numbers):
    return ALGORITHMS["weight space"]


def test_algorithms_of_numbers_and_baselines(data, key):
    both = augmented(ParametrisedAlgorithm(build, ()), noisy), augmented(build(()), noisy)
    assert are_equal(*(end(algorithm, data, key) for algorithm in both))
    assert hash(both[0].build) == hash(augmented(ParametrisedAlgorithm(build, ()), noisy).build)
    assert both[1] == augmented(build(()), noisy)
    fits = [
        map_ensemble(key, NETWORK, LIKELIHOOD, data, n=2, num_steps=3, transform=transform).particles
        for transform in (None, same, noisy)
    ]
    assert are_equal(*fits[:2])
    assert not are_equal(fits[0], fits[2])


def test_shapes_are_kept(data, key):
    algorithm = augmented(ALGORITHMS["weight space"], lambda key, x: x[:, :1])
    with pytest.raises(ValueError, match=r"transform returns inputs float32\(12, 1\) for float32\(12, 2\)"):
        algorithm.step(key, algorithm.init(key, 2), data)
