# SPDX-License-Identifier: Apache-2.0
"""What must not matter does not, to the last bit: order, repetition, company; and what must, does."""

import pickle

import jax
import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fpovi import BNNClassifier, BNNRegressor
from fpovi.inference.loop import _chunk
from support.small_fits import SETTINGS, named_classes, plane, same_fit

ESTIMATORS = [(BNNRegressor, plane), (BNNClassifier, named_classes)]


@pytest.mark.parametrize(("estimator", "table"), ESTIMATORS)
def test_the_same_seed_gives_the_same_bits_and_another_does_not(estimator, table):
    first, again = (estimator(**SETTINGS).fit(*table()) for _ in range(2))
    other = estimator(**{**SETTINGS, "random_state": 1}).fit(*table())
    assert same_fit(first, again)
    assert not same_fit(first, other)


def test_no_seed_gives_another_fit_each_time():
    settings = {**SETTINGS, "random_state": None}
    assert not same_fit(BNNRegressor(**settings).fit(*plane()), BNNRegressor(**settings).fit(*plane()))


def test_a_random_state_object_counts_as_its_seed(regressor):
    model = BNNRegressor(**{**SETTINGS, "random_state": np.random.RandomState(0)}).fit(*plane())
    assert same_fit(model, regressor)


@pytest.mark.parametrize(("estimator", "table"), ESTIMATORS)
def test_weights_are_repetitions_and_order_is_nothing(estimator, table):
    X, y = table(12)
    weight = np.arange(12) % 3
    rows = np.random.default_rng(0).permutation(np.repeat(np.arange(12), weight))
    weighted = estimator(**SETTINGS).fit(X, y, sample_weight=weight)
    repeated = estimator(**SETTINGS).fit(X[rows], y[rows])
    assert same_fit(weighted, repeated)


@pytest.mark.parametrize("dtype", [object, str])
def test_a_class_of_weight_zero_is_not_there(dtype):
    X, y = named_classes()
    y = np.where(np.arange(24) == 5, "zzz", y).astype(dtype)
    model = BNNClassifier(**SETTINGS).fit(X, y, sample_weight=(y != "zzz").astype(float))
    assert model.classes_.tolist() == ["high", "low", "middle"]


def test_a_row_is_predicted_alike_in_any_company(regressor):
    X = np.random.default_rng(1).normal(size=(3000, 2)) * 3
    mean, std = regressor.predict(X, return_std=True)
    for rows in (slice(0, 1), slice(2999, 3000), slice(1000, 1100), np.arange(2999, -1, -7)):
        found = regressor.predict(X[rows], return_std=True)
        np.testing.assert_array_equal(found[0], mean[rows])
        np.testing.assert_array_equal(found[1], std[rows])


def test_probabilities_add_up(classifier):
    probs = classifier.predict_proba(named_classes(200, seed=1)[0])
    np.testing.assert_allclose(probs.sum(axis=1), 1, rtol=1e-15)
    assert (probs >= 0).all()


def test_a_draw_is_one_function_plus_noise(regressor):
    X = np.repeat([[0.3, 0.1], [2.0, -9.0]], 200, axis=0)  # far out, particles are further apart than the noise is wide
    draws = regressor.sample_y(X, 64, random_state=0)
    assert draws.shape == (64, 400)
    predictive = regressor.predict_dist(X[-1:])
    # within a draw one particle's noise, across draws the particles too: five standard errors of 200 draws of noise
    noise = float(predictive.aleatoric_std[0, 0])
    assert np.all(draws[:, 200:].std(axis=1) < 1.5 * noise)
    means = np.asarray(predictive.particle_means)[:, 0, 0]
    nearest = np.abs(draws[:, 200:].mean(axis=1)[:, None] - means).min(axis=1)
    assert np.all(nearest < 5 * noise / 200**0.5)
    np.testing.assert_array_equal(draws, regressor.sample_y(X, 64, random_state=0))
    assert not np.array_equal(draws, regressor.sample_y(X, 64, random_state=1))


def test_draws_of_classes_are_classes(classifier):
    draws = classifier.sample_y(named_classes()[0], 5, random_state=0)
    assert draws.shape == (5, 24)
    assert set(draws.ravel()) <= set(classifier.classes_)


@pytest.mark.parametrize("copy", [lambda m: pickle.loads(pickle.dumps(m)), clone], ids=["pickle", "clone"])
def test_copies(copy, regressor, classifier):
    for model, table in ((regressor, plane), (classifier, named_classes)):
        other = copy(model)
        assert other.get_params() == model.get_params()
        if copy is clone:
            assert not hasattr(other, "fitted_")
            other.fit(*table())
        assert same_fit(other, model)
        np.testing.assert_array_equal(other.predict(table()[0]), model.predict(table()[0]))


def test_joblib_keeps_a_model(tmp_path, regressor):
    joblib.dump(regressor, tmp_path / "model.joblib")
    other = joblib.load(tmp_path / "model.joblib")
    np.testing.assert_array_equal(other.predict(plane()[0]), regressor.predict(plane()[0]))


def test_in_a_pipeline_and_in_searches():
    X, y = plane(32)
    model = make_pipeline(StandardScaler(), BNNRegressor(**SETTINGS))
    scores = cross_val_score(model, X, y, cv=3)
    assert np.isfinite(scores).all()
    grid = {"bnnregressor__learning_rate": np.array([1e-3, 1e-1]), "bnnregressor__n_particles": np.array([4])}
    search = GridSearchCV(model, grid, cv=2, error_score="raise").fit(X, y)
    assert search.best_params_["bnnregressor__learning_rate"] == 0.1
    assert np.isfinite(search.predict(X)).all()


def test_one_program_serves_all_fits_of_a_shape(regressor, caplog):
    programs = _chunk._cache_size()
    X, y = plane(30, seed=3)
    with jax.log_compiles(), caplog.at_level("WARNING", logger="jax"):
        model = BNNRegressor(**{**SETTINGS, "random_state": 5, "learning_rate": 0.02}).fit(X * 1e3, y - 50)
        model.predict(X[:7])
        for rows in (20, 32):
            BNNRegressor(**SETTINGS).fit(*plane(rows, seed=4)).predict(X)
        model.partial_fit(X[:2] + 1, y[:2])
    assert _chunk._cache_size() == programs
    compiled = [record.getMessage() for record in caplog.records if "Compiling" in record.getMessage()]
    large = [message for message in compiled if any(name in message for name in ("_chunk", "start", "outputs_of"))]
    assert not large
