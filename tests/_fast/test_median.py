# SPDX-License-Identifier: Apache-2.0
"""The median by counting against NumPy's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fpovi._fast.median import median

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
