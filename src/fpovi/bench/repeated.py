# SPDX-License-Identifier: Apache-2.0
"""A step repeated in one compiled program: nothing of Python's between two steps is timed."""

from collections.abc import Callable
from typing import TypeAlias

import jax
from jaxtyping import Array

from fpovi.types import PyTree

Run: TypeAlias = Callable[[int], None]


class UnavailableError(Exception):
    """A contestant that cannot run here; the message says what would help."""


def repeated(step: Callable[..., PyTree], carry: PyTree, *data: PyTree) -> Run:
    """``run(steps)`` starts at ``carry``, applies ``carry = step(i, carry, *data)`` and blocks until that is done.

    One program serves any number of steps. ``data`` are its arguments, so that the compiler knows their shape alone.
    """

    @jax.jit
    def many(steps: Array, carry: PyTree, *data: PyTree) -> PyTree:
        return jax.lax.fori_loop(0, steps, lambda i, carry: step(i, carry, *data), carry)

    def run(steps: int) -> None:
        jax.block_until_ready(many(steps, carry, *data))

    return run
