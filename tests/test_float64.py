# SPDX-License-Identifier: Apache-2.0
"""Double precision where it is asked for, and nowhere else."""

import jax
import jax.numpy as jnp
import numpy as np

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
