# SPDX-License-Identifier: Apache-2.0
"""The first layer of many networks at the same points, with a derivative laid out for the matrix kernels of a CPU.

Over n particles the gradient of the first weights is one product ``(n·h, B) × (B, d)``. XLA's kernels on a CPU work on
8 columns at a time: with 9 or 13 features that product takes three times as long as with 8. :func:`affine` gives the
derivative in blocks of 8, the bias as one more column; its value is that of the plain line.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float

BLOCK = 8  # columns of a product that cost as much as the first of them
MANY = 64  # features from which on a part of a block is not worth a copy of the weights


@jax.custom_jvp
def affine(weight: Float[Array, "i o"], bias: Float[Array, " o"], x: Float[Array, "i B"]) -> Float[Array, "o B"]:
    """Return Wᵀx + b, with points along the last axis.

    Stands for ``weight.T @ x + bias[:, None]``, which is used where the features fill whole blocks already (8, 16, …),
    are fewer than 4, or are 64 and more.

    >>> affine(jnp.ones((2, 1)), jnp.ones(1), jnp.asarray([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[5.0, 7.0]]
    """
    return weight.T @ x + bias[:, None]


def _derivative(primals: tuple[Array, Array, Array], tangents: tuple[Any, Any, Any]) -> tuple[Array, Array]:
    weight, bias, x = primals
    d_weight, d_bias, d_x = tangents
    moved = jnp.zeros((weight.shape[1], x.shape[1]), x.dtype)
    if not (_is_zero(d_weight) and _is_zero(d_bias)):
        moved = _in_blocks(_dense(d_weight), _dense(d_bias), x)
    if not _is_zero(d_x):
        moved = moved + weight.T @ d_x
    return affine(weight, bias, x), moved


affine.defjvp(_derivative, symbolic_zeros=True)


def _in_blocks(weight: Float[Array, "i o"], bias: Float[Array, " o"], x: Float[Array, "i B"]) -> Float[Array, "o B"]:
    """Compute Wᵀx + b such that its transpose in W and b has whole blocks of columns, or few."""
    features = x.shape[0]
    one = jnp.ones_like(x[:1])
    if features % BLOCK == 0 or not BLOCK // 2 <= features < MANY:
        return weight.T @ x + bias[:, None] @ one
    padding = ((0, -(features + 1) % BLOCK), (0, 0))
    rows, points = jnp.concatenate([weight, bias[None]]), jnp.concatenate([x, one])
    return jnp.pad(rows, padding).T @ jnp.pad(points, padding)


def _is_zero(tangent: Any) -> bool:
    return isinstance(tangent, SymbolicZero)


def _dense(tangent: Any) -> Array:
    return jnp.zeros(tangent.shape, tangent.dtype) if _is_zero(tangent) else tangent
