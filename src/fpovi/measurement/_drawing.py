# SPDX-License-Identifier: Apache-2.0
"""What measurement sets share: rows to start from, and points put beside the labelled ones."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fpovi.types import Key, Measurement, Numbers


def beside_batch(draw: Callable[[Key, Array], Array]) -> Measurement:
    """Return a sampler of the labelled rows and, after them, what ``draw(key, x)`` draws."""
    return lambda key, x: jnp.concatenate([x, draw(key, x).astype(x.dtype)], axis=0)


def choose(key: Key, rows: Array, *shape: int) -> Array:
    """Choose random rows, with repetition."""
    return rows[jax.random.randint(key, shape, 0, rows.shape[0])]


def pool_of(x: Array, centres: Array | None) -> Array:
    """Return the rows to start from: ``centres``, by default x itself."""
    if centres is None:
        return x
    check_shape("centres", centres.shape[1:], x)
    return centres.astype(x.dtype)


def check_size(size: int) -> None:
    """Raise a ``ValueError`` for less than one extra point."""
    if size < 1:
        raise ValueError(f"size={size} must be at least 1 (train_only has no extra points)")


def check_shape(name: str, shape: tuple[int, ...], x: Array, axes: int | None = None) -> None:
    """Raise a ``ValueError`` unless ``shape`` is that of a row of x, or of its last ``axes``."""
    row = x.shape[1:]
    if shape != row and (axes is None or shape != row[len(row) - axes :]):
        raise ValueError(f"{name} is for inputs of shape {shape}, but those of x have shape {row}")


def as_centres(centres: Numbers | None) -> Array | None:
    """Return rows to start from, where a user gives some."""
    return None if centres is None else as_rows("centres", centres)


def as_rows(name: str, array: Numbers) -> Array:
    """Return at least one row of finite numbers, or raise a ``ValueError``."""
    rows = np.asarray(array)
    if rows.ndim < 2 or rows.shape[0] == 0:
        raise ValueError(f"{name} has shape {rows.shape}, but at least one row (N, d_x) is needed")
    if not np.all(np.isfinite(rows)):
        raise ValueError(f"{name} has {np.sum(~np.isfinite(rows))} NaN or infinite values: all must be finite")
    return jnp.asarray(rows)
