# SPDX-License-Identifier: Apache-2.0
"""Weights of classes are those of scikit-learn, and multiply the weights of rows bit for bit."""

import numpy as np
import pytest
from sklearn.utils.class_weight import compute_class_weight

import fpovi
from fpovi import BNNClassifier
from support.small_fits import SETTINGS, named_classes, plane, same_fit

X, LABELS = named_classes()
LABELS = np.where((LABELS == "low") & (np.arange(24) % 3 > 0), "middle", LABELS)  # three of low
WEIGHTS = {"low": 3.0, "high": 0.5}
ROWS = np.linspace(0.5, 2.0, 24)


def by_hand(class_weight, sample_weight):
    """The weight of every row, from scikit-learn's own function."""
    classes = np.unique(LABELS)
    full = class_weight if class_weight == "balanced" else {"low": 1.0, "middle": 1.0, "high": 1.0, **class_weight}
    weights = compute_class_weight(full, classes=classes, y=LABELS, sample_weight=sample_weight)
    return sample_weight * weights[np.searchsorted(classes, LABELS)]


@pytest.mark.parametrize("class_weight", ["balanced", WEIGHTS], ids=str)
@pytest.mark.parametrize("sample_weight", [None, ROWS], ids=["rows alike", "rows weighted"])
def test_it_multiplies_the_weights_of_rows_bit_for_bit(class_weight, sample_weight):
    weighted = BNNClassifier(**SETTINGS, class_weight=class_weight).fit(X, LABELS, sample_weight)
    full = by_hand(class_weight, np.ones(24) if sample_weight is None else sample_weight)
    assert same_fit(weighted, BNNClassifier(**SETTINGS).fit(X, LABELS, full))


def test_balanced_classes_are_predicted_as_if_there_were_as_many_of_each():
    rng = np.random.default_rng(0)
    y = np.arange(400) < 40  # one in ten
    x = rng.normal(size=(400, 1)) + 2.0 * y[:, None]
    settings = {**SETTINGS, "max_epochs": 300}
    half_way = [[1.0]]  # where both classes are equally likely, if there are as many of each
    plain = BNNClassifier(**settings).fit(x, y).predict_proba(half_way)[0, 1]
    balanced = BNNClassifier(**settings, class_weight="balanced").fit(x, y).predict_proba(half_way)[0, 1]
    # the odds rise by the ratio of weights, 9; fits of 300 steps follow single rows near here by a few tenths of that
    assert balanced / (1 - balanced) == pytest.approx(9 * plain / (1 - plain), rel=0.5)


def test_it_is_kept_in_a_file(tmp_path):
    model = BNNClassifier(**SETTINGS, class_weight=WEIGHTS).fit(X, LABELS)
    model.save(tmp_path / "model")
    assert fpovi.load(tmp_path / "model").class_weight == WEIGHTS


def test_more_rows_have_the_weights_of_their_classes():
    model = BNNClassifier(**SETTINGS, class_weight=WEIGHTS).fit(X, LABELS)
    model.partial_fit(X[:1] + 5, ["low"])
    plain = BNNClassifier(**SETTINGS).fit(X, LABELS, by_hand(WEIGHTS, np.ones(24)))
    assert same_fit(model, plain.partial_fit(X[:1] + 5, ["low"], sample_weight=[3.0]))


@pytest.mark.parametrize(
    ("class_weight", "said"),
    [
        ("even", "class_weight='even' is not known; choose one of balanced"),
        ({"tall": 2.0}, "class_weight has the class 'tall', which is none of"),
        ({"low": -1.0}, "must hold positive numbers"),
        ({"low": 0}, "must hold positive numbers"),
        ({"low": "2"}, "must hold positive numbers"),
        ([1.0, 2.0, 3.0], 'must be None, "balanced" or a dictionary'),
    ],
)
def test_what_cannot_be_weights(class_weight, said):
    with pytest.raises(ValueError, match=said):
        BNNClassifier(**SETTINGS, class_weight=class_weight).fit(X, LABELS)


def test_balanced_weights_need_all_rows_at_once():
    with pytest.raises(ValueError, match="class_weight='balanced' needs all rows at once"):
        BNNClassifier(**SETTINGS, class_weight="balanced").partial_fit(*plane())
