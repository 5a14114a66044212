# SPDX-License-Identifier: Apache-2.0
"""A user's own Flax module as a network with a Gaussian prior on its weights."""

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fpovi.networks.gaussian_weights import ShapeStd, gaussian_weights
from fpovi.types import Key, Network, PyTree, leading_rows


def from_flax(module: Any, example: Float[Array, "B *d_x"], prior_std: float | ShapeStd | None = None) -> Network:
    """Return a user's Flax (linen) module, unchanged, with an independent Gaussian prior on its parameters.

    Args:
        module: maps a batch ``(B, *d_x) -> (B, k)``. Collections other than ``params`` are carried as state; a module
            whose call takes ``train`` is told whether it is training. It may not draw random numbers, as Dropout does.
        example: a batch of inputs to trace shapes with.
        prior_std: as in :func:`from_equinox`.

    Note:
        Rows of a step that are no data are normalised by the batch statistics of those that are, where all state is
        that of ``BatchNorm`` over the first axis of its input. A module with other state sees them as in a prediction.
    """
    takes_train = "train" in inspect.signature(type(module).__call__).parameters
    from flax.errors import InvalidRngError

    def init(key: Key) -> tuple[PyTree, PyTree]:
        variables = dict(module.init(key, example, **({"train": False} if takes_train else {})))
        return variables.pop("params"), variables

    def on_batch(theta: PyTree, state: PyTree, x: Array, train: bool) -> tuple[Array, PyTree]:
        options = {"train": train} if takes_train else {}
        if not (train and state):
            return module.apply({"params": theta, **state}, x, **options), state
        outputs, changed = module.apply({"params": theta, **state}, x, mutable=list(state), **options)
        return outputs, {**state, **changed}

    try:
        jax.eval_shape(lambda key: on_batch(*init(key), example, True), jax.random.key(0))
    except InvalidRngError as error:
        raise ValueError("module draws random numbers when called (Dropout?), but a particle is a function") from error
    masked = _has_no_state_but_of_batch_norm(init)

    def apply(theta: PyTree, state: PyTree, x: Array, train: bool | int) -> tuple[Array, PyTree]:
        rows = leading_rows(train, x.shape[0])
        if rows in (0, x.shape[0]) or not jax.tree.leaves(state):
            return on_batch(theta, state, x, bool(rows))
        if masked:
            with _statistics_of(rows, x.shape[0]):
                return on_batch(theta, state, x, True)
        learned, state = on_batch(theta, state, x[:rows], True)
        others, _ = on_batch(theta, jax.lax.stop_gradient(state), x[rows:], False)
        return jnp.concatenate([learned, others]), state

    sample_prior, log_prior = gaussian_weights(init, prior_std, fan_axis=-1)
    return Network(init, sample_prior, log_prior, apply)


def _has_no_state_but_of_batch_norm(init: Callable[[Key], tuple[PyTree, PyTree]]) -> bool:
    """Tell whether every array of the state belongs to a BatchNorm that can be told which rows to look at."""
    from flax.linen import BatchNorm, intercept_methods

    theirs = set()

    def note(call: Callable[..., Any], args: Any, kwargs: Any, context: Any) -> Any:
        norm = context.module
        if type(norm) is BatchNorm and norm.axis != 0 and norm.axis_name is None:
            theirs.add(norm.path)
        return call(*args, **kwargs)

    with intercept_methods(note):
        _, state = jax.eval_shape(init, jax.random.key(0))
    places = (tuple(step.key for step in path) for path, _ in jax.tree_util.tree_leaves_with_path(state))
    return all(place[0] == "batch_stats" and place[1:-1] in theirs for place in places)


def _statistics_of(rows: int, total: int) -> Any:
    """Return a context in which every BatchNorm normalises all of ``total`` rows by the statistics of the leading ones.

    Where a module has moved other axes into the first, as those of patches, these belong to their rows.
    """
    from flax.linen import BatchNorm, intercept_methods

    def masked(call: Callable[..., Any], args: Any, kwargs: Any, context: Any) -> Any:
        if type(context.module) is not BatchNorm or context.method_name != "__call__":
            return call(*args, **kwargs)
        h = args[0]
        mask = (jnp.arange(h.shape[0]) < h.shape[0] * rows // total).reshape(-1, *[1] * (h.ndim - 1))
        asked = kwargs.get("mask")
        return call(*args, **{**kwargs, "mask": mask if asked is None else mask & asked.astype(bool)})

    return intercept_methods(masked)
