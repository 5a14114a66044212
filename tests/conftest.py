# SPDX-License-Identifier: Apache-2.0
"""What every test may ask for."""

import jax
import pytest


@pytest.fixture
def key():
    return jax.random.key(0)


@pytest.fixture
def x64():
    """Double precision for the length of a test."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(autouse=True)
def _strict_dtypes():
    """No silent promotion: a result has the dtype of its inputs because the code says so, not by luck."""
    with jax.numpy_dtype_promotion("strict"):
        yield


@pytest.fixture
def loose_dtypes():
    """For tests that take steps of Adam: optax raises a float to the power of an integer count."""
    with jax.numpy_dtype_promotion("standard"):
        yield
