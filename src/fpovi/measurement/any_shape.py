# SPDX-License-Identifier: Apache-2.0
"""Measurement sets for inputs of any shape: around, between or beyond the data, or given."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fpovi._fast.threefry import normals
from fpovi.measurement._drawing import as_centres, as_rows, beside_batch, check_shape, check_size, choose, pool_of
from fpovi.types import Key, Measurement, Numbers


def train_only() -> Measurement:
    """Return a sampler of no extra points: functions are compared at the labelled inputs alone."""
    return lambda key, x: x


def kde(size: int = 20, bandwidth: Numbers = 1.0, centres: Numbers | None = None) -> Measurement:
    """Return a sampler from a Gaussian kernel density estimate: a random centre plus ``bandwidth``·N(0, 1).

    Args:
        size: how many extra points a step has.
        bandwidth: one number, or one per feature.
        centres: rows ``(N, *d_x)``; by default the labelled inputs of the step.

    A bandwidth near the scale of a feature spreads the points past the data by about one
    standard deviation; the experiments of Wang et al. (2019) use 1/√N of it, which is almost the training inputs again.
    """
    return _around(size, "bandwidth", bandwidth, centres, lambda key, dtype: jnp.ones((size,), dtype))


def halo(size: int = 20, reach: float = 2.0, scale: Numbers = 1.0, centres: Numbers | None = None) -> Measurement:
    """Return a sampler of points from near the data to well past it, for questions that are not known yet.

    A random centre plus u·``reach``·``scale``·N(0, 1), with its own u uniform on (0, 1) for every point. Noise of one
    size would lie on a thin shell in many dimensions, and a box around the data is nearly all corner there.

    Args:
        size: how many extra points a step has.
        reach: how many standard deviations the farthest points go past the data.
        scale: the standard deviation of the features, 1 where inputs are standardised.
        centres: rows ``(N, *d_x)``; by default the labelled inputs of the step.
    """
    if not 0 < reach < float("inf"):
        raise ValueError(f"reach={reach} must be positive and finite")
    return _around(size, "scale", scale, centres, lambda key, dtype: reach * jax.random.uniform(key, (size,), dtype))


def _around(
    size: int, name: str, width: Numbers, centres: Numbers | None, radius: Callable[[Key, Any], Array]
) -> Measurement:
    """Return a sampler of random centres plus radius·width·N(0, 1), one radius per point."""
    check_size(size)
    rows = as_centres(centres)
    width = np.asarray(width, float)
    if not (np.all(width >= 0) and np.all(np.isfinite(width))):
        raise ValueError(f"{name}={width} must be finite and not negative")

    def draw(key: Key, x: Array) -> Array:
        key_centre, key_radius, key_noise = jax.random.split(key, 3)
        chosen = choose(key_centre, pool_of(x, rows), size)
        if width.ndim > 0:
            check_shape(name, width.shape, x)
        noise = jnp.asarray(width, chosen.dtype) * normals(key_noise, chosen.shape, chosen.dtype)
        return chosen + radius(key_radius, chosen.dtype).reshape(size, *(1,) * (x.ndim - 1)) * noise

    return beside_batch(draw)


def uniform_box(size: int = 20, low: Numbers | None = None, high: Numbers | None = None) -> Measurement:
    """Return a sampler of points uniform in a box, for a few features; of images, noise.

    Args:
        size: how many extra points a step has.
        low, high: corners of the box, both or none: each ``d_x``, or its last axes, such as one number for each channel
            or a single one. By default the range of the step's labelled inputs, index by index of the last axis: of
            each feature, or of each channel.
    """
    check_size(size)
    if (low is None) != (high is None):
        raise ValueError("low and high must both be given, or none of them")
    if low is None:
        return beside_batch(lambda key, x: _uniform(key, x, size, *_range_of_channels(x)))
    low, high = np.asarray(low, float), np.asarray(high, float)
    if low.shape != high.shape or not (np.all(low <= high) and np.all(np.isfinite([low, high]))):
        raise ValueError(f"low={low} and high={high} must have one finite entry per feature, low ≤ high")

    def draw(key: Key, x: Array) -> Array:
        check_shape("low", low.shape, x, low.ndim)
        return _uniform(key, x, size, jnp.asarray(low, x.dtype), jnp.asarray(high, x.dtype))

    return beside_batch(draw)


def _uniform(key: Key, x: Array, size: int, low: Array, high: Array) -> Array:
    return jax.random.uniform(key, (size, *x.shape[1:]), x.dtype, low, high)


def _range_of_channels(x: Array) -> tuple[Array, Array]:
    axes = tuple(range(x.ndim - 1))
    return jnp.min(x, axis=axes), jnp.max(x, axis=axes)


def mixup(size: int = 20, centres: Numbers | None = None, count: int = 2) -> Measurement:
    """Return a sampler of random blends of rows: of two, points on the segment between them.

    Args:
        size: how many extra points a step has.
        centres: the rows ``(N, *d_x)``; by default the labelled inputs of the step.
        count: how many rows make a point. Their shares add up to 1, and all such shares are equally likely.
    """
    check_size(size)
    if count < 2:
        raise ValueError(f"count={count} must be at least 2")
    rows = as_centres(centres)

    def draw(key: Key, x: Array) -> Array:
        key_rows, key_share = jax.random.split(key)
        chosen = choose(key_rows, pool_of(x, rows), count, size)
        # the lengths of the pieces into which random points cut the unit segment
        cuts = jnp.sort(jax.random.uniform(key_share, (count - 1, size), chosen.dtype), axis=0)
        shares = jnp.diff(cuts, axis=0, prepend=0, append=1)
        return jnp.sum(shares.reshape(count, size, *(1,) * (x.ndim - 1)) * chosen, axis=0)

    return beside_batch(draw)


def points(array: Numbers, size: int | None = None) -> Measurement:
    """Return a sampler of given points, such as unlabelled inputs.

    Args:
        array: the points ``(M, *d_x)``.
        size: how many of them, at random, a step has; None for all.
    """
    if size is not None:
        check_size(size)
    pool = as_rows("array", array)

    def draw(key: Key, x: Array) -> Array:
        check_shape("array", pool.shape[1:], x)
        return pool if size is None else choose(key, pool, size)

    return beside_batch(draw)
