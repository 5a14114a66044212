# SPDX-License-Identifier: Apache-2.0
"""What a method of learning is: how a model begins, learns from rows, and what functions it holds."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fpovi.bandits.memory import Memory, Rows
from fpovi.types import Key, PyTree

BLOCK = 4096  # contexts looked at together


class Lesson(NamedTuple):
    """What a model learns from.

    Attributes:
        key, random: where chance comes from, in compiled programs and on the host.
        memory: all rows.
        new: those that came since the last lesson.
        number: how many lessons there were before.
        arms: K.
    """

    key: Key
    random: np.random.Generator
    memory: Memory
    new: Rows
    number: int
    arms: int


class Method(NamedTuple):
    """A method by three functions of a ``model``, a pytree of arrays that a file can hold.

    Attributes:
        init: ``init(key, inputs, arms) -> model``. It is called again when arms are added: arrays of the old model then
            take the places of the first entries.
        learn: ``learn(model, lesson) -> model``.
        values: ``values(model, x) -> (n, N, K)``, what n functions say of encoded contexts ``(N, d)``: pure JAX.
        every: after how many new rows a lesson is due.
        by_functions: whether arms are chosen by what the functions say; otherwise all are equally likely.
    """

    init: Callable[[Key, int, int], PyTree]
    learn: Callable[[PyTree, Lesson], PyTree]
    values: Callable[[PyTree, Float[Array, "N d"]], Float[Array, "n N K"]]
    every: int = 1
    by_functions: bool = True


class Scale(NamedTuple):
    """Rewards are learned as (reward − shift)/spread."""

    shift: Float[np.ndarray, ""]
    spread: Float[np.ndarray, ""]


def unit_scale() -> Scale:
    """Return the scale of rewards as they are."""
    return as_scale(0.0, 1.0)


def scale_of(rows: Rows) -> Scale:
    """Return mean and standard deviation of rewards, 1 where they do not vary."""
    if rows.weight.sum() == 0:
        return unit_scale()
    shift = np.average(rows.reward, weights=rows.weight)
    spread = np.sqrt(np.average((rows.reward - shift) ** 2, weights=rows.weight))
    varies = spread > 1e-6 * max(float(np.abs(rows.reward).max()), 1e-6)
    return as_scale(shift, spread if varies else 1.0)


def as_scale(shift: float, spread: float) -> Scale:
    """Return two numbers as a scale."""
    return Scale(np.asarray(shift, np.float32), np.asarray(spread, np.float32))


def enlarge(old: PyTree, fresh: PyTree) -> PyTree:
    """Return ``fresh`` with the entries of ``old``, whose arrays have as many axes and are no longer, in front."""

    def overlay(before: Array | np.ndarray, after: Array | np.ndarray) -> Array | np.ndarray:
        if before.shape == after.shape:
            return before
        larger = np.array(after)
        larger[tuple(slice(size) for size in before.shape)] = before
        return larger if isinstance(after, np.ndarray) else jnp.asarray(larger)

    return jax.tree.map(overlay, old, fresh)


def look(method: Method, model: PyTree, x: Float[np.ndarray, "N d"]) -> Float[np.ndarray, "n N K"]:
    """Return what functions say of contexts.

    Rows are filled up to a power of two, at most :data:`BLOCK`, so that few programs serve all numbers of them.
    """
    blocks = [x[first : first + BLOCK] for first in range(0, len(x), BLOCK)]
    found = [np.asarray(_values(method.values, model, _filled(block)))[:, : len(block)] for block in blocks]
    return found[0] if len(found) == 1 else np.concatenate(found, axis=1)


@partial(jax.jit, static_argnums=0)
def _values(values: Callable[..., Array], model: PyTree, x: Float[Array, "N d"]) -> Array:
    return values(model, x)


def _filled(x: Float[np.ndarray, "N d"]) -> Float[np.ndarray, "M d"]:
    """Return the rows and zeros after them, up to a power of two."""
    rows = 1 << max(len(x) - 1, 0).bit_length()
    if rows == len(x):
        return x
    filled = np.zeros((rows, *x.shape[1:]), x.dtype)
    filled[: len(x)] = x
    return filled
