# SPDX-License-Identifier: Apache-2.0
"""JAX's random numbers, laid out for the hot step: the same numbers from the same key, sooner.

JAX hashes with Threefry-2x32 (Salmon et al. 2011). On a CPU its 20 rounds are compiled to a loop of small pieces.
:func:`straight` turns a key into one whose rounds are written out, two to four times as fast.

What the compiler makes of random numbers matters as much. It moves the work into the loop of whatever uses them, and
does it again for each use; along rows of 13 or beside a concatenation such a loop is not vectorised. :func:`normals`
keeps it in a loop of its own.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jax.extend.random import define_prng_impl
from jaxtyping import Array, Float, UInt32

from fpovi.types import Key

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
Words = tuple[UInt32[Array, "*shape"], UInt32[Array, "*shape"]]


def straight(key: Key) -> Key:
    """``key`` for straight-line code; keys of other generators than JAX's default are left as they are.

    >>> key = jax.random.key(0)
    >>> bool(jax.random.normal(straight(key)) == jax.random.normal(key))
    True
    """
    if str(jax.random.key_impl(key)) != "threefry2x32":
        return key
    return jax.random.wrap_key_data(jax.random.key_data(key), impl=_STRAIGHT)


def normals(key: Key, shape: tuple[int, ...], dtype: Any = float) -> Float[Array, "*shape"]:
    """``jax.random.normal``, drawn once and in one pass."""
    dtype = jax.dtypes.canonicalize_dtype(dtype)
    return _apart(key, lambda key: jax.random.normal(key, (math.prod(shape),), dtype)).reshape(shape)


def _apart(key: Key, draw: Callable[[Key], Array]) -> Array:
    """``draw(key)`` as a computation of its own, which the compiler does not move into those that use the result.

    It leaves branches where they are, and does not see that this one is no choice at all.
    """
    impl = jax.random.key_impl(key)

    def whole(draw: Callable[[Key], Array], data: Array) -> Array:
        return jax.lax.cond(data.ravel()[0] != PARITY, draw, draw, jax.random.wrap_key_data(data, impl=impl))

    @custom_vmap
    def once(data: Array) -> Array:
        return whole(draw, data)

    @once.def_vmap
    def for_each(size: int, is_batched: list[bool], data: Array) -> tuple[Array, bool]:
        return whole(jax.vmap(draw), data), True

    return once(jax.random.key_data(key))


def _hash(key: UInt32[Array, "2"], high: Array, low: Array) -> Words:
    """Threefry-2x32 with 20 rounds, of 64-bit counters in two words."""
    parts = (key[0], key[1], key[0] ^ key[1] ^ jnp.uint32(PARITY))
    high, low = high + parts[0], low + parts[1]
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            high = high + low
            low = (low << jnp.uint32(rotation)) | (low >> jnp.uint32(32 - rotation))
            low = low ^ high
        high, low = high + parts[(group + 1) % 3], low + parts[(group + 2) % 3] + jnp.uint32(group + 1)
    return high, low


def _of_counters(key: UInt32[Array, "2"], shape: tuple[int, ...]) -> Words:
    """The hashes of 0, 1, …"""
    size = math.prod(shape)
    if size >= 2**32:
        raise ValueError(f"{size} random numbers at once are more than 32-bit counters tell apart: draw fewer")
    low = jax.lax.iota(jnp.uint32, size).reshape(shape)
    return _hash(key, jnp.zeros_like(low), low)


def _random_bits(key: UInt32[Array, "2"], width: int, shape: tuple[int, ...]) -> Array:
    high, low = _of_counters(key, shape)
    bits = high.astype(jnp.uint64) << jnp.uint64(32) | low.astype(jnp.uint64) if width == 64 else high ^ low
    return bits.astype(f"uint{width}")


def _split(key: UInt32[Array, "2"], shape: tuple[int, ...]) -> UInt32[Array, "*shape 2"]:
    return jnp.stack(_of_counters(key, shape), axis=-1)


def _fold_in(key: UInt32[Array, "2"], data: int | Array) -> UInt32[Array, "2"]:
    return jnp.stack(_hash(key, jnp.zeros((), jnp.uint32), jnp.asarray(data, jnp.uint32)))


def _seed(seed: Array) -> UInt32[Array, "2"]:
    return jax.random.key_data(jax.random.key(seed, impl="threefry2x32"))


_STRAIGHT = define_prng_impl(
    key_shape=(2,), seed=_seed, split=_split, random_bits=_random_bits, fold_in=_fold_in,
    name="threefry2x32_straight", tag="sfry",
)  # fmt: skip
