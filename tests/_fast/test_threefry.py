# SPDX-License-Identifier: Apache-2.0
"""Unrolled keys against jax.random itself: the same bits, so no tolerance is needed. Normal numbers against scipy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from fpovi._fast.threefry import normals, unrolled

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
def test_an_unrolled_key_gives_the_same_numbers(name):
    sample = SAMPLERS[name]
    np.testing.assert_array_equal(sample(unrolled(KEY)), sample(KEY))
    np.testing.assert_array_equal(jax.jit(sample)(unrolled(KEY)), sample(KEY))


def test_in_double_precision_too():
    with jax.enable_x64(True):
        sample = lambda key: jax.random.normal(key, (9,), jnp.float64)  # noqa: E731
        np.testing.assert_array_equal(sample(unrolled(KEY)), sample(KEY))
        np.testing.assert_array_equal(normals(KEY, (9,)), sample(KEY))


def test_an_unrolled_key_has_no_loop():
    program = jax.jit(lambda key: jax.random.bits(unrolled(key), (64,)))
    assert "while" not in program.lower(KEY).compile().as_text()


def test_keys_of_other_generators_stay():
    key = jax.random.key(0, impl="rbg")
    assert unrolled(key) is key
    assert unrolled(unrolled(KEY)).dtype == unrolled(KEY).dtype


@pytest.mark.parametrize("shape", [(), (13,), (5, 13), (0, 3)])
def test_normals_are_those_of_the_key(shape):
    drawn = normals(KEY, shape)
    assert drawn.shape == shape
    assert drawn.dtype == jnp.float32
    np.testing.assert_array_equal(jax.jit(lambda key: normals(unrolled(key), shape))(KEY), drawn)


def test_normals_of_many_keys():
    """Also of keys in two axes, one of them shared."""
    keys = jax.random.split(unrolled(KEY), (2, 3))
    each = jax.jit(jax.vmap(jax.vmap(lambda key: normals(key, (4, 5)))))(keys)
    for row in range(2):
        for column in range(3):
            # the compiler may contract a product and a sum
            np.testing.assert_allclose(each[row, column], normals(keys[row, column], (4, 5)), rtol=1e-5, atol=1e-6)
    same = jax.vmap(lambda scale: scale * normals(KEY, (2,)))(jnp.asarray([1.0, 2.0]))
    np.testing.assert_array_equal(same[1], 2 * normals(KEY, (2,)))


def test_normals_are_normal():
    """By scipy: each half of the pairs, their tails, and whether knowing one tells about the other."""
    size = 10**6
    drawn = np.asarray(normals(KEY, (2 * size,)), float)
    assert np.all(np.isfinite(drawn))
    for half in (drawn[:size], drawn[size:]):
        assert stats.kstest(half, "norm").pvalue > 0.01
        beyond = stats.binomtest(int(np.sum(np.abs(half) > 4)), size, 2 * stats.norm.sf(4))
        assert beyond.pvalue > 0.01
    angle = np.arctan2(drawn[size:], drawn[:size]) / (2 * np.pi) + 0.5
    assert stats.kstest(angle, "uniform").pvalue > 0.01
    radius = stats.chi2.cdf(drawn[size:] ** 2 + drawn[:size] ** 2, 2)
    assert stats.kstest(radius, "uniform").pvalue > 0.01
    table, _, _ = np.histogram2d(angle, radius, bins=16)
    assert stats.chi2_contingency(table).pvalue > 0.01


def test_normals_of_other_generators_are_those_of_jax():
    key = jax.random.key(0, impl="rbg")
    np.testing.assert_array_equal(normals(key, (5, 3)), jax.random.normal(key, (5, 3)))
