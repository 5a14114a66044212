# SPDX-License-Identifier: Apache-2.0
"""Double precision for the few small matrices that need it."""

from collections.abc import Callable
from functools import wraps

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array


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
