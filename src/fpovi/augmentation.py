# SPDX-License-Identifier: Apache-2.0
"""Random changes of a batch of images that leave their labels as they are.

A transform is any ``transform(key, x) -> x`` that keeps the shape of x; :func:`fpovi.inference.augmented` puts it
before every step of an algorithm.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fpovi.types import Key, Transform


def crop_and_flip(padding: int = 4, flip: bool = True, fill: float | None = 0.0) -> Transform:
    """Return a transform that moves each image by up to ``padding`` pixels and mirrors every second one.

    To move an image is to crop it at random from a larger one, padded on all sides.

    Args:
        padding: pixels; the same to all sides.
        flip: whether to exchange left and right at random, as suits objects but neither digits nor letters.
        fill: what comes in from outside; 0 is the mean where images are standardised. None repeats the border.
    """
    moved = shift(padding, fill)
    return in_turn(moved, _mirror) if flip else moved


def shift(pixels: int, fill: float | None = 0.0) -> Transform:
    """Return a transform that moves each image ``(H, W, C)`` of a batch by up to so many pixels, in both directions.

    Args:
        pixels: how far, at most.
        fill: what comes in from outside; None repeats the border.

    >>> shift(2)(jax.random.key(0), jnp.ones((5, 8, 8, 1))).shape
    (5, 8, 8, 1)
    """
    if pixels < 0:
        raise ValueError(f"pixels={pixels} must not be negative")

    def moved(key: Key, x: Float[Array, "B *d_x"]) -> Float[Array, "B *d_x"]:
        _check_images(x)
        sides = ((0, 0), (pixels, pixels), (pixels, pixels), (0, 0))
        corners = jax.random.randint(key, (x.shape[0], 2), 0, 2 * pixels + 1)

        def crop(image: Array, corner: Array) -> Array:
            return jax.lax.dynamic_slice(image, (*corner, jnp.zeros((), corner.dtype)), x.shape[1:])

        wide = jnp.pad(x, sides, mode="edge") if fill is None else jnp.pad(x, sides, constant_values=fill)
        return jax.vmap(crop)(wide, corners)

    return moved


def in_turn(*transforms: Transform) -> Transform:
    """Return a transform that applies others one after the other, each with a key of its own.

    Args:
        transforms: each ``transform(key, x) -> x``.
    """

    def all_of_them(key: Key, x: Float[Array, "B *d_x"]) -> Float[Array, "B *d_x"]:
        for number, transform in enumerate(transforms):
            x = transform(jax.random.fold_in(key, number), x)
        return x

    return all_of_them


def _mirror(key: Key, x: Float[Array, "B *d_x"]) -> Float[Array, "B *d_x"]:
    """Exchange left and right in every second image, at random."""
    _check_images(x)
    chosen: Bool[Array, "B 1 1 1"] = jax.random.bernoulli(key, 0.5, (x.shape[0], 1, 1, 1))
    return jnp.where(chosen, x[:, :, ::-1], x)


def _check_images(x: Array) -> None:
    if x.ndim != 4:
        raise ValueError(f"x has shape {x.shape}, but images (B, H, W, C) are needed")
