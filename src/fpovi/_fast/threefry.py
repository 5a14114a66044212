# SPDX-License-Identifier: Apache-2.0
"""Random numbers for every step, drawn from JAX's keys in less time than JAX takes on a CPU.

JAX hashes with Threefry-2x32 (Salmon et al. 2011). On a CPU its 20 rounds are compiled to a loop of small pieces.
:func:`unrolled` turns a key into one whose rounds are written out: the same numbers, two to four times as fast.

:func:`normals` takes a third of the time of ``jax.random.normal`` on such a key. JAX folds the two words of a hash into
one number and inverts the normal distribution; here they are the radius and the angle of a pair of numbers (Box and
Muller 1958). The compiler would move the work into the loop of whatever uses the numbers, and do it again for each use;
along rows of 13 or beside a concatenation such a loop is not vectorised. So the work is kept in a loop of its own.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jax.extend.random import define_prng_impl
from jaxtyping import Array, Complex, Float, UInt32

from fpovi.types import Key

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
THREEFRY = ("threefry2x32", "sfry")  # what the keys of JAX and those of `unrolled` call themselves
# coefficients of x, x², …; both are right to single precision up to π/4
SINE = (0, 1, 0, -1 / 6, 0, 1 / 120, 0, -1 / 5040, 0, 1 / 362880)
COSINE = (1, 0, -1 / 2, 0, 1 / 24, 0, -1 / 720, 0, 1 / 40320)
Words = tuple[UInt32[Array, "*shape"], UInt32[Array, "*shape"]]


def unrolled(key: Key) -> Key:
    """Return ``key`` for a generator whose rounds are written out; it draws the same numbers.

    Stands for ``key`` itself, which is used where its generator is not JAX's default.

    >>> key = jax.random.key(0)
    >>> bool(jax.random.normal(unrolled(key)) == jax.random.normal(key))
    True
    """
    if str(jax.random.key_impl(key)) != THREEFRY[0]:
        return key
    return jax.random.wrap_key_data(jax.random.key_data(key), impl=_UNROLLED)


def normals(key: Key, shape: tuple[int, ...], dtype: Any = float) -> Float[Array, "*shape"]:
    """Draw standard normal numbers of the given shape, each computed once.

    Stands for ``jax.random.normal(key, shape, dtype)``, which draws other numbers of the same distribution. It is used
    in other than single precision, and for keys of other generators than JAX's default.

    >>> key = jax.random.key(0)
    >>> bool(jnp.all(normals(unrolled(key), (3, 5)) == normals(key, (3, 5))))
    True
    """
    dtype, size = jax.dtypes.canonicalize_dtype(dtype), math.prod(shape)
    if dtype != jnp.float32 or str(jax.random.key_impl(key)) not in THREEFRY:
        return _apart(key, lambda key: jax.random.normal(key, (size,), dtype)).reshape(shape)
    pairs = _apart(key, lambda key: _normal_pairs(*_hash_counters(jax.random.key_data(key), (-(-size // 2),))))
    return jax.lax.optimization_barrier(jnp.concatenate([pairs.real, pairs.imag])[:size]).reshape(shape)


def _normal_pairs(first: UInt32[Array, " m"], second: UInt32[Array, " m"]) -> Complex[Array, " m"]:
    r"""Make a pair of normal numbers of two uniform words, :math:`\sqrt{-2 \log u}\, (\cos \alpha + i \sin \alpha)`.

    They are one complex number, as of two arrays the compiler would make two loops, and hash in both.

    The angle's first two bits are its quadrant, the others :math:`x \in [-\pi/4, \pi/4)`, where sine and cosine are
    short sums.
    """
    radius = jnp.sqrt(-2 * jnp.log(2 - _from_one_to_two(first)))
    quadrant, x = second >> 30, (math.pi / 2) * (_from_one_to_two(second << 2) - 1.5)
    sine, cosine = (sum(c * x**p for p, c in enumerate(terms) if c) for terms in (SINE, COSINE))
    signed, turned = jnp.where(quadrant > 1, -radius, radius), quadrant % 2 == 1
    return jax.lax.complex(signed * jnp.where(turned, sine, cosine), signed * jnp.where(turned, cosine, -sine))


def _from_one_to_two(word: UInt32[Array, " m"]) -> Float[Array, " m"]:
    """Return 1 ≤ u < 2 with the first 23 bits of ``word`` as its digits."""
    return jax.lax.bitcast_convert_type((word >> 9) | jnp.uint32(0x3F800000), jnp.float32)


def _apart(key: Key, draw: Callable[[Key], Array]) -> Array:
    """Compute ``draw(key)`` in a loop of its own, which the compiler does not move into those that use the result.

    The compiler leaves branches where they are, and does not see that both branches here are the same.
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
    """Hash 64-bit counters, in two words each, by Threefry-2x32 with 20 rounds."""
    parts = (key[0], key[1], key[0] ^ key[1] ^ jnp.uint32(PARITY))
    high, low = high + parts[0], low + parts[1]
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            high = high + low
            low = (low << jnp.uint32(rotation)) | (low >> jnp.uint32(32 - rotation))
            low = low ^ high
        high, low = high + parts[(group + 1) % 3], low + parts[(group + 2) % 3] + jnp.uint32(group + 1)
    return high, low


def _hash_counters(key: UInt32[Array, "2"], shape: tuple[int, ...]) -> Words:
    """Return the hashes of 0, 1, …"""
    size = math.prod(shape)
    if size >= 2**32:
        raise ValueError(f"{size} random numbers at once are more than 32-bit counters tell apart: draw fewer")
    low = jax.lax.iota(jnp.uint32, size).reshape(shape)
    return _hash(key, jnp.zeros_like(low), low)


def _random_bits(key: UInt32[Array, "2"], width: int, shape: tuple[int, ...]) -> Array:
    high, low = _hash_counters(key, shape)
    bits = high.astype(jnp.uint64) << jnp.uint64(32) | low.astype(jnp.uint64) if width == 64 else high ^ low
    return bits.astype(f"uint{width}")


def _split(key: UInt32[Array, "2"], shape: tuple[int, ...]) -> UInt32[Array, "*shape 2"]:
    return jnp.stack(_hash_counters(key, shape), axis=-1)


def _fold_in(key: UInt32[Array, "2"], data: int | Array) -> UInt32[Array, "2"]:
    return jnp.stack(_hash(key, jnp.zeros((), jnp.uint32), jnp.asarray(data, jnp.uint32)))


def _seed(seed: Array) -> UInt32[Array, "2"]:
    return jax.random.key_data(jax.random.key(seed, impl="threefry2x32"))


_UNROLLED = define_prng_impl(
    key_shape=(2,), seed=_seed, split=_split, random_bits=_random_bits, fold_in=_fold_in,
    name="threefry2x32_unrolled", tag=THREEFRY[1],
)  # fmt: skip
