# SPDX-License-Identifier: Apache-2.0
"""A user's own Equinox module as a network with a Gaussian prior on its weights."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fpovi.networks.gaussian_weights import ShapeStd, gaussian_weights
from fpovi.types import Key, Network, PyTree, leading_rows


def from_equinox(make: Callable[[Key], Any], prior_std: float | ShapeStd | None = None) -> Network:
    """Return a user's Equinox module, unchanged, with an independent Gaussian prior on its floating-point arrays.

    Args:
        make: ``make(key)`` builds the module, which maps one example ``(d_x,) -> (k,)``, or, when it is stateful,
            the pair that ``eqx.nn.make_with_state`` gives.
        prior_std: one standard deviation for all weights, or a function of an array's shape; by default 1/√(fan in) for
            weight matrices and 1 for vectors.

    Note:
        ``BatchNorm(mode="ema")``, which is Equinox's default, normalises all rows of a step, data or not, by running
        statistics that have seen the data of this step.
    """
    template = make(jax.random.key(0))
    stateful = isinstance(template, tuple)
    _refuse_dropout(template)
    # what is not a floating-point array (activation functions, sizes) is the same for every particle
    static = eqx.filter(template[0] if stateful else template, eqx.is_inexact_array, inverse=True)

    def init(key: Key) -> tuple[PyTree, PyTree]:
        module, state = make(key) if stateful else (make(key), ())
        return eqx.filter(module, eqx.is_inexact_array), state

    def apply(theta: PyTree, state: PyTree, x: Array, train: bool | int) -> tuple[Array, PyTree]:
        module, rows = eqx.combine(theta, static), leading_rows(train, x.shape[0])
        if not stateful:
            return jax.vmap(eqx.nn.inference_mode(module, value=not rows))(x), state
        if rows in (0, x.shape[0]):
            return _on_batch(module, state, x, training=bool(rows))
        return _learning_from(module, state, x, rows)

    sample_prior, log_prior = gaussian_weights(init, prior_std, fan_axis=0)
    return Network(init, sample_prior, log_prior, apply)


def _on_batch(module: Any, state: Any, x: Float[Array, "B *d_x"], training: bool) -> tuple[Float[Array, "B k"], Any]:
    module = eqx.nn.inference_mode(module, value=not training)
    return jax.vmap(module, in_axes=(0, None), out_axes=(0, None), axis_name="batch")(x, state)


def _learning_from(module: Any, state: Any, x: Float[Array, "B *d_x"], rows: int) -> tuple[Float[Array, "B k"], Any]:
    """Return outputs where all rows are normalised by the statistics of the leading ones, and the state these leave.

    BatchNorm corrects running statistics for their start at zero. So from zero, one batch leaves its own statistics, by
    which the other rows are normalised as in a prediction. With momentum m and t batches more, running statistics r
    then become mᵗ r + z, where z are those that started from zero.
    """
    is_norm = lambda leaf: isinstance(leaf, eqx.nn.BatchNorm)  # noqa: E731
    found = [leaf for leaf in jax.tree.leaves(module, is_leaf=is_norm) if is_norm(leaf) and leaf.mode == "batch"]
    norms = list({id(norm.batch_counter): norm for norm in found}.values())
    before = [(state.get(norm.batch_counter), state.get(norm.batch_state_index)) for norm in norms]
    for norm, (counter, statistics) in zip(norms, before, strict=True):
        state = state.set(norm.batch_counter, jnp.zeros_like(counter))
        state = state.set(norm.batch_state_index, jax.tree.map(jnp.zeros_like, statistics))
    learned, state = _on_batch(module, state, x[:rows], training=True)
    others, state = _on_batch(module, state, x[rows:], training=False)
    for norm, (counter, statistics) in zip(norms, before, strict=True):
        more, decay = state.get(norm.batch_counter), norm.momentum ** state.get(norm.batch_counter)
        fresh = state.get(norm.batch_state_index)
        state = state.set(norm.batch_counter, counter + more)
        state = state.set(norm.batch_state_index, jax.tree.map(lambda r, z, m=decay: m * r + z, statistics, fresh))
    return jnp.concatenate([learned, others]), state


def _refuse_dropout(module: Any) -> None:
    """Raise a ``ValueError`` for Dropout: particles, not random masks, are the uncertainty."""
    is_dropout = lambda leaf: isinstance(leaf, eqx.nn.Dropout)  # noqa: E731
    dropouts = [leaf for leaf in jax.tree.leaves(module, is_leaf=is_dropout) if is_dropout(leaf)]
    if any(not dropout.inference and dropout.p > 0 for dropout in dropouts):
        raise ValueError("make builds a module with Dropout, which has no place in a particle: leave it out, or p=0")
