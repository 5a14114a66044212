# SPDX-License-Identifier: Apache-2.0
"""The first layer of many networks at the same points, with a derivative laid out for the matrix unit of a CPU.

Over n particles the gradient of the first weights is one product ``(n·h, B) × (B, d)``. XLA's kernels on a CPU work on
8 columns at a time: with 9 or 13 features that product takes three times as long as with 8. :func:`affine` gives the
derivative in blocks of 8, the bias as one more column; its value is computed as ever.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float

BLOCK = 8  # columns of a product that cost as much as the first of them


@jax.custom_jvp
def affine(weight: Float[Array, "i o"], bias: Float[Array, " o"], x: Float[Array, "i B"]) -> Float[Array, "o B"]:
    """Wᵀx + b, with points along the last axis.

    >>> affine(jnp.ones((2, 1)), jnp.ones(1), jnp.asarray([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[5.0, 7.0]]
    """
    return weight.T @ x + bias[:, None]


def _derivative(primals: tuple[Array, Array, Array], tangents: tuple[Any, Any, Any]) -> tuple[Array, Array]:
    weight, bias, x = primals
    d_weight, d_bias, d_x = tangents
    moved = jnp.zeros((weight.shape[1], x.shape[1]), x.dtype)
    if not (_is_zero(d_weight) and _is_zero(d_bias)):
        rows = jnp.concatenate([_dense(d_weight), _dense(d_bias)[None]])
        moved = _in_blocks(rows, jnp.concatenate([x, jnp.ones_like(x[:1])]))
    if not _is_zero(d_x):
        moved = moved + weight.T @ d_x
    return affine(weight, bias, x), moved


affine.defjvp(_derivative, symbolic_zeros=True)


def _in_blocks(weight: Float[Array, "i o"], x: Float[Array, "i B"]) -> Float[Array, "o B"]:
    """Wᵀx such that its transpose in W has whole blocks of columns; a single one left over is a product of its own."""
    whole, rest = x.shape[0] - x.shape[0] % BLOCK, x.shape[0] % BLOCK
    if rest > 1 and x.shape[0] > BLOCK // 2:
        padding = ((0, BLOCK - rest), (0, 0))
        return jnp.pad(weight, padding).T @ jnp.pad(x, padding)
    if whole and rest:
        return weight[:whole].T @ x[:whole] + weight[whole:].T @ x[whole:]
    return weight.T @ x


def _is_zero(tangent: Any) -> bool:
    return isinstance(tangent, SymbolicZero)


def _dense(tangent: Any) -> Array:
    return jnp.zeros(tangent.shape, tangent.dtype) if _is_zero(tangent) else tangent
