# SPDX-License-Identifier: Apache-2.0
"""BNNClassifier keeps all of scikit-learn's promises."""

from sklearn_checks import complaints, run_checks


def test_passes_every_check_of_scikit_learn():
    records = run_checks("BNNClassifier")
    assert len(records) > 50
    assert all(one["status"] == "passed" for one in records), complaints(records)
