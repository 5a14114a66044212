# SPDX-License-Identifier: Apache-2.0
"""Rows and labels as users have them, as arrays that an attack moves, and back."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from fpovi.robustness.log_probs import fitted_of
from fpovi.tabular.target import ClassTarget


def numbers_of(model: Any, X: Any) -> Float[np.ndarray, "N *d_x"]:
    """Return rows as real numbers of the type that JAX computes in, float32 unless double precision is on.

    Args:
        model: what is attacked.
        X: rows like those that a classifier was fitted to, or that a function takes.

    Raises:
        ValueError: for rows that are not finite numbers, or not like those of ``fit``.
    """
    fitted = fitted_of(model)
    if fitted is not None:
        numbers = np.asarray(fitted.encoder.numbers(X), np.float32)
    else:
        given = np.asarray(X)
        if given.dtype.kind not in "biuf" or given.ndim < 2 or 0 in given.shape:
            raise ValueError(f"X has shape {given.shape} and type {given.dtype}, but rows of numbers are needed")
        numbers = np.asarray(jnp.asarray(given if given.dtype.kind == "f" else given.astype(np.float32)))
    bad = ~np.isfinite(numbers).reshape(len(numbers), -1).all(axis=1)
    if bad.any():
        raise ValueError(
            f"X has {bad.sum()} rows with NaN or infinity, the first at row {int(np.argmax(bad))}: an attack moves "
            "numbers, so leave these rows out"
        )
    return numbers


def class_places(model: Any, labels: Any, rows: int, classes: int, name: str) -> Int[np.ndarray, " N"]:
    """Return the places of labels among the classes, one per row.

    Args:
        model: a fitted classifier, whose labels are those of ``fit``; of anything else they are whole numbers from 0.
        labels: one for all rows, or one for each.
        rows: how many there are.
        classes: how many the model knows.
        name: how messages call the labels.

    Raises:
        ValueError: for another number of labels, or such as the model does not know.
    """
    given, fitted = np.asarray(labels), fitted_of(model)
    given = given[:, 0] if given.ndim == 2 and given.shape[1] == 1 else given
    if given.shape not in ((), (rows,)):
        raise ValueError(f"{name} has shape {given.shape}, but one label for each of {rows} rows is needed")
    target = None if fitted is None else fitted.target
    known = target.classes if isinstance(target, ClassTarget) else np.arange(classes)
    places = {label: place for place, label in enumerate(known.tolist())}
    strange = [label for label in given.ravel().tolist() if label not in places]
    if strange:
        raise ValueError(f"{name} has the class {strange[0]!r}, which is none of {known[:10].tolist()}")
    return np.broadcast_to(np.asarray([places[label] for label in given.ravel().tolist()], np.int32), (rows,)).copy()


def restored(x: Float[np.ndarray, "N *d_x"], model: Any, X: Any) -> Any:
    """Return moved rows as a data frame where X was one, and as an array otherwise."""
    fitted = fitted_of(model)
    if fitted is None or not hasattr(X, "iloc"):
        return x
    names = fitted.encoder.columns.names
    return type(X)(x, index=X.index, columns=X.columns if names is None else list(names))
