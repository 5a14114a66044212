# SPDX-License-Identifier: Apache-2.0
"""Measurement sets for images, and for all rows whose entries have places: axes of places, then one of channels."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from fpovi.measurement._drawing import as_centres, beside_batch, check_size, choose, pool_of
from fpovi.types import Key, Measurement, Numbers

PATCHES = 4  # along every axis, by default


def shifts(size: int = 20, reach: float = 0.25, wrap: bool = False, centres: Numbers | None = None) -> Measurement:
    """Return a sampler of rows moved by a few places along every axis but the last: images moved up, down and sideways.

    Args:
        size: how many extra points a step has.
        reach: how far at most, as a share of the axis; all whole numbers of places up to it are equally likely.
        wrap: what leaves on one side comes in on the other; otherwise the edge is repeated.
        centres: rows ``(N, *places, channels)``; by default the labelled inputs of the step.
    """
    check_size(size)
    if not 0 < reach < 1:
        raise ValueError(f"reach={reach} must lie strictly between 0 and 1")
    rows = as_centres(centres)

    def draw(key: Key, x: Array) -> Array:
        key_rows, key_offsets = jax.random.split(key)
        places = _places("shifts", x)
        farthest = np.maximum(np.round(reach * np.asarray(places)), 1).astype(int)
        offsets = jax.random.randint(key_offsets, (size, len(places)), -farthest, farthest + 1)

        def shift(row: Array, offsets: Array) -> Array:
            for axis, length in enumerate(places):
                source = jnp.arange(length) - offsets[axis]
                source = source % length if wrap else jnp.clip(source, 0, length - 1)
                row = jnp.take(row, source, axis=axis)
            return row

        return jax.vmap(shift)(choose(key_rows, pool_of(x, rows), size), offsets)

    return beside_batch(draw)


def shuffled_patches(size: int = 20, patch: int | None = None, centres: Numbers | None = None) -> Measurement:
    """Return a sampler of rows cut into patches that change places: colours, textures and edges stay, the object goes.

    Args:
        size: how many extra points a step has.
        patch: how many places a patch is wide along every axis but the last; 1 puts single pixels at random places. By
            default a fourth of each axis. Places that are left over at the end of an axis stay where they are.
        centres: rows ``(N, *places, channels)``; by default the labelled inputs of the step.
    """
    check_size(size)
    if patch is not None and patch < 1:
        raise ValueError(f"patch={patch} must be at least 1")
    rows = as_centres(centres)

    def draw(key: Key, x: Array) -> Array:
        key_rows, key_order = jax.random.split(key)
        places = _places("shuffled_patches", x)
        table = _patches(places, [max(length // PATCHES, 1) if patch is None else patch for length in places])

        def shuffle(key: Key, row: Array) -> Array:
            flat = row.reshape(math.prod(places), -1)
            return flat.at[table].set(flat[jax.random.permutation(key, table)]).reshape(row.shape)

        return jax.vmap(shuffle)(jax.random.split(key_order, size), choose(key_rows, pool_of(x, rows), size))

    return beside_batch(draw)


def _places(name: str, x: Array) -> tuple[int, ...]:
    """Return the lengths of all axes of a row but the last, or raise a ``ValueError`` if there are none."""
    if x.ndim < 3:
        raise ValueError(
            f"measurement.{name} is for rows with places and channels, such as images (H, W, C), but those of x have "
            f"shape {x.shape[1:]}"
        )
    return x.shape[1:-1]


def _patches(places: tuple[int, ...], widths: list[int]) -> NDArray[np.int64]:
    """Return the places of every patch, counted through all axes, ``(patches, places of one)``.

    >>> _patches((2, 5), [1, 2]).tolist()
    [[0, 1], [2, 3], [5, 6], [7, 8]]
    """
    counts = [max(length // width, 1) for length, width in zip(places, widths, strict=True)]
    widths = [min(length, width) for length, width in zip(places, widths, strict=True)]
    used = tuple(slice(count * width) for count, width in zip(counts, widths, strict=True))
    cut = np.arange(math.prod(places)).reshape(places)[used]
    cut = cut.reshape([part for pair in zip(counts, widths, strict=True) for part in pair])
    axes = len(places)
    order = [*range(0, 2 * axes, 2), *range(1, 2 * axes, 2)]
    return cut.transpose(order).reshape(math.prod(counts), math.prod(widths))
