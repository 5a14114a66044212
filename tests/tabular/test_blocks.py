# SPDX-License-Identifier: Apache-2.0
"""A row's prediction does not depend on the other rows of the call, nor on how many there are."""

import tracemalloc

import jax
import numpy as np
import pandas as pd
import pytest

from fpovi.estimators import BNNClassifier, BNNRegressor
from fpovi.estimators.regressor import _mean_and_std
from fpovi.tabular import blocks
from fpovi.tabular.predictions import prediction_columns

pytestmark = pytest.mark.usefixtures("loose_dtypes")  # fits: optax mixes whole and real numbers
SETTINGS = {"hidden_layer_sizes": (4,), "n_particles": 3, "prior": "nngp", "max_epochs": 5, "random_state": 0}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    return pd.DataFrame({"a": rng.normal(size=2500), "b": rng.choice(["x", "y"], 2500), "c": rng.normal(size=2500)})


@pytest.fixture(scope="module")
def regressor(table):
    return _fitted(BNNRegressor(**SETTINGS), table, np.sin(table["a"]))


@pytest.fixture(scope="module")
def classifier(table):
    return _fitted(BNNClassifier(**SETTINGS), table, np.where(table["a"] > 0, "up", "down"))


def _fitted(model, table, y):
    with jax.numpy_dtype_promotion("standard"):
        return model.fit(table[:60], y[:60])


PARTS = [slice(0, 1), slice(0, 3), slice(1000, 1040), slice(7, 1031), slice(3, 2060)]


def test_numbers_do_not_depend_on_other_rows(regressor, table):
    mean, std = regressor.predict(table, return_std=True)
    columns = prediction_columns(regressor.predict_dist(table), ["y"])
    for part in PARTS:
        some = regressor.predict(table[part], return_std=True)
        np.testing.assert_array_equal(some, (mean[part], std[part]))
        np.testing.assert_array_equal(regressor.predict(table[part]), mean[part])
        found = prediction_columns(regressor.predict_dist(table[part]), ["y"])
        pd.testing.assert_frame_equal(found, columns[part].reset_index(drop=True), check_exact=True)


def test_probabilities_do_not_depend_on_other_rows(classifier, table):
    probs = classifier.predict_proba(table)
    columns = prediction_columns(classifier.predict_dist(table), ["y"], classes=classifier.classes_)
    for part in PARTS:
        np.testing.assert_array_equal(classifier.predict_proba(table[part]), probs[part])
        found = prediction_columns(classifier.predict_dist(table[part]), ["y"], classes=classifier.classes_)
        pd.testing.assert_frame_equal(found, columns[part].reset_index(drop=True), check_exact=True)


def test_predictions_are_those_of_the_distribution(regressor, classifier, table):
    expected = regressor.predict_dist(table)
    mean, std = regressor.predict(table, return_std=True)
    np.testing.assert_allclose(mean, np.asarray(expected.mean)[:, 0], atol=1e-6)  # float32, targets of size 1
    np.testing.assert_allclose(std, np.asarray(expected.std)[:, 0], atol=1e-6)
    np.testing.assert_allclose(classifier.predict_proba(table), classifier.predict_dist(table).probs, atol=1e-6)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("make", [lambda table: table, lambda table: table.to_numpy(object)])
def test_chunks_change_nothing(regressor, table, monkeypatch, make):
    X = make(table)
    expected = regressor.predict(X)
    monkeypatch.setattr(blocks, "CHUNK", 700)
    np.testing.assert_array_equal(regressor.predict(X), expected)


def test_faults_are_those_of_the_whole_table(regressor, table, monkeypatch):
    bad = table.copy()
    bad.loc[3, "b"], bad.loc[2400, "a"] = "z", np.inf
    monkeypatch.setattr(blocks, "CHUNK", 700)
    with pytest.raises(ValueError, match="X has inf in column 'a', row 2400"):
        regressor.predict(bad)


def test_memory_is_that_of_the_answer_and_some_blocks(regressor):
    """Memory that NumPy allocates: the whole encoded table and f of all particles would be 3 + 3 numbers a row."""
    X = pd.DataFrame({"a": np.zeros(200_000), "b": "x", "c": np.zeros(200_000)}).astype({"b": "category"})
    regressor.predict(X[:1])
    tracemalloc.start()
    mean = regressor.predict(X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6 * mean.nbytes


def test_tables_of_any_length_share_one_program(regressor, table):
    regressor.predict(table[:1])
    before = _mean_and_std._cache_size()
    assert before > 0
    for rows in (2, 40, 1024, 1500, 2500):
        regressor.predict(table[:rows], return_std=True)
    assert _mean_and_std._cache_size() == before
