# SPDX-License-Identifier: Apache-2.0
"""Fitted models that tests share, and settings that make fits quick to compile."""

import jax
import numpy as np
import pytest

from fpovi import BNNClassifier, BNNRegressor
from small_fits import SETTINGS, named_classes, plane


@pytest.fixture(autouse=True)
def _strict_dtypes():
    """Not here: optax raises a float to the power of an integer count."""


@pytest.fixture(autouse=True, scope="package")
def _quick_to_compile():
    """A fit of a second takes several to compile; half of that is for speed that no test needs."""
    before = jax.config.values["jax_disable_most_optimizations"]
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture(scope="package")
def regressor(_quick_to_compile):
    return BNNRegressor(**SETTINGS).fit(*plane())


@pytest.fixture(scope="package")
def classifier(_quick_to_compile):
    return BNNClassifier(**SETTINGS).fit(*named_classes())


@pytest.fixture(scope="package")
def of_two_targets(_quick_to_compile):
    X, y = plane()
    return BNNRegressor(**SETTINGS).fit(X, np.column_stack([y, 100 * X[:, 1] + 1000]))
