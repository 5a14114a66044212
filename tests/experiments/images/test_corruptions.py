# SPDX-License-Identifier: Apache-2.0
"""Shifted images: where pixels go, and that severities are ordered."""

import numpy as np
import pytest

from fpovi.experiments.images.corruptions import SHIFTS, blurred, noisy, rotated, shifted, translated


def crosses(count=4):
    """Images with a bright bar right of the centre."""
    images = np.zeros((count, 28, 28), np.float32)
    images[:, 12:16, 18:26] = 1
    return images


def test_a_quarter_turn_goes_against_the_clock():
    turned = rotated(crosses(), 90)
    np.testing.assert_allclose(turned, np.rot90(crosses(), axes=(1, 2)), atol=1e-5)  # interpolated
    assert turned[0, 2:10, 12:16].min() > 0.99


def test_images_move_whole_in_one_of_four_directions():
    images = np.zeros((40, 28, 28), np.float32)
    images[:, 14, 14] = 1
    moved = translated(images, 3)
    places = {tuple(np.argwhere(image == 1)[0]) for image in moved}
    assert places == {(14, 11), (14, 17), (11, 14), (17, 14)}
    assert moved.sum() == images.sum()
    np.testing.assert_array_equal(moved, translated(images, 3))


def test_noise_has_its_standard_deviation_and_stays_in_range():
    grey = np.full((50, 28, 28), 0.5, np.float32)
    made = noisy(grey, 0.1)
    assert made.dtype == np.float32
    assert abs((made - grey).std() - 0.1) < 0.002  # 39,200 draws: seven standard errors
    assert noisy(crosses(), 2.0).min() == 0
    assert noisy(crosses(), 2.0).max() == 1


def test_blur_keeps_light_and_not_neighbouring_images():
    images = crosses(2)
    images[1] = 0
    found = blurred(images, 1.0)
    np.testing.assert_allclose(found.sum((1, 2)), images.sum((1, 2)), rtol=1e-5)  # float32
    assert found[0].max() < 1


@pytest.mark.parametrize("name", SHIFTS)
def test_every_severity_moves_images_and_the_next_one_more(name):
    images, sizes = crosses(), SHIFTS[name][1]
    assert shifted(images, name, 0) is images
    assert len(sizes) == 5
    assert list(sizes) == sorted(sizes)
    for severity in (1, 5):
        found = shifted(images, name, severity)
        assert (found.shape, found.dtype) == (images.shape, np.float32)
        assert np.abs(found - images).max() > 0.1
