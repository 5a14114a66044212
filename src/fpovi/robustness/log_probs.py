# SPDX-License-Identifier: Apache-2.0
"""What an attack goes through: the log-probabilities of all particles as a function of raw inputs.

Any function ``log_probs(x) -> (n, B, k)`` that JAX can differentiate will do. Those made here are pytrees, whose
weights are arguments of a compiled program, where a closure would have them copied into it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from fpovi.fitting.parts import Spec
from fpovi.fitting.phases import outputs_of
from fpovi.fitting.record import Fitted
from fpovi.inference.particles import forward
from fpovi.predictive.quantile import over_particles
from fpovi.robustness.inputs import Columns, Pixels, differentiable
from fpovi.types import Key, Likelihood, Network, PyTree, Scales, Support

BLOCK = 256  # rows at a time

LogProbFunction = Callable[[Float[Array, "B *d_x"]], Float[Array, "n B k"]]


@partial(jax.tree_util.register_dataclass, data_fields=("particles", "network_state"), meta_fields=("network",))
@dataclass(frozen=True)
class LogProbs:
    """The log-probabilities of classes by n networks: ``log_probs(x)`` is ``(n, B, k)``.

    Args:
        network: its k outputs are logits.
        particles: weights of n such networks, as the flows and baselines return them.
        network_state: what these carry, such as BatchNorm statistics; nothing for most.

    >>> import jax
    >>> from fpovi.inference.particles import init_particles
    >>> from fpovi.networks import fan_in_scales, mlp
    >>> network = mlp((2, 8, 3), scales=fan_in_scales((2, 8, 3)))
    >>> LogProbs(network, *init_particles(jax.random.key(0), network, 5))(jnp.zeros((4, 2))).shape
    (5, 4, 3)
    """

    network: Network
    particles: PyTree
    network_state: PyTree = ()

    def __call__(self, x: Float[Array, "B *d_x"]) -> Float[Array, "n B k"]:
        outputs, _ = forward(self.network, self.particles, self.network_state, x)
        return jax.nn.log_softmax(outputs)


class Redrawn(eqx.Module):
    """Networks that are drawn anew for every gradient, such as the thinnings of MC dropout.

    An attack through one fixed draw would be an attack on another model than the one that answers. What is drawn is the
    mean of as many networks as ``draw`` returns: 20 or more are needed for a gradient that says something.

    Args:
        draw: ``draw(key)`` returns ``log_probs``. As ``jax.tree_util.Partial(draw, weights)`` it keeps the weights
            arguments of compiled programs.

    >>> Redrawn(lambda key: lambda x: jax.nn.log_softmax(x + jax.random.normal(key, (20, 1, 1)))).draw(
    ...     jax.random.key(0)
    ... )(jnp.zeros((4, 3))).shape
    (20, 4, 3)
    """

    draw: Callable[[Key], LogProbFunction]


class FittedLogProbs(eqx.Module):
    """The log-probabilities of a fitted classifier at inputs in the user's own units; made by :func:`attackable`."""

    spec: Spec = eqx.field(static=True)
    classes: int = eqx.field(static=True)
    inputs: Columns | Pixels
    scales: Scales
    particles: PyTree
    params: PyTree
    network_state: PyTree

    def __call__(self, x: Float[Array, "B *d_x"]) -> Float[Array, "n B k"]:
        f = outputs_of(self.spec, self.scales, self.particles, self.network_state, self.inputs(x))
        return over_particles(_every_class(self.spec.likelihood, self.classes), self.params, f)


def _every_class(likelihood: Likelihood, classes: int) -> Callable[[PyTree, Array], Array]:
    """Return the map from f ``(B, _)`` of one particle to log p(y | f) of every class, ``(B, k)``."""

    def log_probs(params: PyTree, f: Float[Array, "B _"]) -> Float[Array, "B k"]:
        every = jnp.arange(classes, dtype=jnp.int32)
        of_one = lambda label: likelihood.log_prob(params, f, jnp.full((f.shape[0], 1), label))[:, 0]  # noqa: E731
        return jax.vmap(of_one, out_axes=1)(every)

    return log_probs


