# SPDX-License-Identifier: Apache-2.0
"""Numerical tools: double precision where a few small matrices need it, and a median that does not sort."""

from collections.abc import Callable
from functools import wraps

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float


def in_float64(function: Callable[..., Array]) -> Callable[..., Array]:
    """Run ``function`` on float64 copies of its array arguments and return the result in their dtype.

    Works inside ``jit``, ``scan`` and ``vmap`` with x64 switched off, because the whole computation, its batched
    form included, is traced where float64 exists. Not meant to be differentiated.

    >>> third = in_float64(lambda a: (a + 1e-12) - a)
    >>> bool(third(jnp.ones(())) > 0)
    True
    """

    def widened(*args: Array) -> Array:
        with jax.enable_x64(True):
            return function(*(a.astype(jnp.float64) for a in args))

    @wraps(function)
    def call(*args: Array) -> Array:
        dtype = jnp.result_type(*args)
        if dtype == jnp.float64:
            return function(*args)

        @custom_vmap
        def narrow(*args: Array) -> Array:
            out = widened(*args)
            with jax.enable_x64(True):
                return out.astype(dtype)

        @narrow.def_vmap
        def batched(size: int, is_batched: list[bool], *args: Array) -> tuple[Array, bool]:
            axes = tuple(0 if b else None for b in is_batched)
            with jax.enable_x64(True):
                wide = tuple(a.astype(jnp.float64) for a in args)
                out = jax.vmap(function, in_axes=axes, axis_size=size)(*wide)
                return out.astype(dtype), True

        return narrow(*args)

    return call


def median(values: Float[Array, "..."]) -> Float[Array, ""]:
    """The median of non-negative numbers, as ``jnp.median`` gives it, by counting instead of sorting.

    Non-negative floats are ordered like their bit patterns, so the middle one is found bit by bit: one pass over the
    values per bit. On a CPU that is 3 times faster than a sort for 20² values and 27 times for 200².

    >>> float(median(jnp.asarray([3.0, 1.0, 2.0, 10.0])))
    2.5
    """
    flat = jnp.abs(values).ravel()  # abs: a negative zero has the bit pattern of a negative number
    integer, num_bits = (jnp.int64, 63) if flat.dtype == jnp.float64 else (jnp.int32, 31)
    patterns = jax.lax.bitcast_convert_type(flat, integer)
    below = (flat.size - 1) // 2

    def add_bit(i: Array, found: Array) -> Array:
        trial = found | (jnp.ones((), integer) << (num_bits - 1 - i).astype(integer))
        return jnp.where(jnp.sum(patterns < trial) <= below, trial, found)

    found = jax.lax.fori_loop(0, num_bits, add_bit, jnp.zeros((), integer))
    lower = jax.lax.bitcast_convert_type(found, flat.dtype)
    if flat.size % 2:
        return lower
    next_above = jnp.min(jnp.where(patterns > found, flat, jnp.inf))
    upper = jnp.where(jnp.sum(patterns <= found) > below + 1, lower, next_above)
    return (lower + upper) / 2
