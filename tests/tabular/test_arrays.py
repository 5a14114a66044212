# SPDX-License-Identifier: Apache-2.0
"""Arrays keep their shape and every entry, are scaled as asked, and strangers are told apart."""

import json

import numpy as np
import pytest

from fpovi.tabular import ArrayEncoder, learn_arrays
from fpovi.tabular.arrays import collect_rows

RNG = np.random.default_rng(0)
IMAGES = RNG.uniform(0, 1, (50, 6, 5, 3)) * [1.0, 0.5, 0.1]
IMAGES[:, 0] = 0  # a constant edge
AXES = {"entry": 0, "channel": (0, 1, 2), "whole": (0, 1, 2, 3)}


@pytest.mark.parametrize("scaling", AXES)
def test_mean_and_variance_are_those_of_numpy(scaling):
    encoder = learn_arrays(IMAGES, scaling=scaling)
    mean, std = IMAGES.mean(axis=AXES[scaling]), IMAGES.std(axis=AXES[scaling])
    expected = (IMAGES - mean) / np.where(std > 0, std, 1)
    # float32
    np.testing.assert_allclose(encoder(IMAGES), expected, rtol=1e-5, atol=1e-5)
    assert encoder(IMAGES).shape == IMAGES.shape


def test_auto_is_per_channel_for_images_and_per_entry_for_vectors():
    assert learn_arrays(IMAGES).shift.shape == (3,)
    assert learn_arrays(IMAGES.reshape(50, -1)).shift.shape == (90,)
    assert np.array_equal(learn_arrays(IMAGES, scaling="none")(IMAGES), IMAGES.astype(np.float32))


def test_auto_is_one_scale_for_flat_images():
    many = np.random.default_rng(0).integers(0, 256, (200, 60)).astype(float)
    assert learn_arrays(many).shift.shape == ()
    assert learn_arrays(many[:, :49]).shift.shape == (49,)
    assert learn_arrays(many * np.geomspace(1, 100, 60)).shift.shape == (60,)
    with pytest.raises(ValueError, match="pixels of 0…255"):
        learn_arrays(many / 255)(many)


def test_a_row_of_weight_two_counts_twice_and_one_of_weight_zero_not_at_all():
    weight = np.asarray([2.0] * 10 + [1.0] * 30 + [0.0] * 10)
    weighted = learn_arrays(IMAGES, weight)
    repeated = learn_arrays(np.concatenate([IMAGES[:10], IMAGES[:40]]))
    np.testing.assert_allclose(weighted.shift, repeated.shift, rtol=1e-12)
    np.testing.assert_allclose(weighted.scale, repeated.scale, rtol=1e-12)


@pytest.mark.parametrize("scaling", ["entry", "channel", "whole", "none"])
def test_json_keeps_every_digit(scaling):
    encoder = learn_arrays(IMAGES, scaling=scaling)
    again = ArrayEncoder.from_json(json.loads(json.dumps(encoder.to_json())))
    np.testing.assert_array_equal(again(IMAGES), encoder(IMAGES))


@pytest.mark.parametrize(
    "change",
    [
        {"shape": []},
        {"shape": [6, 5, -3]},
        {"shape": [6, 5, 4]},
        {"shape": "655"},
        {"scale": [1.0, 0.0, 1.0]},
        {"scale": [1.0]},
        {"low": "0"},
        {"more": 1},
    ],
)
def test_forged_json_is_refused(change):
    with pytest.raises(ValueError, match=r"\w"):
        ArrayEncoder.from_json({**learn_arrays(IMAGES).to_json(), **change})


@pytest.mark.parametrize(
    ("strange", "said"),
    [
        (np.moveaxis(IMAGES, -1, 1), "put channels last"),
        (IMAGES[0], r"for one row, X\[None\]"),
        (IMAGES[:, :5], r"rows of shape \(5, 5, 3\)"),
        (IMAGES * 255, "pixels of 0…255"),
        (np.where(IMAGES > 0.5, np.nan, IMAGES), "rows with NaN or infinity, the first at row"),
        (IMAGES.astype(str), "only numbers"),
        (IMAGES[:0], "at least one row"),
    ],
)
def test_rows_unlike_those_of_training_are_refused(strange, said):
    with pytest.raises(ValueError, match=said):
        learn_arrays(IMAGES)(strange)


def test_pixels_of_0_to_1_are_refused_where_0_to_255_was_seen():
    whole = np.round(IMAGES * 255)
    encoder = learn_arrays(whole)
    with pytest.raises(ValueError, match="pixels of 0…255"):
        encoder(IMAGES)
    encoder(np.zeros_like(whole[:1]))  # a black image is no other unit


@pytest.mark.parametrize("scaling", ["whole", "none"])
def test_flat_images_of_another_unit_are_refused_where_one_scale_is_for_all(scaling):
    flat = IMAGES.reshape(len(IMAGES), -1)
    with pytest.raises(ValueError, match="pixels of 0…255"):
        learn_arrays(flat, scaling=scaling)(flat * 255)
    learn_arrays(flat, scaling="entry")(flat * 255)  # entries may have units of their own


def test_a_constant_image_of_another_unit_is_refused():
    with pytest.raises(ValueError, match="X has values from 255 to 255"):
        learn_arrays(IMAGES)(np.full_like(IMAGES[:1], 255))


def test_an_unknown_scaling_lists_the_known_ones():
    with pytest.raises(ValueError, match="channel, entry, none, whole"):
        learn_arrays(IMAGES, scaling="pixel")


def test_arrays_are_collected_as_they_are_and_vectors_merged():
    y, weight = np.zeros((50, 1)), np.asarray([0.0] + [1.0] * 49)
    x, labels, kept = collect_rows(IMAGES, y, weight)
    np.testing.assert_array_equal(x, IMAGES[1:])
    assert (labels.shape, kept.shape) == ((49, 1), (49,))
    twice = np.ones((4, 2))
    assert [len(part) for part in collect_rows(twice, np.zeros((4, 1)), np.ones(4))] == [1, 1, 1]
