# SPDX-License-Identifier: Apache-2.0
"""BNNRegressor keeps all of scikit-learn's promises."""

import pytest

from support.sklearn_checks import complaints, run_checks


@pytest.mark.parametrize("space", ["weight", pytest.param("function", marks=pytest.mark.slow)])
def test_passes_every_check_of_scikit_learn(space):
    records = run_checks("BNNRegressor", space)
    assert len(records) > 50
    assert all(one["status"] == "passed" for one in records), complaints(records)
