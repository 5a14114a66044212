# SPDX-License-Identifier: Apache-2.0
"""What cannot be fitted is told at the door, by name, in a ``ValueError``."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.exceptions import NotFittedError

from fpovi import BNNClassifier, BNNRegressor, load
from support.small_fits import SETTINGS, named_classes, plane

X, Y = plane()
LABELS = named_classes()[1]


def put(array, value, place=5):
    changed = np.array(array, float)
    changed.flat[place] = value
    return changed


BAD_ROWS = {
    "NaN in y": ({"y": put(Y, np.nan)}, "y has 1 rows with NaN or infinity, the first at row 5"),
    "infinity in y": ({"y": put(Y, np.inf)}, "y has 1 rows with NaN or infinity, the first at row 5"),
    "no y": ({"y": None}, "y is None"),
    "short y": ({"y": Y[:-1]}, r"inconsistent numbers of samples: \[24, 23\]"),
    "words for y": ({"y": LABELS}, "y cannot be read as numbers .*use BNNClassifier"),
    "complex y": ({"y": Y + 1j}, "y holds complex numbers"),
    "constant y": ({"y": np.ones(24)}, r"y is constant \(1\)"),
    "one constant target": ({"y": np.column_stack([Y, np.ones(24)])}, r"y is constant \(1\) in column 1"),
    "y of three axes": ({"y": Y[:, None, None]}, r"y has shape \(24, 1, 1\)"),
    "one row": ({"X": X[:1], "y": Y[:1]}, "n_samples=1 rows, but at least 2"),
    "no rows": ({"X": X[:0], "y": Y[:0]}, "n_samples=0 rows"),
    "no columns": ({"X": X[:, :0]}, "0 feature"),
    "one axis": ({"X": X[:, 0]}, r"X has shape \(24,\).*Reshape your data"),
    "a series": ({"X": pd.Series(X[:, 0])}, r"X has shape \(24,\).*Reshape your data"),
    "three axes": ({"X": X[:, :, None]}, r"X has rows of shape \(2, 1\): give a network="),
    "a number": ({"X": 3.0}, r"X has shape \(\)"),
    "sparse": ({"X": scipy.sparse.csr_matrix(X)}, "X is sparse"),
    "complex X": ({"X": X + 1j}, "X holds complex numbers"),
    "infinity in X": ({"X": put(X, np.inf)}, "X has inf in column 1, row 2"),
    "things in X": ({"X": np.full((24, 2), object())}, "X has .* in column 0, row 0"),
    "rows of two lengths": ({"X": [[1.0, 2.0]] * 23 + [[1.0]]}, "X"),
    "short weights": ({"sample_weight": np.ones(23)}, r"sample_weight.*24|24.*sample_weight"),
    "negative weights": ({"sample_weight": put(np.ones(24), -1)}, "[Nn]egative values.*sample_weight"),
    "no weight": ({"sample_weight": np.zeros(24)}, "Sample weights must contain"),
    "weight of one row": ({"sample_weight": np.eye(24)[0]}, "sample_weight leaves 1 rows"),
    "NaN for a weight": ({"sample_weight": put(np.ones(24), np.nan)}, "sample_weight contains NaN"),
}


@pytest.mark.parametrize(("change", "message"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_rows_that_cannot_be_learned_from(change, message):
    with pytest.raises(ValueError, match=message):
        BNNRegressor(**SETTINGS).fit(**{"X": X, "y": Y, **change})


BAD_CLASSES = {
    "real numbers": (Y, "continuous"),
    "one class": (np.full(24, "low"), "one class only"),
    "one class with weight": (np.where(np.arange(24) < 12, "low", "high"), "one class only"),
    "NaN": (put(np.arange(24) % 3, np.nan), "y contains NaN"),
    "several columns": (np.column_stack([LABELS, LABELS]), "y should be a 1d array"),
    "words and numbers": (np.array(["a", 1] * 12, object), "y mixes types"),
    "no y": (None, "y is None"),
    "None among words": (
        np.array(["a", None] * 12, object),
        "NaN or None, which are no classes, in 12 rows, the first at row 1",
    ),
    "gaps in a categorical": (pd.Categorical(["a", None, "b"] * 8), "NaN or None, .* in 8 rows, the first at row 1"),
    "gaps in whole numbers": (pd.Series([1, None, 2] * 8, dtype="Int64"), "NaN"),
    "dates": (np.array(["2020-01-01", "2021-01-01"] * 12, "M8[D]"), r"labels of type datetime64\[D\], but numbers or"),
    "periods": (pd.period_range("2020", periods=24, freq="D"), "labels of type Period, but numbers or strings"),
    "bytes": (LABELS.astype("S"), "labels of type .S6, but numbers or strings"),
    "complex": (Y + 1j, "y holds complex numbers. Complex data not supported$"),
    "one-hot": (np.eye(3)[np.arange(24) % 3], "y should be a 1d array"),
}


@pytest.mark.parametrize(("y", "message"), BAD_CLASSES.values(), ids=BAD_CLASSES)
def test_targets_that_are_no_classes(y, message):
    with pytest.raises(ValueError, match=message):
        BNNClassifier(**SETTINGS).fit(X, y, sample_weight=(np.arange(24) < 12).astype(float))


WORDS = np.array(["no", "yes"])[np.arange(24) % 2]
LABEL_TYPES = {
    "words": WORDS,
    "objects": WORDS.astype(object),
    "categorical": pd.Categorical(WORDS),
    "strings of pandas": pd.Series(WORDS, dtype="string"),
    "booleans": WORDS == "yes",
    "booleans as objects": (WORDS == "yes").astype(object),
    "whole numbers": np.arange(24) % 2,
    "few bits": (np.arange(24) % 2).astype(np.int8),
    "whole numbers as objects": (np.arange(24) % 2).astype(object),
    "whole numbers of pandas": pd.Series(np.arange(24) % 2, dtype="Int64"),
    "reals that are whole": np.arange(24) % 2 * 1.0,
    "a list": WORDS.tolist(),
}


@pytest.mark.parametrize("y", LABEL_TYPES.values(), ids=LABEL_TYPES)
def test_labels_of_every_type_come_back_as_they_were(y, tmp_path):
    model = BNNClassifier(**{**SETTINGS, "max_epochs": 1}).fit(X, y)
    assert model.classes_.tolist() == sorted(set(y))
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(X), model.predict(X))
    assert 0 <= model.score(X, y) <= 1


def test_a_class_may_have_one_row_and_an_unseen_one_is_never_right():
    y = np.array([2] + [0, 1] * 11 + [1])
    model = BNNClassifier(**{**SETTINGS, "max_epochs": 1}).fit(X, y)
    assert model.predict_proba(X).shape == (24, 3)
    assert model.score(X, y + 10) == 0
    with pytest.raises(ValueError, match="y has values 10…12, but classes are integers 0…2"):
        model.predict_dist(X).log_prob(y + 10)


def test_classes_that_were_not_announced():
    with pytest.raises(ValueError, match="the class 'low', which is none of"):
        BNNClassifier(**SETTINGS).partial_fit(X, LABELS, classes=["high", "middle"])


BAD_SETTINGS = {
    "activation": ["cube", 5, None],
    "flow": ["stream", 5, None],
    "space": ["time", 5, None],
    "kernel": ["popcorn", 5, None],
    "prior": ["papal", 5, None, "gaussian_process"],
    "measurement": ["tape", 5, None, "points"],
    "likelihood": ["slim", 5, None, "categorical"],
    "network": ["internet", 5, ["a", "list"], {"a": "dict"}],
    "n_particles": [0, -1, 2.0, True, None, "many"],
    "hidden_layer_sizes": [0, (0,), (8, -1), 2.5, (8.0,), "8", None, ("8",), True],
    "learning_rate": [-1, 0, np.inf, np.nan, "fast"],
    "batch_size": [0, -5, 2.5, "large"],
    "max_epochs": [0, -5, 2.5, "all"],
    "max_categories": [0, -1],
    "random_state": ["lucky", -1],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, all in BAD_SETTINGS.items() for value in all])
def test_settings_that_are_none(name, value):
    with pytest.raises(ValueError, match=rf"{name}|[sS]eed|seed a numpy") as caught:
        BNNRegressor(**SETTINGS).set_params(**{name: value}).fit(X, Y)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("fraction", [2, 0, -0.1, 1.0, np.nan])
def test_validation_fraction_is_a_fraction(fraction):
    with pytest.raises(ValueError, match="validation_fraction="):
        BNNRegressor(**SETTINGS, early_stopping=True, validation_fraction=fraction).fit(X, Y)


def test_likelihoods_of_the_other_kind():
    with pytest.raises(ValueError, match="use BNNClassifier"):
        BNNRegressor(**SETTINGS, likelihood="categorical").fit(X, Y)
    with pytest.raises(ValueError, match="use BNNRegressor"):
        BNNClassifier(**SETTINGS, likelihood="gaussian").fit(X, LABELS)
    with pytest.raises(ValueError, match="y"):
        BNNRegressor(**SETTINGS, likelihood="poisson").fit(X, Y)


@pytest.mark.parametrize("estimator", [BNNRegressor, BNNClassifier])
@pytest.mark.parametrize("method", ["predict", "predict_dist", "sample_y"])
def test_before_a_fit(estimator, method):
    with pytest.raises(NotFittedError):
        getattr(estimator(), method)(X)
    failed = estimator(n_particles=0)
    with pytest.raises(ValueError, match="n_particles"):
        failed.fit(X, LABELS if estimator is BNNClassifier else Y)
    with pytest.raises(NotFittedError):
        getattr(failed, method)(X)


def test_other_things_before_a_fit(tmp_path):
    with pytest.raises(NotFittedError):
        BNNRegressor().diagnose()
    with pytest.raises(NotFittedError):
        BNNRegressor().save(tmp_path / "model.fpovi")
    with pytest.raises(NotFittedError):
        BNNClassifier().predict_proba(X)


@pytest.fixture(scope="module")
def framed():
    frame = pd.DataFrame({"size": X[:, 0], "colour": ["red", "blue"] * 12})
    return BNNRegressor(**SETTINGS).fit(frame, Y), frame


BAD_FRAMES = {
    "fewer columns": (lambda frame: frame[["size"]], "colour"),
    "other order": (lambda frame: frame[["colour", "size"]], "same order|match"),
    "more columns": (lambda frame: frame.assign(weight=1.0), "weight"),
    "another name": (lambda frame: frame.rename(columns={"size": "length"}), "length"),
    "another category": (lambda frame: frame.assign(colour="green"), "'green' in column 'colour', row 0"),
    "words for numbers": (lambda frame: frame.assign(size="large"), "'large' in column 'size', row 0"),
    "infinity": (lambda frame: frame.assign(size=np.inf), "inf in column 'size', row 0"),
    "no rows": (lambda frame: frame[:0], "0 sample"),
}


@pytest.mark.parametrize(("change", "message"), BAD_FRAMES.values(), ids=BAD_FRAMES)
def test_frames_unlike_those_of_the_fit(framed, change, message):
    model, frame = framed
    with pytest.raises(ValueError, match=message):
        model.predict(change(frame))


def test_an_unseen_category_may_count_as_missing(framed):
    model, frame = framed
    model = BNNRegressor(**SETTINGS, unknown="missing").fit(frame, Y)
    missing = model.predict(frame.assign(colour=None))
    np.testing.assert_array_equal(model.predict(frame.assign(colour="green")), missing)
    with pytest.raises(ValueError, match="unknown='guess'"):
        model.set_params(unknown="guess").predict(frame)


@pytest.mark.parametrize("bad", [X[:, :1], np.column_stack([X, X]), X[0], X[:, :, None], X + 1j, X[:0]])
def test_arrays_unlike_those_of_the_fit(regressor, bad):
    with pytest.raises(ValueError, match="X"):
        regressor.predict(bad)


def test_sparse_rows_to_predict(regressor):
    with pytest.raises(ValueError, match="X is sparse"):
        regressor.predict(scipy.sparse.csr_matrix(X))


def test_a_failed_partial_fit_changes_nothing(regressor):
    before = regressor.predict(X)
    for change, y in ((X[:, :1], Y), (X, put(Y, np.nan)), (X, np.column_stack([Y, Y]))):
        with pytest.raises(ValueError, match=r"X|y"):
            regressor.partial_fit(change, y)
    np.testing.assert_array_equal(regressor.predict(X), before)
