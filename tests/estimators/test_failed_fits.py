# SPDX-License-Identifier: Apache-2.0
"""A fit that fails or is interrupted leaves the estimator as it was: the whole old model, or unfitted."""

from copy import copy

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from fpovi import BNNClassifier, BNNRegressor
from fpovi.estimators import base
from fpovi.fitting import fit, record, training
from support.small_fits import SETTINGS, named_classes, plane

X, y = plane()
TALLER = np.concatenate([X, X[:, :1]], axis=1), 100 * y  # other columns, other units: another encoder and network
TABLES = {
    "a constant target": (TALLER[0], np.ones(len(y))),
    "a missing target": (TALLER[0], np.where(np.arange(len(y)) == 3, np.nan, y)),
    "an infinite input": (np.where(TALLER[0] == TALLER[0].max(), np.inf, TALLER[0]), y),
    "words": (np.full(TALLER[0].shape, "word", object), np.full(len(y), "word")),
}


def fail(error):
    def failing(*args, **kwargs):
        raise error

    return failing


def assert_as_before(model, before, answer):
    after = vars(model)
    assert after.keys() == before.keys()
    assert all(after[name] is before[name] for name in before)
    np.testing.assert_array_equal(model.predict(X), answer)


@pytest.fixture
def fitted(regressor):
    return copy(regressor)


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_bad_data_leave_the_old_model_or_none(fitted, table):
    before, answer = dict(vars(fitted)), fitted.predict(X)
    with pytest.raises(ValueError):  # noqa: PT011 — which one is tested elsewhere
        fitted.fit(*table)
    assert_as_before(fitted, before, answer)
    new = BNNRegressor(**SETTINGS)
    with pytest.raises(ValueError):  # noqa: PT011
        new.fit(*table)
    assert vars(new) == new.get_params()


# of the stages of a fit, after which something of the new model is known already
STAGES = {
    "before training": (base, "candidate_scales"),
    "while it trains": (training, "run"),
    "after training": (record, "diagnose"),
}


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, FloatingPointError])
@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
def test_an_interrupted_fit_leaves_the_old_model_or_none(monkeypatch, fitted, stage, error):
    before, answer = dict(vars(fitted)), fitted.predict(X)
    new = BNNRegressor(**SETTINGS)
    with monkeypatch.context() as patch:
        patch.setattr(*stage, fail(error()))
        with pytest.raises(error):
            fitted.fit(X, 100 * y)
        with pytest.raises(error):
            new.fit(X, y)
    assert_as_before(fitted, before, answer)
    assert vars(new) == new.get_params()
    with pytest.raises(NotFittedError):
        new.predict(X)


def test_an_interrupted_partial_fit_leaves_the_old_model(monkeypatch, fitted):
    before, answer = dict(vars(fitted)), fitted.predict(X)
    with monkeypatch.context() as patch:
        patch.setattr(record, "diagnose", fail(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            fitted.partial_fit(X[:3], y[:3])
    assert_as_before(fitted, before, answer)


def test_a_classifier_that_failed_knows_its_old_classes(monkeypatch, classifier):
    model, labels = copy(classifier), named_classes()[1]
    before, answer = dict(vars(model)), model.predict(X)
    with monkeypatch.context() as patch:
        patch.setattr(fit, "train", fail(KeyboardInterrupt()))
        for learn in (lambda: model.fit(X, labels == "low"), lambda: model.partial_fit(X, labels, classes=["a", "b"])):
            with pytest.raises((KeyboardInterrupt, ValueError)):
                learn()
    assert_as_before(model, before, answer)
    new = BNNClassifier(**SETTINGS)
    with pytest.raises(ValueError, match="one class only"):
        new.partial_fit(X, labels, classes=["a"])
    assert vars(new) == new.get_params()
