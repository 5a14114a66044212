# SPDX-License-Identifier: Apache-2.0
"""Measurement sets: the inputs at which functions are compared in a step.

A sampler maps this step's labelled inputs x' to ``x = x' ∪ ν-draws``, the labelled rows first. Where ν puts no
points, nothing pulls the particles towards the prior and nothing holds them apart, and what they predict there is
an accident of the network: ν should cover the inputs one will ask about, with a margin.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fpovi._fast.threefry import normals
from fpovi.types import Key, Measurement, Numbers


def _beside_batch(draw: Callable[[Key, Array], Array]) -> Measurement:
    return lambda key, x: jnp.concatenate([x, draw(key, x).astype(x.dtype)], axis=0)


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
    _check_size(size)
    rows = None if centres is None else _rows("centres", centres)
    width = np.asarray(width, float)
    if not (np.all(width >= 0) and np.all(np.isfinite(width))):
        raise ValueError(f"{name}={width} must be finite and not negative")

    def draw(key: Key, x: Array) -> Array:
        key_centre, key_radius, key_noise = jax.random.split(key, 3)
        chosen = _choose(key_centre, _pool(x, rows), size)
        if width.ndim > 0:
            _check_features(name, width.shape, x)
        noise = jnp.asarray(width, chosen.dtype) * normals(key_noise, chosen.shape, chosen.dtype)
        return chosen + radius(key_radius, chosen.dtype).reshape(size, *(1,) * (x.ndim - 1)) * noise

    return _beside_batch(draw)


def uniform_box(size: int, low: Numbers, high: Numbers) -> Measurement:
    """Return a sampler of points uniform in a box, for a few features.

    Args:
        size: how many extra points a step has.
        low, high: corners of the box, each ``(d_x,)``.
    """
    _check_size(size)
    low, high = np.asarray(low, float), np.asarray(high, float)
    if low.shape != high.shape or not (np.all(low <= high) and np.all(np.isfinite([low, high]))):
        raise ValueError(f"low={low} and high={high} must have one finite entry per feature, low ≤ high")

    def draw(key: Key, x: Array) -> Array:
        _check_features("low", low.shape, x)
        corners = jnp.asarray(low, x.dtype), jnp.asarray(high, x.dtype)
        return jax.random.uniform(key, (size, *x.shape[1:]), x.dtype, *corners)

    return _beside_batch(draw)


def mixup(size: int = 20, centres: Numbers | None = None) -> Measurement:
    """Return a sampler of random points on segments between two rows.

    Args:
        size: how many extra points a step has.
        centres: the rows ``(N, *d_x)``; by default the labelled inputs of the step.
    """
    _check_size(size)
    rows = None if centres is None else _rows("centres", centres)

    def draw(key: Key, x: Array) -> Array:
        key_pairs, key_share = jax.random.split(key)
        first, second = _choose(key_pairs, _pool(x, rows), 2, size)
        share = jax.random.uniform(key_share, (size,) + (1,) * (first.ndim - 1), first.dtype)
        return share * first + (1 - share) * second

    return _beside_batch(draw)


def points(array: Numbers, size: int | None = None) -> Measurement:
    """Return a sampler of given points, such as unlabelled inputs.

    Args:
        array: the points ``(M, *d_x)``.
        size: how many of them, at random, a step has; None for all.
    """
    if size is not None:
        _check_size(size)
    pool = _rows("array", array)

    def draw(key: Key, x: Array) -> Array:
        _check_features("array", pool.shape[1:], x)
        return pool if size is None else _choose(key, pool, size)

    return _beside_batch(draw)


def _choose(key: Key, rows: Array, *shape: int) -> Array:
    """Choose random rows, with repetition."""
    return rows[jax.random.randint(key, shape, 0, rows.shape[0])]


def _pool(x: Array, centres: Array | None) -> Array:
    """Return the rows to start from: ``centres``, by default x itself."""
    if centres is None:
        return x
    _check_features("centres", centres.shape[1:], x)
    return centres.astype(x.dtype)


def _check_size(size: int) -> None:
    if size < 1:
        raise ValueError(f"size={size} must be at least 1 (train_only has no extra points)")


def _check_features(name: str, features: tuple[int, ...], x: Array) -> None:
    if features != x.shape[1:]:
        raise ValueError(f"{name} is for inputs of shape {features}, but those of x have shape {x.shape[1:]}")


def _rows(name: str, array: Numbers) -> Array:
    rows = np.asarray(array)
    if rows.ndim < 2 or rows.shape[0] == 0:
        raise ValueError(f"{name} has shape {rows.shape}, but at least one row (N, d_x) is needed")
    if not np.all(np.isfinite(rows)):
        raise ValueError(f"{name} has {np.sum(~np.isfinite(rows))} NaN or infinite values: all must be finite")
    return jnp.asarray(rows)


MEASUREMENTS: dict[str, Callable[..., Measurement]] = {
    "train_only": train_only,
    "halo": halo,
    "kde": kde,
    "uniform_box": uniform_box,
    "mixup": mixup,
    "points": points,
}