Model = LogProbFunction | Redrawn


def attackable(model: Any) -> Model:
    """Return what an attack on ``model`` goes through.

    Args:
        model: a fitted :class:`~fpovi.BNNClassifier`, or what is attackable already: a function ``log_probs(x)`` that
            returns the log-probabilities ``(n, B, k)`` of n particles, or a :class:`Redrawn`.

    Returns:
        For a classifier, a function of rows in the units that ``fit`` saw, in float32.

    Raises:
        ValueError: for anything else, and for a classifier of a table whose columns are not all numbers.
    """
    fitted = fitted_of(model)
    if fitted is None:
        if isinstance(model, Redrawn) or callable(model):
            return model
        raise ValueError(
            f"model is a {type(model).__name__}, but a fitted BNNClassifier is needed, or a function log_probs(x) that "
            "returns log-probabilities of shape (particles, rows, classes)"
        )
    if fitted.spec.likelihood.support is not Support.CLASSES:
        raise ValueError(f"model is a {type(model).__name__}, but attacks are on classifiers: BNNClassifier")
    state = jax.tree.map(jnp.asarray, fitted.state._replace(prior=(), optimiser=(), noise_optimiser=()))
    return FittedLogProbs(
        fitted.spec, fitted.target.outputs(fitted.spec.likelihood), differentiable(fitted.encoder),
        jax.tree.map(jnp.asarray, fitted.scales), state.particles, state.params, state.network_state,
    )  # fmt: skip


def fitted_of(model: Any) -> Fitted | None:
    """Return the record of a fitted estimator, and None for anything else."""
    found = getattr(model, "fitted_", None)
    return found if isinstance(found, Fitted) else None


def drawn(model: Model, key: Key) -> LogProbFunction:
    """Return the networks that a gradient goes through: those of ``model``, or such as are drawn for it."""
    return model.draw(key) if isinstance(model, Redrawn) else model


def in_blocks(rows: int, block: int) -> Iterator[tuple[int, Int[np.ndarray, " B"], int]]:
    """Yield the number of a block, which rows are in it, and how many of them count.

    All blocks are of one size, so that they share a compiled program: the last repeats the last row.

    >>> [(number, which.tolist(), count) for number, which, count in in_blocks(5, 3)]
    [(0, [0, 1, 2], 3), (1, [3, 4, 4], 2)]
    """
    size = min(rows, block)
    for number, first in enumerate(range(0, rows, size)):
        yield number, np.minimum(np.arange(first, first + size), rows - 1), min(size, rows - first)


def values(model: Model, x: Float[np.ndarray, "N *d_x"], key: Key, block: int) -> Float[np.ndarray, "n N k"]:
    """Return log-probabilities at any number of rows, a block at a time."""
    parts = [
        np.asarray(_values(model, jax.random.fold_in(key, number), jnp.asarray(x[which])))[:, :count]
        for number, which, count in in_blocks(len(x), block)
    ]
    return np.concatenate(parts, axis=1)


def classes_of(model: Model, x: Float[np.ndarray, "N *d_x"], key: Key) -> int:
    """Return how many classes a model knows, without computing anything.

    Raises:
        ValueError: if it returns anything but log-probabilities ``(n, N, k)``.
    """
    found = eqx.filter_eval_shape(lambda model, key, x: drawn(model, key)(x), model, key, jnp.asarray(x[:1]))
    shape = getattr(found, "shape", None)
    if shape is None or len(shape) != 3 or shape[1] != 1 or shape[2] < 2:
        raise ValueError(
            f"model returns {'no array' if shape is None else f'shape {shape}'} for one row, but log-probabilities of "
            "shape (particles, rows, classes) are needed"
        )
    return shape[2]


@eqx.filter_jit
def _values(model: Model, key: Key, x: Float[Array, "B *d_x"]) -> Float[Array, "n B k"]:
    return drawn(model, key)(x)
