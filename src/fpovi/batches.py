# SPDX-License-Identifier: Apache-2.0
"""Data at fixed shapes: the check at the door, and the order in which mini-batches visit the rows."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Int

from fpovi.types import Batch, Key


def make_batch(x: ArrayLike, y: ArrayLike, weight: ArrayLike | None = None) -> Batch:
    """Rows x ``(N, *d_x)`` with targets y ``(N,)`` or ``(N, m)`` and optional weights, checked once.

    ``weight`` is one number per row, or per row and target, where 0 marks a target that was not observed.

    >>> make_batch([[0.0], [1.0]], [1.0, 2.0]).y.shape
    (2, 1)
    """
    x, y = np.asarray(x), np.asarray(y)
    if x.ndim < 2:
        raise ValueError(f"x has shape {x.shape}, but rows of features (N, d) are needed")
    y = y[:, None] if y.ndim == 1 else y
    if y.ndim != 2 or y.shape[0] != x.shape[0]:
        raise ValueError(f"y has shape {y.shape}, but x has {x.shape[0]} rows: one row of targets each is needed")
    if x.shape[0] == 0:
        raise ValueError("x has no rows: at least one is needed")
    weight = np.ones((x.shape[0], 1)) if weight is None else np.asarray(weight, dtype=float)
    weight = weight[:, None] if weight.ndim == 1 else weight
    if weight.shape not in ((x.shape[0], 1), y.shape):
        raise ValueError(f"weight has shape {weight.shape}, but {(x.shape[0], 1)} or {y.shape} is needed")
    for name, array in (("x", x), ("y", y), ("weight", weight)):
        bad = ~np.isfinite(array.astype(float))
        if bad.any():
            raise ValueError(f"{name} has {bad.sum()} NaN or infinite values, the first at row {bad.nonzero()[0][0]}")
    if (weight < 0).any() or not weight.sum() > 0:
        raise ValueError("weight must not be negative, and at least one must be positive")
    dtype = jax.dtypes.canonicalize_dtype(x.dtype if np.issubdtype(x.dtype, np.floating) else float)
    targets = jnp.asarray(y) if np.issubdtype(y.dtype, np.integer) else jnp.asarray(y, dtype)
    weight = jnp.asarray(weight, dtype)
    return Batch(jnp.asarray(x, dtype), targets, weight, jnp.sum(weight))


def check_batch_size(batch_size: int, rows: int) -> int:
    """``batch_size`` if it is usable, at most ``rows``."""
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size} must be at least 1")
    return min(batch_size, rows)


def epoch_order(key: Key, epoch: Int[Array, ""], rows: int, batch_size: int) -> Int[Array, "batches size"]:
    """A fresh random order of the rows for this epoch, cut into batches.

    A short last batch is filled up with the first rows of the order; :func:`take` gives those weight 0.
    """
    order = jax.random.permutation(jax.random.fold_in(key, epoch), rows)
    batches = -(-rows // batch_size)
    return jnp.resize(order, (batches, batch_size))


def take(data: Batch, index: Int[Array, " B"], fresh: Bool[Array, " B"]) -> Batch:
    """The rows ``index`` of ``data``; rows that are not ``fresh`` are padding and weigh nothing."""
    weight = data.weight[index] * fresh[:, None].astype(data.weight.dtype)
    return Batch(data.x[index], data.y[index], weight, data.num_data)
