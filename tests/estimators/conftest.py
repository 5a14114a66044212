# SPDX-License-Identifier: Apache-2.0
"""Fitted models that tests share."""

import numpy as np
import pytest

from fpovi import BNNClassifier, BNNRegressor
from support.small_fits import SETTINGS, named_classes, plane


@pytest.fixture(autouse=True)
def _strict_dtypes():
    """Not here: optax raises a float to the power of an integer count."""


@pytest.fixture(scope="package")
def regressor():
    return BNNRegressor(**SETTINGS).fit(*plane())


@pytest.fixture(scope="package")
def classifier():
    return BNNClassifier(**SETTINGS).fit(*named_classes())


@pytest.fixture(scope="package")
def of_two_targets():
    X, y = plane()
    return BNNRegressor(**SETTINGS).fit(X, np.column_stack([y, 100 * X[:, 1] + 1000]))
