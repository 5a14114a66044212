# SPDX-License-Identifier: Apache-2.0
"""A user's own Equinox or Flax module as a network with a Gaussian prior on its weights."""

import inspect
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fpovi._fast.threefry import normals
from fpovi.types import Key, Network, PyTree, leading_rows

ShapeStd = Callable[[tuple[int, ...]], float]


def from_equinox(make: Callable[[Key], Any], prior_std: float | ShapeStd | None = None) -> Network:
    """Return a user's Equinox module, unchanged, with an independent Gaussian prior on its floating-point arrays.

    Args:
        make: ``make(key)`` builds the module, which maps one example ``(d_x,) -> (k,)``, or, when it is stateful,
            the pair that ``eqx.nn.make_with_state`` gives.
        prior_std: one standard deviation for all weights, or a function of an array's shape; by default 1/√(fan in) for
            weight matrices and 1 for vectors.
    """
    template = make(jax.random.key(0))
    stateful = isinstance(template, tuple)
    _refuse_dropout(template)
    # what is not a floating-point array (activation functions, sizes) is the same for every particle
    static = eqx.filter(template[0] if stateful else template, eqx.is_inexact_array, inverse=True)

    def init(key: Key) -> tuple[PyTree, PyTree]:
        module, state = make(key) if stateful else (make(key), ())
        return eqx.filter(module, eqx.is_inexact_array), state

    def apply(theta: PyTree, state: PyTree, x: Array, train: bool) -> tuple[Array, PyTree]:
        module = eqx.nn.inference_mode(eqx.combine(theta, static), value=not train)
        if not stateful:
            return jax.vmap(module)(x), state
        return jax.vmap(module, in_axes=(0, None), out_axes=(0, None), axis_name="batch")(x, state)

    sample_prior, log_prior = _gaussian_weights(init, prior_std, fan_axis=0)
    return Network(init, sample_prior, log_prior, _learning_from_leading_rows(apply))


def _refuse_dropout(module: Any) -> None:
    """Raise a ``ValueError`` for Dropout: particles, not random masks, are the uncertainty."""
    is_dropout = lambda leaf: isinstance(leaf, eqx.nn.Dropout)  # noqa: E731
    dropouts = [leaf for leaf in jax.tree.leaves(module, is_leaf=is_dropout) if is_dropout(leaf)]
    if any(not dropout.inference and dropout.p > 0 for dropout in dropouts):
        raise ValueError("make builds a module with Dropout, which has no place in a particle: leave it out, or p=0")


def from_flax(module: Any, example: Float[Array, "B *d_x"], prior_std: float | ShapeStd | None = None) -> Network:
    """Return a user's Flax (linen) module, unchanged, with an independent Gaussian prior on its parameters.

    Args:
        module: maps a batch ``(B, *d_x) -> (B, k)``. Collections other than ``params`` are carried as state; a module
            whose call takes ``train`` is told whether it is training. It may not draw random numbers, as Dropout does.
        example: a batch of inputs to trace shapes with.
        prior_std: as in :func:`from_equinox`.
    """
    takes_train = "train" in inspect.signature(type(module).__call__).parameters
    from flax.errors import InvalidRngError

    def init(key: Key) -> tuple[PyTree, PyTree]:
        variables = dict(module.init(key, example, **({"train": False} if takes_train else {})))
        return variables.pop("params"), variables

    def apply(theta: PyTree, state: PyTree, x: Array, train: bool) -> tuple[Array, PyTree]:
        options = {"train": train} if takes_train else {}
        if not (train and state):
            return module.apply({"params": theta, **state}, x, **options), state
        outputs, changed = module.apply({"params": theta, **state}, x, mutable=list(state), **options)
        return outputs, {**state, **changed}

    try:
        jax.eval_shape(lambda key: apply(*init(key), example, True), jax.random.key(0))
    except InvalidRngError as error:
        raise ValueError("module draws random numbers when called (Dropout?), but a particle is a function") from error
    sample_prior, log_prior = _gaussian_weights(init, prior_std, fan_axis=-1)
    return Network(init, sample_prior, log_prior, _learning_from_leading_rows(apply))


def _learning_from_leading_rows(
    apply: Callable[[PyTree, PyTree, Array, bool], tuple[Array, PyTree]],
) -> Callable[[PyTree, PyTree, Array, bool | int], tuple[Array, PyTree]]:
    """Return ``apply`` for any ``train`` of :class:`~fpovi.types.Network`.

    A module computes its own statistics of all rows that it sees. So it sees the rows that are learned from first, and
    then the others as in a prediction, with the state that those have left, which is held fixed.
    """

    def split(theta: PyTree, state: PyTree, x: Array, train: bool | int) -> tuple[Array, PyTree]:
        rows = leading_rows(train, x.shape[0])
        if rows in (0, x.shape[0]) or not jax.tree.leaves(state):
            return apply(theta, state, x, bool(rows))
        learned, state = apply(theta, state, x[:rows], True)
        others, _ = apply(theta, jax.lax.stop_gradient(state), x[rows:], False)
        return jnp.concatenate([learned, others]), state

    return split


def _gaussian_weights(
    init: Callable[[Key], tuple[PyTree, PyTree]], prior_std: float | ShapeStd | None, fan_axis: int
) -> tuple[Callable[[Key], PyTree], Callable[[PyTree], Array]]:
    """Return sample_prior and log_prior of independent Gaussians; ``fan_axis`` is the axis of weights that fans out."""

    def std(shape: tuple[int, ...]) -> float:
        if callable(prior_std):
            return prior_std(shape)
        if prior_std is not None:
            return float(prior_std)
        return (shape[fan_axis] / math.prod(shape)) ** 0.5 if len(shape) > 1 else 1.0

    def sample_prior(key: Key) -> PyTree:
        leaves, treedef = jax.tree.flatten(jax.eval_shape(init, key)[0])
        keys = jax.random.split(key, len(leaves))
        draws = [std(leaf.shape) * normals(k, leaf.shape, leaf.dtype) for k, leaf in zip(keys, leaves, strict=True)]
        return jax.tree.unflatten(treedef, draws)

    def log_prior(theta: PyTree) -> Array:
        densities = (jax.scipy.stats.norm.logpdf(leaf, scale=std(leaf.shape)) for leaf in jax.tree.leaves(theta))
        return sum((jnp.sum(density) for density in densities), start=jnp.zeros(()))

    return sample_prior, log_prior
