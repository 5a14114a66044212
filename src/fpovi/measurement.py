# SPDX-License-Identifier: Apache-2.0
"""Measurement sets: the inputs at which functions are compared in a step.

A sampler maps this step's labelled inputs x' to ``x = x' ∪ ν-draws``, the labelled rows first. Where ν puts no
points, nothing pulls the particles towards the prior and nothing holds them apart, and what they predict there is
an accident of the network: ν should cover the inputs one will ask about, with a margin.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fpovi.types import Key, Measurement


def _beside_batch(draw: Callable[[Key, Array], Array]) -> Measurement:
    return lambda key, x: jnp.concatenate([x, draw(key, x).astype(x.dtype)], axis=0)


def train_only() -> Measurement:
    """No extra points: functions are compared at the labelled inputs alone."""
    return lambda key, x: x


def kde(
    size: int, bandwidth: float | Float[Array, " d_x"], centres: Float[Array, "N d_x"] | None = None
) -> Measurement:
    """``size`` draws from a Gaussian kernel density estimate: a random centre plus ``bandwidth``·N(0, 1).

    Centres are the rows of ``centres``, by default the labelled inputs of the step. A bandwidth near the scale of a
    feature spreads the points past the data by about one standard deviation; the experiments of Wang et al. (2019)
    use 1/√N of it, which is almost the training inputs again.
    """
    _check_size(size)
    if not bool(jnp.all(jnp.asarray(bandwidth) >= 0)):
        raise ValueError(f"bandwidth={bandwidth} must not be negative")

    def draw(key: Key, x: Array) -> Array:
        key_centre, key_noise = jax.random.split(key)
        pool = x if centres is None else centres
        chosen = pool[jax.random.randint(key_centre, (size,), 0, pool.shape[0])]
        return chosen + bandwidth * jax.random.normal(key_noise, chosen.shape, chosen.dtype)

    return _beside_batch(draw)


def uniform_box(size: int, low: Float[Array, " d_x"], high: Float[Array, " d_x"]) -> Measurement:
    """``size`` points uniform between the corners ``low`` and ``high``: right for a few features, see :func:`around`."""
    _check_size(size)
    low, high = jnp.asarray(low), jnp.asarray(high)
    if low.shape != high.shape or not bool(jnp.all(low <= high)):
        raise ValueError(f"low={low} and high={high} must have one entry per feature, low ≤ high")
    return _beside_batch(
        lambda key, x: jax.random.uniform(key, (size, *x.shape[1:]), minval=low, maxval=high, dtype=x.dtype)
    )


def mixup(size: int, centres: Float[Array, "N *d_x"] | None = None) -> Measurement:
    """``size`` random points on segments between two rows of ``centres`` (by default the step's labelled inputs)."""
    _check_size(size)

    def draw(key: Key, x: Array) -> Array:
        key_pairs, key_share = jax.random.split(key)
        pool = x if centres is None else centres
        first, second = pool[jax.random.randint(key_pairs, (2, size), 0, pool.shape[0])]
        share = jax.random.uniform(key_share, (size,) + (1,) * (first.ndim - 1), first.dtype)
        return share * first + (1 - share) * second

    return _beside_batch(draw)


def points(array: Float[Array, "M *d_x"], size: int | None = None) -> Measurement:
    """The rows of ``array``, all of them or ``size`` at random a step: one's own points, or unlabelled inputs."""
    array = jnp.asarray(array)
    if array.shape[0] == 0 or not bool(jnp.all(jnp.isfinite(array))):
        raise ValueError(f"array with shape {array.shape} must have at least one row and only finite values")
    if size is None:
        return _beside_batch(lambda key, x: array)
    _check_size(size)
    return _beside_batch(lambda key, x: array[jax.random.randint(key, (size,), 0, array.shape[0])])


def _check_size(size: int) -> None:
    if size < 1:
        raise ValueError(f"size={size} must be at least 1 (train_only has no extra points)")


MEASUREMENTS = {
    "train_only": train_only,
    "kde": kde,
    "uniform_box": uniform_box,
    "mixup": mixup,
    "points": points,
}
