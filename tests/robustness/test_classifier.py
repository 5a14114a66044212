# SPDX-License-Identifier: Apache-2.0
"""Attacks on fitted classifiers: in the user's units, with the user's labels, through what ``predict_proba`` says."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from fpovi import BNNClassifier
from fpovi.robustness import attackable, fgsm, iterated_fgsm, pgd, trajectory, under_attack
from support.small_fits import SETTINGS, named_classes

pytestmark = pytest.mark.usefixtures("loose_dtypes")
X, Y = named_classes()
FREE = {"low": -np.inf, "high": np.inf}
DIGITS, LABELS = load_digits(return_X_y=True)
FEW = slice(0, 60)


def mean_probs(model, x):
    return np.exp(np.asarray(attackable(model)(jnp.asarray(x, jnp.float32)))).mean(axis=0)


@pytest.fixture(scope="module")
def of_images():
    """Images of two channels in 0…16, each scaled by its own mean and deviation."""
    images = np.stack([DIGITS.reshape(-1, 8, 8), 100 + 50 * DIGITS.reshape(-1, 8, 8)], axis=-1)[FEW]
    network = lambda key: eqx.nn.Sequential([eqx.nn.Lambda(jnp.ravel), eqx.nn.Linear(128, 10, key=key)])  # noqa: E731
    with jax.numpy_dtype_promotion("standard"):
        model = BNNClassifier(network=network, n_particles=3, max_epochs=60, random_state=0).fit(images, LABELS[FEW])
    return model, images


def test_what_is_attacked_is_what_predict_proba_says(classifier, of_images):
    # rounding of float32, where the encoder of tables has float64
    np.testing.assert_allclose(mean_probs(classifier, X), classifier.predict_proba(X), atol=1e-5)
    model, images = of_images
    np.testing.assert_allclose(mean_probs(model, images), model.predict_proba(images), atol=1e-5)


def test_an_attack_on_a_table_lowers_the_probability_of_the_label(classifier):
    found = iterated_fgsm(classifier, X, Y, step=0.02, steps=10, radius=0.1, **FREE)
    assert np.abs(found - X).max() <= 0.1 + 1e-6
    own = np.searchsorted(classifier.classes_, Y)[:, None]
    before, after = (np.take_along_axis(classifier.predict_proba(x), own, 1) for x in (X, found))
    assert np.mean(after < before) > 0.9  # a row at which no unit of any particle is active stays
    assert np.all(after <= before + 1e-6)  # in float32
    aimed = iterated_fgsm(classifier, X, target="high", step=0.02, steps=10, **FREE)
    high = list(classifier.classes_).index("high")
    assert np.mean(classifier.predict_proba(aimed)[:, high] > classifier.predict_proba(X)[:, high]) > 0.9


def test_steps_are_in_the_units_of_the_pixels(of_images):
    model, images = of_images
    low, high = images.min(axis=(0, 1, 2)), images.max(axis=(0, 1, 2))  # one for each channel
    found = fgsm(model, images, LABELS[FEW], epsilon=[1.0, 50.0], low=low, high=high)
    moved = np.abs(found - images).max(axis=(0, 1, 2))
    np.testing.assert_allclose(moved, [1.0, 50.0], rtol=1e-5)
    assert np.all(found.min(axis=(0, 1, 2)) >= low)
    assert np.all(found.max(axis=(0, 1, 2)) <= high)
    assert under_attack(model, found, LABELS[FEW])["nll"] > 2 * under_attack(model, images, LABELS[FEW])["nll"]


def test_equal_steps_in_equal_units_are_equal_attacks(of_images):
    """The second channel is the first in other units, so that a model of both takes it for the same."""
    model, images = of_images
    options = {"radius": [2.0, 100.0], "step": [0.5, 25.0], "steps": 3, "low": [0, 100], "high": [16, 900]}
    found = pgd(model, images, LABELS[FEW], random_start=False, **options)
    path = [x for x, _ in trajectory(model, images, LABELS[FEW], **options)]
    np.testing.assert_array_equal(found, path[-1])
    away = (found - images) / [1.0, 50.0]
    assert np.abs(away).max() <= 2 + 1e-5


@pytest.fixture(scope="module")
def of_flat_digits():
    """Columns with constants and extreme tails, some of which were missing in training."""
    flat = DIGITS[FEW].copy()
    flat[:3, 20] = np.nan
    with jax.numpy_dtype_promotion("standard"):
        return BNNClassifier(**SETTINGS).fit(flat, LABELS[FEW]), DIGITS[FEW]


def test_constant_bent_and_missing_columns(of_flat_digits):
    model, flat = of_flat_digits
    learned = model.fitted_.encoder.learned
    bent = [place for place, column in enumerate(learned) if column.squash is not None]
    constant = [place for place, column in enumerate(learned) if column.scale is None]
    assert bent
    assert constant
    assert any(column.missing for column in learned)
    np.testing.assert_allclose(mean_probs(model, flat), model.predict_proba(flat), atol=1e-5)
    found = fgsm(model, flat, LABELS[FEW], epsilon=1.0, **FREE)
    assert np.all(found[:, constant] == flat[:, constant])  # they are not seen
    assert np.abs(found[:, bent] - flat[:, bent]).min(axis=0).max() == 1.0  # also at the middle of a bend


def test_a_data_frame_comes_back_as_one():
    frame = pd.DataFrame({"width": X[:, 0], "height": X[:, 1]}, index=np.arange(24) + 100)
    model = BNNClassifier(**SETTINGS).fit(frame, Y)
    found = fgsm(model, frame, Y, epsilon=0.1, **FREE)
    assert list(found.columns) == ["width", "height"]
    assert found.index.equals(frame.index)
    np.testing.assert_allclose(np.abs(found - frame), 0.1, atol=1e-6)
    turned = fgsm(model, frame[["height", "width"]], Y, epsilon=0.1, **FREE)
    pd.testing.assert_frame_equal(turned, found)


def test_what_no_attack_can_move_is_said(classifier, regressor):
    words = BNNClassifier(**SETTINGS).fit([["a", 1.0], ["b", 2.0]] * 4, [0, 1] * 4)
    with pytest.raises(ValueError, match="column 0 is a category, but attacks move numbers only"):
        fgsm(words, [["a", 1.0]], [0], epsilon=0.1, **FREE)
    with pytest.raises(ValueError, match="model is a BNNRegressor, but attacks are on classifiers"):
        fgsm(regressor, X, epsilon=0.1, **FREE)
    with pytest.raises(ValueError, match="model is a BNNClassifier, but a fitted BNNClassifier is needed"):
        fgsm(BNNClassifier(), X, epsilon=0.1, **FREE)
    with pytest.raises(ValueError, match="y has the class 'lower', which is none of"):
        fgsm(classifier, X, np.where(Y == "low", "lower", Y), epsilon=0.1, **FREE)
    with pytest.raises(ValueError, match="X has 1 rows with NaN or infinity, the first at row 2"):
        fgsm(classifier, np.where(X[2, 1] == X, np.nan, X), Y, epsilon=0.1, **FREE)
