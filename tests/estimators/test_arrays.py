# SPDX-License-Identifier: Apache-2.0
"""Networks of the user's own, on images: they learn out of the box, survive a file, and say when they learn nothing."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

import fpovi
from fpovi import BNNClassifier, BNNRegressor
from fpovi.estimators import FitWarning

DIGITS, LABELS = load_digits(return_X_y=True)
IMAGES = DIGITS.reshape(-1, 8, 8, 1)
TRAIN, TEST = slice(0, 400), slice(1200, 1797)
SETTINGS = {"n_particles": 4, "max_epochs": 150, "random_state": 0}


class ConvNet(eqx.Module):
    """Two small convolutions and a linear layer, channels last outside."""

    layers: list

    def __init__(self, key):
        one, two, three = jax.random.split(key, 3)
        self.layers = [
            eqx.nn.Conv2d(1, 6, 3, stride=2, padding=1, key=one),
            eqx.nn.Conv2d(6, 12, 3, stride=2, padding=1, key=two),
            eqx.nn.Linear(48, 10, key=three),
        ]

    def __call__(self, x):
        first, second, last = self.layers
        h = jax.nn.relu(second(jax.nn.relu(first(jnp.moveaxis(x, -1, 0)))))
        return last(h.ravel())


def perceptron(key):
    return eqx.nn.MLP(64, 10, 32, 1, key=key)


@pytest.fixture(scope="module")
def fitted():
    return BNNClassifier(network=lambda key: ConvNet(key), **SETTINGS).fit(IMAGES[TRAIN], LABELS[TRAIN])


@pytest.mark.usefixtures("optimised")
def test_a_convolutional_network_learns_images_out_of_the_box(fitted):
    # plain Adam on one such module reaches .9 with 400 images; a network that learns nothing has .1
    assert np.mean(fitted.predict(IMAGES[TEST]) == LABELS[TEST]) > 0.87
    assert fitted.fitted_.encoder.shape == (8, 8, 1)
    assert {one.name for one in fitted.fitted_.diagnostics.findings} >= {"skill"}


@pytest.mark.usefixtures("optimised")
def test_a_model_of_images_survives_a_file_and_exports(fitted, tmp_path):
    fitted.save(tmp_path / "model.fpovi")
    again = fpovi.load(tmp_path / "model.fpovi", network=fitted.network)
    few = IMAGES[TEST][:20]
    np.testing.assert_array_equal(again.predict_proba(few), fitted.predict_proba(few))
    with pytest.raises(ValueError, match=r"network=…"):
        fpovi.load(tmp_path / "model.fpovi")
    with pytest.raises(ValueError, match=r"does not fit together with this network: .* 7 for a row, not 10"):
        fpovi.load(
            tmp_path / "model.fpovi",
            network=lambda key: eqx.nn.Sequential([eqx.nn.Lambda(jnp.ravel), eqx.nn.Linear(64, 7, key=key)]),
        )
    fitted.export(tmp_path / "program", format="stablehlo")
    assert fpovi.export_inputs(fitted, few).shape == few.shape


def test_a_row_does_not_depend_on_the_other_rows(fitted):
    alone, together = fitted.predict_proba(IMAGES[TEST][:1]), fitted.predict_proba(IMAGES[TEST])
    np.testing.assert_array_equal(alone[0], together[0])


@pytest.mark.usefixtures("optimised")
def test_a_perceptron_of_the_user_keeps_constant_pixels():
    model = BNNClassifier(network=perceptron, **SETTINGS).fit(DIGITS[TRAIN], LABELS[TRAIN])
    assert np.ptp(DIGITS[TRAIN], axis=0).min() == 0  # some pixels are always 0, and the network wants all 64
    assert np.mean(model.predict(DIGITS[TEST]) == LABELS[TEST]) > 0.85


def test_a_perceptron_of_the_user_sees_every_column_of_a_data_frame():
    frame = pd.DataFrame(DIGITS).add_prefix("pixel ")
    model = BNNClassifier(network=perceptron, **{**SETTINGS, "max_epochs": 2}).fit(frame[TRAIN], LABELS[TRAIN])
    assert model.fitted_.encoder.shape == (64,)
    assert model.predict(frame[TEST]).shape == (597,)


@pytest.mark.usefixtures("optimised")
def test_a_regressor_takes_images_and_goes_on_with_more():
    ink = IMAGES.mean(axis=(1, 2, 3))
    network = lambda key: eqx.nn.Sequential([eqx.nn.Lambda(jnp.ravel), eqx.nn.MLP(64, 1, 16, 1, key=key)])  # noqa: E731
    model = BNNRegressor(network=network, **SETTINGS).fit(IMAGES[TRAIN], ink[TRAIN])
    assert model.score(IMAGES[TEST], ink[TEST]) > 0.8
    model.set_params(max_epochs=5).partial_fit(IMAGES[400:500], ink[400:500])
    assert len(model.rows_[0]) == 500


def test_a_model_no_better_than_the_base_rate_warns():
    rng = np.random.default_rng(0)
    # the paper's prior at the default number of points allows hardly anything but its mean
    model = BNNClassifier(network=perceptron, prior="moment_matched", n_particles=4, max_epochs=60, random_state=0)
    with pytest.warns(FitWarning, match="no better than a model that looks at no input"):
        model.fit(rng.normal(size=(100, 64)), rng.integers(0, 10, 100))
    assert "skill" in {one.name for one in model.fitted_.diagnostics.complaints}


@pytest.mark.parametrize(
    ("settings", "X", "said"),
    [
        ({}, IMAGES[:9], "give a network= that takes them"),
        ({"scaling": "pixel"}, DIGITS[:9], "scaling='pixel' is not known"),
        ({"scaling": "whole"}, [["a", 1.0]] * 9, "is for arrays of numbers"),
        ({"network": perceptron}, np.where(DIGITS[:9] > 15, np.nan, DIGITS[:9]), "NaN or infinity"),
        (
            {"network": lambda key: eqx.nn.MLP(64, 3, 8, 1, key=key)},
            DIGITS[:9],
            "3 for a row, not 9, one for each",
        ),
    ],
)
def test_what_cannot_be_fitted_is_said(settings, X, said):
    with pytest.raises(ValueError, match=said):
        BNNClassifier(**{**SETTINGS, **settings}).fit(X, LABELS[:9])


def test_images_with_channels_first_warn():
    with pytest.warns(FitWarning, match="look like channels first"):
        BNNClassifier(network=lambda key: EquinoxFirst(key), n_particles=2, max_epochs=1, random_state=0).fit(
            np.moveaxis(IMAGES[:32], -1, 1), LABELS[:32]
        )


class EquinoxFirst(ConvNet):
    def __call__(self, x):
        return super().__call__(jnp.moveaxis(x, 0, -1))


def test_flat_images_may_be_scaled_as_a_whole():
    model = BNNClassifier((8,), scaling="whole", n_particles=2, max_epochs=2, random_state=0)
    model.fit(DIGITS[TRAIN], LABELS[TRAIN])
    assert model.fitted_.encoder.shift.shape == ()
    assert model.predict_proba(DIGITS[TEST]).shape == (597, 10)
