# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fpovi.augmentation import crop_and_flip, in_turn, shift


@pytest.fixture
def images():
    """Every pixel of every image has a number of its own, none of them 0."""
    return 1 + jnp.arange(40 * 6 * 7 * 2.0).reshape(40, 6, 7, 2)


def windows(image, pixels):
    """All crops of the padded image."""
    padded = np.pad(image, ((pixels, pixels), (pixels, pixels), (0, 0)))
    height, width = image.shape[:2]
    steps = range(2 * pixels + 1)
    return [padded[i : i + height, j : j + width] for i in steps for j in steps]


def test_every_image_is_moved_on_its_own(images, key):
    moved = np.asarray(jax.jit(shift(2))(key, images))
    places = []
    for image, found in zip(np.asarray(images), moved, strict=True):
        places += [place for place, window in enumerate(windows(image, 2)) if np.array_equal(window, found)]
    assert len(places) == len(images)
    assert set(places) <= set(range(25))
    assert len(set(places)) > 10  # of 25 places, 40 times at random: 20 on average


def test_crop_and_flip_mirrors_about_half(images, key):
    changed = np.asarray(jax.jit(crop_and_flip(1))(key, images))
    is_one_of = lambda found, image: any(np.array_equal(found, window) for window in windows(image, 1))  # noqa: E731
    plain = [is_one_of(found, image) for found, image in zip(changed, np.asarray(images), strict=True)]
    mirrored = [is_one_of(found[:, ::-1], image) for found, image in zip(changed, np.asarray(images), strict=True)]
    assert all(a != b for a, b in zip(plain, mirrored, strict=True))
    assert 8 < sum(mirrored) < 32  # 20 ± 3.2: within four standard deviations


def test_what_does_nothing_and_what_fills(images, key):
    np.testing.assert_array_equal(crop_and_flip(0, flip=False)(key, images), images)
    np.testing.assert_array_equal(shift(0)(key, images), images)
    assert set(np.unique(shift(3, fill=-1.0)(key, jnp.ones((9, 4, 4, 1))))) == {-1.0, 1.0}


def test_transforms_follow_their_key_and_keep_the_dtype(key):
    images = jnp.ones((4, 5, 5, 1), jnp.float16)
    transform = crop_and_flip(2)
    assert transform(key, images).dtype == jnp.float16
    np.testing.assert_array_equal(transform(key, images), transform(key, images))
    assert not jnp.array_equal(transform(key, images), transform(jax.random.key(1), images))


def test_in_turn_has_a_key_for_each(key):
    first, second = (lambda key, x: x + jax.random.normal(key, x.shape) for _ in range(2))
    both = in_turn(first, second)(key, jnp.zeros((3, 2)))
    assert not jnp.allclose(both, 2 * in_turn(first)(key, jnp.zeros((3, 2))))


def test_bad_input(key):
    with pytest.raises(ValueError, match="pixels=-1 must not be negative"):
        shift(-1)
    with pytest.raises(ValueError, match=r"x has shape \(3, 784\), but images \(B, H, W, C\) are needed"):
        crop_and_flip()(key, jnp.zeros((3, 784)))


def test_without_a_fill_the_border_is_repeated(images, key):
    moved = np.asarray(shift(2, fill=None)(key, images))
    wide = np.pad(np.asarray(images), ((0, 0), (2, 2), (2, 2), (0, 0)), mode="edge")
    for padded, found in zip(wide, moved, strict=True):
        assert any(np.array_equal(padded[i : i + 6, j : j + 7], found) for i in range(5) for j in range(5))
