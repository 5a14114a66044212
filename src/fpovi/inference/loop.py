# SPDX-License-Identifier: Apache-2.0
"""The loop: a step repeated in one compiled program, watched from outside now and then."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from fpovi.inference.batches import check_batch_size, epoch_order, fill, is_real, take
from fpovi.types import Algorithm, Batch, DivergedError, Info, Key, ParametrisedAlgorithm, PyTree, State

DEFAULT_CHUNK = 1000


class Run(NamedTuple):
    """Where a run ended, and the Info of each of its steps, stacked."""

    state: State
    history: Info


def run(
    key: Key,
    algorithm: Algorithm | ParametrisedAlgorithm,
    state: State,
    data: Batch,
    num_steps: int,
    *,
    batch_size: int | None = None,
    chunk_size: int = DEFAULT_CHUNK,
    watch: Callable[[State, Info], bool | None] | None = None,
) -> Run:
    """Take ``num_steps`` steps from ``state``.

    One program is traced and compiled for the whole run, and used again for other data of the same shape. Every
    step's randomness comes from ``key`` and the number of the step, so a run cut in two ends where the whole does,
    bit for bit.

    Args:
        key: the same key gives the same result.
        algorithm, state: what to repeat, and ``algorithm.init(key, n)`` or the state of an earlier run. A
            :class:`~fpovi.types.ParametrisedAlgorithm` is compiled once for all its numbers.
        data: all rows, from :func:`~fpovi.make_batch`; those of weight 0 are padding and never looked at.
        num_steps: how many steps to take.
        batch_size: rows per step, reshuffled every epoch; all of them by default.
        chunk_size: steps between two looks from outside.
        watch: called after each chunk with the state and the chunk's history; a true answer ends the run.

    Raises:
        DivergedError: when a step is not finite; it carries the last finite particles.
    """
    if num_steps < 1 or chunk_size < 1:
        raise ValueError(f"num_steps={num_steps} and chunk_size={chunk_size} must be at least 1")
    size = check_batch_size(data.x.shape[0] if batch_size is None else batch_size, data.x.shape[0])
    with_numbers = (
        algorithm if isinstance(algorithm, ParametrisedAlgorithm) else ParametrisedAlgorithm(_Always(algorithm), ())
    )
    with_numbers.algorithm.check(state, data)
    histories, first = [], int(state.step)
    end = first + num_steps
    while first < end:
        until = min(first + chunk_size, end)
        steps_from = partial(_chunk, with_numbers.build, size, chunk_size, with_numbers.numbers, key, state, data)
        state, history = steps_from(jnp.asarray(until))
        history = jax.tree.map(lambda leaf, rows=until - first: np.asarray(leaf)[:rows], history)
        histories.append(history)
        if not np.all(history.finite):
            # the steps before the one that failed are taken again: cheaper than to keep the last state at every step
            failed = int(np.argmin(history.finite))
            raise _diverged(first, failed, steps_from(jnp.asarray(first + failed))[0], history)
        del steps_from  # and with it the state before these steps
        if watch is not None and watch(state, history):
            break
        first = until
    return Run(state, jax.tree.map(lambda *chunks: np.concatenate(chunks), *histories))


@dataclass(frozen=True)
class _Always:
    """Build a fixed algorithm; equal for equal algorithms, so that they share a program."""

    algorithm: Algorithm

    def __call__(self, numbers: PyTree) -> Algorithm:
        return self.algorithm


@partial(jax.jit, static_argnums=(0, 1, 2))
def _chunk(
    build: Callable[[PyTree], Algorithm],
    size: int,
    length: int,
    numbers: PyTree,
    key: Key,
    state: State,
    data: Batch,
    until: Int[Array, ""],
) -> tuple[State, Info]:
    """Take the steps ``state.step`` … ``until``, or up to the first that is not finite.

    The history has room for ``length`` rows, of which those taken are set.
    """
    algorithm = build(numbers)
    rows, real, data = data.x.shape[0], is_real(data), fill(data)
    count = jnp.sum(real, dtype=state.step.dtype)
    batches = -(-count // size)
    key_order, key_steps = jax.random.split(key)
    first = state.step

    def batch_at(step: Array, order: Array) -> tuple[Batch, Array]:
        if size == rows:
            return data, order
        position = step % batches
        order = jax.lax.cond(position == 0, lambda: epoch_order(key_order, step // batches, real, size), lambda: order)
        fresh = position * size + jnp.arange(size, dtype=position.dtype) < count
        return take(data, order[position], fresh), order

    def body(carry: tuple[State, Array, Info, Array]) -> tuple[State, Array, Info, Array]:
        state, order, history, _ = carry
        step = state.step
        batch, order = batch_at(step, order)
        state, info = algorithm.step(jax.random.fold_in(key_steps, step), state, batch)
        history = jax.tree.map(lambda all, one: all.at[step - first].set(one), history, info)
        return state, order, history, info.finite

    def goes_on(carry: tuple[State, Array, Info, Array]) -> Array:
        state, _, _, finite = carry
        return (state.step < until) & finite

    # a run may resume in the middle of an epoch
    order = epoch_order(key_order, first // batches, real, size) if size < rows else jnp.zeros(())
    _, info = jax.eval_shape(algorithm.step, key, state, jax.eval_shape(batch_at, first, order)[0])
    # with a single row the compiler would make another program of the step, and its last bits could differ
    room = max(length, 2)
    history = jax.tree.map(lambda leaf: jnp.zeros((room, *leaf.shape), leaf.dtype), info)
    state, _, history, _ = jax.lax.while_loop(goes_on, body, (state, order, history, jnp.asarray(True)))
    return state, history


def _diverged(first: int, failed: int, last: State, history: Info) -> DivergedError:
    """Return the error for the step that ``failed``, counted from ``first``, with the ``last`` state before it."""
    hint = (
        "lower the optimiser's learning rate, raise the prior's jitter or floor, or clip the updates "
        f"(in that step: velocity {history.velocity_norm[failed]:.3g}, prior {history.prior_norm[failed]:.3g}, "
        f"likelihood {history.likelihood_norm[failed]:.3g}, noise {history.noise[failed]:.3g})"
    )
    return DivergedError(first + failed, last.particles, hint)
