# SPDX-License-Identifier: Apache-2.0
"""What all algorithms share of a step; most of it is tested with them."""

import jax
import jax.numpy as jnp
import pytest

from fpovi.inference.step import all_finite

INF, NAN = jnp.inf, jnp.nan


@pytest.mark.parametrize(
    "bad",
    [NAN, [1.0, INF], [[1.0, 2.0], [INF, -INF]], [[[1.0], [NAN]], [[0.0], [1.0]]], [[-INF, 1.0]]],
    ids=["scalar", "vector", "both infinities", "three axes", "one row"],
)
def test_one_number_is_enough(bad):
    assert all_finite({"good": jnp.ones((3, 2)), "other": jnp.zeros(())})
    assert not all_finite({"good": jnp.ones((3, 2)), "bad": jnp.asarray(bad)})


def test_what_is_no_floating_point_number_is_finite():
    assert all_finite((jnp.asarray([2**31 - 1, 2**31 - 1]), jnp.asarray(True), jax.random.key(0), jnp.zeros((0, 3))))
