# SPDX-License-Identifier: Apache-2.0
"""What a method of learning is: how a model begins, learns from rows, and what functions it holds."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float

from fpovi.bandits.memory import Memory, Rows
from fpovi.types import Key, PyTree


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

    def overlay(before: Array, after: Array) -> Array:
        if before.shape == after.shape:
            return before
        place = tuple(slice(size) for size in before.shape)
        return jax.numpy.asarray(after).at[place].set(before)

    return jax.tree.map(overlay, old, fresh)
