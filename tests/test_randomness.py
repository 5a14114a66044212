# SPDX-License-Identifier: Apache-2.0
"""Straight keys and normal numbers against jax.random itself: the same bits, so no tolerance is needed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fpovi.randomness import normals, straight

KEY = jax.random.key(17)

SAMPLERS = {
    "bits": lambda key: jax.random.bits(key, (3, 13)),
    "bits of 8": lambda key: jax.random.bits(key, (5,), jnp.uint8),
    "uniform": lambda key: jax.random.uniform(key, (100,)),
    "normal": lambda key: jax.random.normal(key, (7, 5)),
    "randint": lambda key: jax.random.randint(key, (20,), 0, 50),
    "permutation": lambda key: jax.random.permutation(key, 30),
    "split": lambda key: jax.random.key_data(jax.random.split(key, (2, 3))),
    "fold_in": lambda key: jax.random.key_data(jax.random.fold_in(key, 2**31 + 5)),
    "scalar": lambda key: jax.random.uniform(key),
    "many keys": lambda key: jax.vmap(lambda key: jax.random.normal(key, (3,)))(jax.random.split(key, 4)),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_straight_key_gives_the_same_numbers(name):
    sample = SAMPLERS[name]
    np.testing.assert_array_equal(sample(straight(KEY)), sample(KEY))
    np.testing.assert_array_equal(jax.jit(sample)(straight(KEY)), sample(KEY))


def test_in_double_precision_too():
    with jax.enable_x64(True):
        sample = lambda key: jax.random.normal(key, (9,), jnp.float64)  # noqa: E731
        np.testing.assert_array_equal(sample(straight(KEY)), sample(KEY))
        assert normals(KEY, (2,)).dtype == jnp.float64


def test_a_straight_key_has_no_loop():
    program = jax.jit(lambda key: jax.random.bits(straight(key), (64,)))
    assert "while" not in program.lower(KEY).compile().as_text()


def test_keys_of_other_generators_stay():
    key = jax.random.key(0, impl="rbg")
    assert straight(key) is key
    assert straight(straight(KEY)).dtype == straight(KEY).dtype


@pytest.mark.parametrize("shape", [(), (13,), (5, 13), (0, 3)])
@pytest.mark.parametrize("prepare", [lambda key: key, straight], ids=["as given", "straight"])
def test_normal_is_that_of_jax(shape, prepare):
    np.testing.assert_array_equal(normals(prepare(KEY), shape), jax.random.normal(KEY, shape))


def test_normal_of_many_keys():
    """Also of keys in two axes, one of them shared."""
    keys = jax.random.split(straight(KEY), (2, 3))
    each = jax.jit(jax.vmap(jax.vmap(lambda key: normals(key, (4, 5)))))(keys)
    for row in range(2):
        for column in range(3):
            np.testing.assert_array_equal(each[row, column], jax.random.normal(keys[row, column], (4, 5)))
    same = jax.vmap(lambda scale: scale * normals(KEY, (2,)))(jnp.asarray([1.0, 2.0]))
    np.testing.assert_array_equal(same[1], 2 * jax.random.normal(KEY, (2,)))
