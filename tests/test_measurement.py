# SPDX-License-Identifier: Apache-2.0
"""Measurement sets: what all have in common, and where each puts its points."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fpovi.measurement import (
    MEASUREMENTS,
    halo,
    kde,
    mixup,
    points,
    shifts,
    shuffled_patches,
    train_only,
    uniform_box,
)

X = np.random.default_rng(0).normal(size=(5, 2))
IMAGES = np.random.default_rng(1).normal(size=(5, 6, 9, 2))
SIZE = 7
OPTIONS = {
    "train_only": {},
    "halo": {"size": SIZE},
    "kde": {"size": SIZE, "bandwidth": 0.3},
    "uniform_box": {"size": SIZE, "low": [-1.0, 0.0], "high": [1.0, 4.0]},
    "mixup": {"size": SIZE},
    "shifts": {"size": SIZE},
    "shuffled_patches": {"size": SIZE},
    "points": {"array": np.arange(20.0).reshape(10, 2), "size": SIZE},
}
RANDOM = sorted(set(MEASUREMENTS) - {"train_only"})
OF_PLACES = ["shifts", "shuffled_patches"]  # for images, not for vectors


def make(name):
    return MEASUREMENTS[name](**OPTIONS[name])


def inputs(name):
    return IMAGES if name in OF_PLACES else X


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("name", MEASUREMENTS)
def test_labelled_rows_come_first_and_unchanged(name, dtype, key, x64):
    x = jnp.asarray(inputs(name), dtype)
    measured = make(name)(key, x)
    np.testing.assert_array_equal(measured[:5], x)
    assert measured.shape == (5 if name == "train_only" else 5 + SIZE, *x.shape[1:])
    assert measured.dtype == dtype


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_works_in_a_compiled_step(name, key):
    x, sampler = jnp.asarray(inputs(name), jnp.float32), make(name)
    # compiled arithmetic may fuse a product and a sum: one rounding less
    np.testing.assert_allclose(jax.jit(sampler)(key, x), sampler(key, x), rtol=1e-6)


@pytest.mark.parametrize("name", RANDOM)
def test_points_depend_on_the_key_and_on_nothing_else(name):
    x, sampler = jnp.asarray(inputs(name), jnp.float32), make(name)
    first = sampler(jax.random.key(1), x)
    np.testing.assert_array_equal(first, make(name)(jax.random.key(1), x))
    assert not np.array_equal(first, sampler(jax.random.key(2), x))


@pytest.mark.parametrize("name", ["halo", "kde", "mixup", "points", "uniform_box"])
def test_images_are_inputs_too(name, key):
    others = {"points": {"array": np.ones((3, 4, 4, 1))}, "uniform_box": {"low": [0.0], "high": [1.0]}}
    options = {**OPTIONS[name], **others.get(name, {})}
    measured = MEASUREMENTS[name](**options)(key, jnp.zeros((5, 4, 4, 1)))
    assert measured.shape == (5 + SIZE, 4, 4, 1)


def test_train_only_adds_nothing(key):
    np.testing.assert_array_equal(train_only()(key, jnp.asarray(X)), jnp.asarray(X))


def extra(sampler, key, x):
    return np.asarray(sampler(key, jnp.asarray(x, jnp.float32))[len(x) :], float)


@pytest.mark.parametrize("centres", [None, np.array([[10.0, 0.0], [14.0, 0.0]])])
def test_kde_spreads_around_its_centres(centres, key):
    size, bandwidth, pool = 20_000, np.array([0.5, 2.0]), X if centres is None else centres
    drawn = extra(kde(size, bandwidth, centres), key, X)
    std = np.sqrt(pool.var(axis=0) + bandwidth**2)
    # five standard errors; those of a standard deviation are at most those of a Gaussian, 1/√(2·size)
    assert np.all(np.abs(drawn.mean(0) - pool.mean(0)) < 5 * std / size**0.5)
    assert np.all(np.abs(drawn.std(0) / std - 1) < 5 / (2 * size) ** 0.5)


def test_kde_without_bandwidth_repeats_its_centres(key):
    drawn = extra(kde(100, 0.0), key, X)
    assert {tuple(row) for row in drawn} == {tuple(row) for row in X.astype(np.float32).astype(float)}


def test_halo_reaches_past_its_centres(key):
    size, reach, scale, centres = 20_000, 3.0, np.array([0.5, 2.0]), np.array([[10.0, 0.0], [14.0, 0.0]])
    drawn = extra(halo(size, reach, scale, centres), key, X)
    std = np.sqrt(centres.var(axis=0) + (reach * scale) ** 2 / 3)  # the mean of u² is a third
    # five standard errors; the random radius doubles the variance of a variance: kurtosis 3·(1/5)/(1/3)² = 5.4
    assert np.all(np.abs(drawn.mean(0) - centres.mean(0)) < 5 * std / size**0.5)
    assert np.all(np.abs(drawn.std(0) / std - 1) < 5 * (4.4 / (4 * size)) ** 0.5)


def test_halo_has_one_radius_per_point_uniform_up_to_its_reach(key):
    features, size = 1_000, 2_000
    drawn = extra(halo(size, reach=3.0), key, np.zeros((1, features)))
    radius = np.sqrt((drawn**2).mean(axis=1)) / 3
    # a chi of 1,000 degrees of freedom is off by 1/√2000 = 2 %, a decile of 2,000 draws by five errors of .011
    deciles = np.linspace(0.1, 0.9, 9)
    np.testing.assert_allclose(np.quantile(radius, deciles), deciles, atol=0.06)
    assert radius.max() < 1.1


def test_uniform_box_fills_the_box(key):
    low, high = np.array([-1.0, 0.0]), np.array([1.0, 4.0])
    drawn = extra(uniform_box(20_000, low, high), key, X)
    assert np.all((drawn >= low) & (drawn <= high))
    # the deciles of 20,000 uniform draws, within five standard errors of √(.25/20,000)
    shares = (drawn - low) / (high - low)
    deciles = np.linspace(0.1, 0.9, 9)
    np.testing.assert_allclose(np.quantile(shares, deciles, axis=0), deciles[:, None].repeat(2, 1), atol=0.018)


def test_a_box_of_its_own_is_the_range_of_every_channel(key):
    drawn = extra(uniform_box(20_000), key, IMAGES)
    low, high = IMAGES.min(axis=(0, 1, 2)), IMAGES.max(axis=(0, 1, 2))
    assert np.all((drawn >= low.astype(np.float32)) & (drawn <= high.astype(np.float32)))
    # over two million uniform draws a channel, whose extremes come nearer to the ends than this
    np.testing.assert_allclose(drawn.min(axis=(0, 1, 2)), low, atol=1e-3)
    np.testing.assert_allclose(drawn.max(axis=(0, 1, 2)), high, atol=1e-3)


def test_a_box_has_two_corners():
    with pytest.raises(ValueError, match="must both be given"):
        uniform_box(3, low=[0.0])


def test_uniform_box_may_be_flat(key):
    np.testing.assert_array_equal(extra(uniform_box(3, [2.0], [2.0]), key, X[:, :1]), np.full((3, 1), 2.0))


@pytest.mark.parametrize("centres", [None, np.array([[3.0], [5.0]])])
def test_mixup_stays_between_its_centres(centres, key):
    pool = X[:, :1] if centres is None else centres
    drawn = extra(mixup(5_000, centres), key, X[:, :1])
    slack = 1e-6  # a convex combination in float32 is off by a rounding
    assert np.all((drawn >= pool.min() - slack) & (drawn <= pool.max() + slack))
    # a share is on average a half, so the mean is that of the pool: five standard errors
    assert abs(drawn.mean() - pool.mean()) < 5 * pool.std() / 5_000**0.5
    assert len(np.unique(drawn)) > 1_000  # points on the segments, not their ends


@pytest.mark.parametrize("count", [2, 3])
def test_shares_of_a_blend_add_up_to_one_and_are_uniform(count, key):
    corners = np.eye(count)  # blends of distinct corners are their own shares
    drawn = extra(mixup(60_000, corners, count), key, np.zeros((1, count)))
    np.testing.assert_allclose(drawn.sum(axis=1), 1, rtol=1e-6)  # a few roundings in float32
    # a coordinate adds the shares of the rows that are its corner: mean 1/c, and as two different shares have
    # E[s²] = 2/(c(c+1)) and E[s t] = 1/(c(c+1)), variance 2/(c(c+1)) + (c−1)/(c²(c+1)) − 1/c²
    variance = 2 / (count * (count + 1)) + (count - 1) / (count**2 * (count + 1)) - 1 / count**2
    # five standard errors; shares lie in (0, 1), so that the error of a variance is below 1/√60,000
    assert np.all(np.abs(drawn.mean(axis=0) - 1 / count) < 5 * (variance / 60_000) ** 0.5)
    assert np.all(np.abs(drawn.var(axis=0) - variance) < 5 / 60_000**0.5 / 2)


def test_a_blend_has_two_rows_at_least():
    with pytest.raises(ValueError, match="count=1 must be at least 2"):
        mixup(3, count=1)


@pytest.mark.parametrize("wrap", [True, False])
def test_shifts_are_rows_rolled_or_with_their_edge_repeated(wrap, key):
    drawn, (height, width) = extra(shifts(40, reach=0.3, wrap=wrap), key, IMAGES), (2, 3)  # .3 of 6 and of 9 places
    padded = np.pad(IMAGES, ((0, 0), (height,) * 2, (width,) * 2, (0, 0)), mode="wrap" if wrap else "edge")
    windows = {}
    for row, image in enumerate(padded):
        for down in range(-height, height + 1):
            for right in range(-width, width + 1):
                window = image[height - down : height - down + 6, width - right : width - right + 9]
                windows[window.astype(np.float32).tobytes()] = (row, down, right)
    found = [windows[image.astype(np.float32).tobytes()] for image in drawn]  # each is one of them
    assert len(set(found)) > 20  # 40 draws of 5·5·7


def sorted_patches(image, height, width):
    """Return the patches of an image, each as one row, in order."""
    cut = image.reshape(image.shape[0] // height, height, image.shape[1] // width, width, -1)
    return np.unique(cut.swapaxes(1, 2).reshape(-1, height * width * image.shape[-1]), axis=0)


@pytest.mark.parametrize("patch", [1, 3])
def test_shuffled_patches_keep_every_patch_and_move_them(patch, key):
    image = IMAGES[:1].astype(np.float32)
    drawn = extra(shuffled_patches(10, patch), key, image)
    for shuffled in drawn:
        np.testing.assert_array_equal(
            sorted_patches(shuffled, patch, patch), sorted_patches(image[0].astype(float), patch, patch)
        )
    assert len({shuffled.tobytes() for shuffled in drawn}) > 7  # of 720 orders of six patches, or more


def test_shuffled_patches_leave_what_is_over(key):
    series = np.arange(11.0)[None, :, None]  # 11 places: patches of 2, and one place over
    drawn = extra(shuffled_patches(6), key, series)
    assert np.all(drawn[:, 10] == 10)
    for shuffled in drawn:
        np.testing.assert_array_equal(sorted_patches(shuffled[:10, None], 2, 1), np.arange(10.0).reshape(5, 2))


@pytest.mark.parametrize("name", OF_PLACES)
def test_rows_without_places_are_refused(name, key):
    with pytest.raises(ValueError, match=rf"{name} is for rows with places .* those of x have shape \(2,\)"):
        make(name)(key, jnp.asarray(X))


@pytest.mark.parametrize("reach", [0.0, 1.0, float("nan")])
def test_shifts_reach_less_than_an_axis(reach):
    with pytest.raises(ValueError, match=f"reach={reach} must lie strictly between"):
        shifts(3, reach)


def test_a_patch_has_a_place():
    with pytest.raises(ValueError, match="patch=0 must be at least 1"):
        shuffled_patches(3, patch=0)


def test_all_points_are_used_when_no_size_is_given(key):
    array = np.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(extra(points(array), key, X), array)


def test_points_are_rows_of_the_array(key):
    array = np.arange(20.0).reshape(10, 2)
    drawn = extra(points(array, size=500), key, X)
    assert {tuple(row) for row in drawn} == {tuple(row) for row in array}  # 500 draws miss one of ten: 10·.9^500


@pytest.mark.parametrize("size", [0, -3])
@pytest.mark.parametrize("name", RANDOM)
def test_size_must_be_positive(name, size):
    with pytest.raises(ValueError, match=f"size={size} must be at least 1"):
        MEASUREMENTS[name](**{**OPTIONS[name], "size": size})


@pytest.mark.parametrize("bandwidth", [-0.1, float("nan"), float("inf"), np.array([1.0, -1.0])])
def test_bandwidth_must_not_be_negative(bandwidth):
    with pytest.raises(ValueError, match=r"bandwidth=.* must be finite and not negative"):
        kde(3, bandwidth)


@pytest.mark.parametrize("reach", [0.0, -1.0, float("nan"), float("inf")])
def test_reach_must_be_positive(reach):
    with pytest.raises(ValueError, match=f"reach={reach} must be positive and finite"):
        halo(3, reach)


@pytest.mark.parametrize("scale", [-0.1, float("nan")])
def test_scale_must_not_be_negative(scale):
    with pytest.raises(ValueError, match=f"scale={scale} must be finite and not negative"):
        halo(3, scale=scale)


@pytest.mark.parametrize(
    ("low", "high"),
    [([1.0], [0.0]), ([0.0, 0.0], [1.0, -1.0]), ([0.0], [1.0, 1.0]), ([float("nan")], [1.0]), ([0.0], [float("inf")])],
)
def test_low_must_not_be_above_high(low, high):
    with pytest.raises(ValueError, match=r"low=.* and high=.* low ≤ high"):
        uniform_box(3, low, high)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize(
    ("argument", "sampler"),
    [
        ("array", points),
        ("centres", lambda a: halo(3, centres=a)),
        ("centres", lambda a: kde(3, 0.1, a)),
        ("centres", lambda a: mixup(3, a)),
        ("centres", lambda a: shifts(3, centres=a)),
        ("centres", lambda a: shuffled_patches(3, centres=a)),
    ],
)
def test_points_must_be_finite(argument, sampler, bad):
    with pytest.raises(ValueError, match=f"{argument} has 1 NaN or infinite values"):
        sampler(np.array([[0.0, 1.0], [bad, 2.0]]))


@pytest.mark.parametrize("empty", [np.zeros((0, 2)), np.zeros(3)])
@pytest.mark.parametrize("sampler", [points, lambda a: kde(3, 0.1, a), lambda a: mixup(3, a)])
def test_points_must_be_rows(sampler, empty):
    with pytest.raises(ValueError, match=r"has shape .* at least one row \(N, d_x\) is needed"):
        sampler(empty)


@pytest.mark.parametrize(
    ("argument", "sampler"),
    [
        ("array", points(np.ones((4, 3)))),
        ("array", points(np.ones((4, 3)), size=2)),
        ("centres", kde(2, 0.1, np.ones((4, 3)))),
        ("centres", mixup(2, np.ones((4, 3)))),
        ("bandwidth", kde(2, np.ones(3))),
        ("scale", halo(2, scale=np.ones(3))),
        ("low", uniform_box(2, np.zeros(3), np.ones(3))),
        ("low", uniform_box(2, np.zeros(1), np.ones(1))),
    ],
)
def test_other_inputs_than_the_batchs_are_refused(argument, sampler, key):
    with pytest.raises(ValueError, match=rf"{argument} is for inputs of shape .* those of x have shape \(2,\)"):
        sampler(key, jnp.asarray(X))
