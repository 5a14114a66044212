# SPDX-License-Identifier: Apache-2.0
"""Data at fixed shapes: how they are checked, padded and cut into mini-batches."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int
from numpy.typing import NDArray

from fpovi._fast.threefry import unrolled
from fpovi.types import Batch, Key, Numbers

MOST_PLACES = 16  # binary, of a row's number: 15 are left for its rank, and one for padding


def make_batch(x: Numbers, y: Numbers, weight: Numbers | None = None) -> Batch:
    """Return rows with targets and weights as one batch, checked once.

    All take the floating-point type of x (JAX's default one if x has whole numbers); whole targets stay whole.

    Args:
        x: inputs ``(N, *d_x)``.
        y: targets ``(N,)`` or ``(N, m)``.
        weight: one number per row, or per row and target; 0 marks a target that was not observed.

    >>> make_batch([[0.0], [1.0]], [1.0, 2.0]).y.shape
    (2, 1)
    """
    x, y = _numbers("x", x), _column(_numbers("y", y))
    if x.ndim < 2 or 0 in x.shape[1:]:
        raise ValueError(f"x has shape {x.shape}, but rows of features (N, d) are needed")
    if y.ndim != 2 or y.shape[0] != x.shape[0] or y.shape[1] == 0:
        raise ValueError(f"y has shape {y.shape}, but x has {x.shape[0]} rows: one row of targets each is needed")
    if x.shape[0] == 0:
        raise ValueError(f"x has shape {x.shape}, no rows: at least one is needed")
    weight = np.ones((x.shape[0], 1)) if weight is None else _column(_numbers("weight", weight))
    if weight.shape not in ((x.shape[0], 1), y.shape):
        raise ValueError(f"weight has shape {weight.shape}, but {(x.shape[0], 1)} or {y.shape} is needed")

    dtype = jax.dtypes.canonicalize_dtype(x.dtype if jnp.issubdtype(x.dtype, np.floating) else float)
    x, weight = _finite("x", x, dtype), _finite("weight", weight, dtype)
    y = y if _are_whole(y) else _finite("y", y, dtype)
    if (weight < 0).any():
        raise ValueError(f"weight has {weight.min()} at row {weight.min(axis=1).argmin()}, but none may be negative")
    if not weight.any():
        raise ValueError("weight is 0 everywhere, but at least one must be positive")
    return Batch(jnp.asarray(x), jnp.asarray(y), jnp.asarray(weight), jnp.asarray(weight.sum()))


def _numbers(name: str, values: Numbers) -> NDArray[Any]:
    """Return ``values`` as an array of real numbers."""
    try:
        array = np.asarray(values)
        array = array.astype(float) if array.dtype == object else array
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} cannot be read as an array of numbers: {error}") from error
    if not (jnp.issubdtype(array.dtype, jnp.floating) or np.issubdtype(array.dtype, np.integer) or array.dtype == bool):
        raise ValueError(f"{name} has values of type {array.dtype}, but real numbers are needed")
    return array


def _column(array: NDArray[Any]) -> NDArray[Any]:
    return array[:, None] if array.ndim == 1 else array


def _finite(name: str, array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """Return ``array`` in ``dtype`` if all values are finite there: a float64 may be too large for a float32."""
    with np.errstate(over="ignore"):
        cast = array.astype(dtype)
    bad = ~np.isfinite(cast)
    if bad.any():
        where = tuple(int(index) for index in np.argwhere(bad)[0])
        raise ValueError(
            f"{name} has {bad.sum()} NaN or infinite values, the first ({array[where]}) at row {where[0]}: "
            f"only finite values of {np.dtype(dtype)} are accepted"
        )
    return cast


def _are_whole(y: NDArray[Any]) -> bool:
    """Tell whether y are integers that JAX's integers hold; larger ones would wrap around."""
    if not np.issubdtype(y.dtype, np.integer):
        return False
    limits = np.iinfo(jax.dtypes.canonicalize_dtype(y.dtype))
    return bool(limits.min <= y.min() and y.max() <= limits.max)


def check_batch_size(batch_size: int, rows: int) -> int:
    """Return ``batch_size`` if it is usable, at most ``rows``."""
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size} must be at least 1")
    return min(batch_size, rows)


def pad(data: Batch, rows: int) -> Batch:
    """Fill ``data`` up to ``rows`` with copies of its first row, of weight 0: one program then serves many lengths.

    >>> pad(make_batch([[1.0], [2.0]], [3.0, 4.0]), 4).weight.tolist()
    [[1.0], [1.0], [0.0], [0.0]]
    """
    missing = rows - data.x.shape[0]
    if missing < 0:
        raise ValueError(f"rows={rows} is less than the {data.x.shape[0]} rows that are there")
    # by NumPy, which needs no compilation for every number of rows
    x, y = (np.concatenate([a, np.repeat(a[:1], missing, axis=0)]) for a in map(np.asarray, (data.x, data.y)))
    weight = np.pad(data.weight, ((0, missing), (0, 0)))
    return Batch(jnp.asarray(x), jnp.asarray(y), jnp.asarray(weight), data.num_data)


def is_real(data: Batch) -> Bool[Array, " N"]:
    """Tell which rows are data; the others, of weight 0, are padding."""
    return jnp.any(data.weight > 0, axis=1)


def fill(data: Batch) -> Batch:
    """Put real rows, by turns, in the place of padding: what looks at inputs alone then sees only real ones."""
    real, rows = is_real(data), jnp.arange(data.x.shape[0])
    index = jnp.where(real, rows, jnp.argsort(~real)[rows % jnp.maximum(jnp.sum(real), 1)])
    return data._replace(x=data.x[index], y=data.y[index])


def epoch_order(
    key: Key, epoch: Int[Array, ""], real: Bool[Array, " N"], batch_size: int
) -> Int[Array, "batches size"]:
    """Return a fresh random order of the real rows for this epoch, cut into batches.

    What is left of the last of them, and all after it, is filled with the first rows of the order again; :func:`take`
    gives those weight 0.
    """
    order = _shuffled(jax.random.fold_in(unrolled(key), epoch), real)
    batches = -(-real.shape[0] // batch_size)
    place = jnp.arange(batches * batch_size) % jnp.maximum(jnp.sum(real), 1)
    return order[place].reshape(batches, batch_size)


def _shuffled(key: Key, real: Bool[Array, " N"]) -> Int[Array, " N"]:
    """Return all rows in random order, the real ones first.

    On a CPU numbers are sorted five times as fast as pairs of numbers, so rank and row are one where there is room for
    both. Rows of equal rank stay as they are, which matters to none but the two at the end of a batch.
    """
    rows, places = real.shape[0], max(real.shape[0] - 1, 1).bit_length()
    if places > MOST_PLACES:
        return jnp.argsort(jnp.where(real, jax.random.uniform(key, (rows,), jnp.float32), 1))
    rank = jax.random.bits(key, (rows,), jnp.uint32) >> (places + 1)
    last = jnp.uint32(2 ** (31 - places))  # greater than any rank
    ordered = jnp.sort((jnp.where(real, rank, last) << places) | jnp.arange(rows, dtype=jnp.uint32))
    return (ordered & jnp.uint32(2**places - 1)).astype(int)


def take(data: Batch, index: Int[Array, " B"], fresh: Bool[Array, " B"]) -> Batch:
    """Return the rows ``index`` of ``data``; rows that are not ``fresh`` are padding and weigh nothing."""
    weight = data.weight[index] * fresh[:, None].astype(data.weight.dtype)
    return Batch(data.x[index], data.y[index], weight, data.num_data)
