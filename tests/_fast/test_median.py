# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fpovi._fast.median import median
from fpovi._float64 import in_float64

tiny_difference = in_float64(lambda a: (a + 1e-12) - a)


def test_in_float64_keeps_the_callers_dtype_and_does_not_leak(key):
    out = jax.jit(tiny_difference)(jnp.ones(3))
    assert out.dtype == jnp.float32
    np.testing.assert_allclose(out, 1e-12, rtol=1e-3)  # 1 + 1e-12 has four good digits of the 1e-12 in float64
    assert jnp.ones(()).dtype == jnp.float32


def test_in_float64_inside_vmap_and_scan(key):
    solve = in_float64(jnp.linalg.solve)
    a = jnp.eye(3) + 0.1 * jax.random.normal(key, (4, 3, 3))
    b = jax.random.normal(key, (3, 2))
    batched = jax.jit(jax.vmap(solve, in_axes=(0, None)))(a, b)
    np.testing.assert_allclose(batched, np.stack([np.linalg.solve(one, b) for one in a]), rtol=1e-5)
    _, scanned = jax.lax.scan(lambda carry, one: (carry, solve(one, b)), 0, a)
    np.testing.assert_allclose(scanned, batched, rtol=1e-6)


compiled_median = jax.jit(median)  # once for each of a few sizes


@given(
    st.sampled_from([1, 2, 5, 8, 9]).flatmap(lambda n: arrays(np.float32, n, elements=st.floats(0, 2.0**100, width=32)))
)
@settings(max_examples=50, deadline=None)
def test_median_is_numpys(values):
    assert float(compiled_median(jnp.asarray(values))) == pytest.approx(float(np.median(values)), rel=1e-6)


def test_median_in_float64_and_with_ties(x64):
    values = jnp.asarray([[0.0, 2.0, -0.0], [2.0, 0.0, 5.0], [2.0, 5.0, 0.0]])
    assert float(median(values)) == 2.0
    assert median(values).dtype == jnp.float64
