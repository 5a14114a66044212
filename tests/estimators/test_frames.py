# SPDX-License-Identifier: Apache-2.0
"""Tables as people have them: columns of all kinds, odd scales, few rows; fits are finite and do not warn."""

import numpy as np
import pandas as pd
import pytest

from fpovi import BNNClassifier, BNNRegressor
from support.frames import every_kind
from support.small_fits import SETTINGS, plane, same_fit


def refit(X, y, **settings):
    return BNNRegressor(**{**SETTINGS, **settings}).fit(X, y)


def assert_finite(model, X):
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert (std > 0).all()


def test_a_frame_of_every_kind_of_column():
    frame = pd.concat([every_kind()] * 2, ignore_index=True)
    model = refit(frame, np.arange(8.0))
    assert model.n_features_in_ == frame.shape[1]
    assert model.feature_names_in_.tolist() == list(frame.columns)
    assert_finite(model, frame)
    assert_finite(model, frame.map(lambda cell: None).astype(frame.dtypes.to_dict()))


def test_a_frame_and_the_array_of_its_numbers_are_fitted_alike(regressor):
    X, y = plane()
    framed = refit(pd.DataFrame(X, columns=["a", "b"], index=range(100, 124)), pd.Series(y))
    assert same_fit(framed, regressor)
    assert not hasattr(regressor, "feature_names_in_")


def test_a_frame_whose_columns_are_called_by_numbers(regressor):
    X, y = plane()
    assert same_fit(refit(pd.DataFrame(X), y), regressor)


def test_lists_are_tables(regressor):
    X, y = plane()
    model = refit(X.tolist(), y.tolist())
    assert same_fit(model, regressor)
    np.testing.assert_array_equal(model.predict(X.tolist()), regressor.predict(X))


@pytest.mark.parametrize(
    "change",
    [
        lambda X: X * [1e-12, 1e12] + [0, 1e15],
        lambda X: np.sinh(10 * X),
        lambda X: np.round(X),
        lambda X: np.where(np.arange(24)[:, None] == 3, 1e300, X),
        lambda X: np.round(X[[0, 1] * 12]),
        lambda X: X.astype(np.float16),
    ],
    ids=["scales", "heavy tails", "ties", "outlier", "duplicates", "half precision"],
)
def test_awkward_columns_give_finite_predictions(change):
    X, y = plane()
    X = change(X)
    model = refit(X, y)
    assert_finite(model, X)
    assert_finite(model, np.full((1, 2), 1e308))


def test_constant_columns_change_nothing(regressor):
    X, y = plane()
    wide = np.column_stack([np.full(24, 1e6), X, np.zeros(24)])
    model = refit(wide, y)
    assert same_fit(model, regressor)
    assert_finite(model, wide + 1)


def test_two_rows():
    model = refit([[0.0, 1.0], [1.0, 0.0]], [0.0, 1.0])
    assert_finite(model, plane()[0])


def test_more_columns_than_rows():
    X = np.random.default_rng(0).normal(size=(20, 200))
    model = refit(X, X[:, 0])
    assert_finite(model, X)


def test_only_constant_columns_leave_the_mean():
    model = refit(np.ones((24, 2)), plane()[1])
    assert np.ptp(model.predict(plane()[0])) == 0


def test_several_targets_keep_their_units(of_two_targets):
    X, y = plane()
    mean, std = of_two_targets.predict(X, return_std=True)
    assert mean.shape == std.shape == (24, 2)
    assert np.all(np.abs(mean[:, 1] - 1000) < 1000)
    assert of_two_targets.predict_dist(X).mean.shape == (24, 2)
    assert of_two_targets.sample_y(X, 3).shape == (3, 24, 2)
    assert isinstance(of_two_targets.score(X, np.column_stack([y, 100 * X[:, 1] + 1000])), float)


def test_one_target_keeps_the_shape_it_was_given(regressor):
    X, y = plane()
    column = refit(X, y[:, None])
    np.testing.assert_array_equal(column.predict(X), regressor.predict(X)[:, None])


def test_units_of_the_target_come_back(regressor):
    X, y = plane()
    mean, std = regressor.predict(X, return_std=True)
    moved = refit(X, y * 1e6 + 1e9)
    # float64 leaves 1e-16·1e9/1e6 of a standardised target, float32 keeps 6e-8 of it, and 20 steps let that grow
    np.testing.assert_allclose((moved.predict(X) - 1e9) / 1e6, mean, atol=1e-4)
    np.testing.assert_allclose(moved.predict(X, return_std=True)[1] / 1e6, std, rtol=1e-4)
    # its shift is a float32: off by up to 32 of 1e9
    np.testing.assert_allclose((np.asarray(moved.predict_dist(X).mean, np.float64)[:, 0] - 1e9) / 1e6, mean, atol=2e-4)


def test_a_target_far_from_zero_keeps_its_digits(regressor):
    X, y = plane()
    far = refit(X, y + 1e9)
    # y + 1e9 itself is rounded to 1e-7
    np.testing.assert_allclose(far.predict(X) - 1e9, regressor.predict(X), atol=1e-4)


def test_classes_of_every_type_come_back_as_they_were(classifier):
    X, words = classifier_table()
    places = np.searchsorted(["high", "low", "middle"], words)
    expected = classifier.predict_proba(X)
    for labels in (words, words.astype(object), places, places.astype(np.int8), places * 2 - 7, list(words)):
        model = BNNClassifier(**SETTINGS).fit(X, labels)
        np.testing.assert_array_equal(model.predict_proba(X), expected)
        assert model.classes_.dtype == np.unique(np.asarray(labels)).dtype
        assert set(model.predict(X)) <= set(np.asarray(labels).tolist())


def test_classes_in_a_frame(classifier):
    X, words = classifier_table()
    for labels in (pd.Series(words), pd.Series(words, dtype="category"), pd.Series(words, dtype="string")):
        model = BNNClassifier(**SETTINGS).fit(X, labels)
        np.testing.assert_array_equal(model.predict(X).astype(str), classifier.predict(X))


def test_truths_are_classes():
    X, y = plane()
    model = BNNClassifier(**SETTINGS).fit(X, y > 0)
    assert model.classes_.tolist() == [False, True]
    assert model.predict(X).dtype == bool


def classifier_table():
    from support.small_fits import named_classes

    return named_classes()
