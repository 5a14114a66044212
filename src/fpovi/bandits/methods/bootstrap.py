# SPDX-License-Identifier: Apache-2.0
"""An ensemble whose members each know a random part of the rows (Osband et al. 2016)."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int

from fpovi.bandits.method import Lesson, Method
from fpovi.bandits.methods.options import NetworkOptions
from fpovi.bandits.methods.training import Build
from fpovi.baselines.optimisation import independent_info
from fpovi.inference.particles import forward
from fpovi.inference.step import ascend, begin, finish, first_step
from fpovi.types import Algorithm, Batch, Info, Key, Likelihood, Network, PyTree, State

SQUARED_ERROR = 2**-0.5  # the noise whose log-density is minus the squared error, and a constant
START = 0.3


def bootstrap(
    *, n_particles: int = 20, share: float = 0.95, decay: float = 0.5, most_norm: float = 5.0, **options: Any
) -> Method:
    r"""Return networks that each climb to the best fit of their own part of the rows; one at random decides.

    Every lesson begins with a high rate, which then falls: step t has the rate :math:`\eta / (1 + \gamma t)`. All
    members see the same rows in a step, each only those of its part. There is no prior, and noise is not learned.

    Args:
        n_particles: how many members.
        share: the probability of each row to be in a member's part.
        decay: γ; the ``learning_rate`` of RMSprop, .1 by default, is η.
        most_norm: gradients of a member that are longer are made as long.
        options: those of :class:`~fpovi.bandits.methods.options.NetworkOptions`; 100 steps in all lessons by default.
    """
    if not 0 < share <= 1:
        raise ValueError(f"share={share} must be above 0, at most 1")
    defaults = {"learning_rate": 0.1, "first_steps": 100, "steps": 100, "noise": SQUARED_ERROR}
    shared = NetworkOptions(**{**defaults, **options})
    optimiser = optax.chain(
        each_clipped(most_norm), optax.scale_by_rms(decay=0.9, eps=1e-10, initial_scale=1.0, eps_in_sqrt=True)
    )

    def algorithm(network: Network) -> Build:
        rate = lambda begin, step: shared.learning_rate / (1 + decay * (step - begin))  # noqa: E731
        return lambda begin: _algorithm(network, shared.likelihood, optimiser, n_particles, partial(rate, begin))

    def steps_before(lesson: Lesson) -> Any:
        return np.float32(sum(map(shared.schedule.steps, range(lesson.number))))

    return shared.method(algorithm, n_particles, numbers=steps_before, columns=partial(_parts, n_particles, share))


def _algorithm(
    network: Network, likelihood: Likelihood, optimiser: optax.GradientTransformation, n: int, rate: Any
) -> Algorithm:
    """Return the algorithm; of the targets' columns the first are rewards by arm, the last n say whose a row is."""

    def init(key: Key, n: int, particles: PyTree | None = None) -> State:
        drawn, params, network_state = begin(key, network, likelihood, n, particles)
        leaves, tree = jax.tree.flatten(drawn)
        keys = jax.random.split(key, len(leaves))
        drawn = [jax.random.uniform(one, leaf.shape, leaf.dtype, -START, START)
                 for one, leaf in zip(keys, leaves, strict=True)]  # fmt: skip
        particles = jax.tree.unflatten(tree, drawn)
        return State(first_step(), particles, params, network_state, (), optimiser.init(particles), ())

    def step(key: Key, state: State, batch: Batch) -> tuple[State, Info]:
        rewards, mine = batch.y[:, :-n], batch.y[:, -n:]

        def total(particles: PyTree) -> tuple[Array, Array]:
            outputs, _ = forward(network, particles, (), batch.x)
            log_prob = jax.vmap(lambda f: likelihood.log_prob((), likelihood.canonical(f), rewards))(outputs)
            each = jnp.sum(log_prob * batch.weight, axis=2) * mine.T
            log_lik = jnp.sum(each) / jnp.maximum(jnp.sum(batch.weight), 1e-9)
            return log_lik, log_lik / n

        (_, log_lik), ascent = jax.value_and_grad(total, has_aux=True)(state.particles)
        now = optax.chain(optimiser, optax.scale(-rate(state.step.astype(jnp.float32))))
        wrapped = (state.optimiser, optax.ScaleState())
        particles, (inner, _) = ascend(now, ascent, wrapped, state.particles)
        after, finite = finish(state._replace(particles=particles, optimiser=inner), log_lik)
        return after, independent_info(likelihood, state.params, n, log_lik, finite)

    return Algorithm(init, step)


def each_clipped(most: float) -> optax.GradientTransformation:
    """Return a transformation that shortens the gradient of every member to a norm of at most ``most``."""

    def update(updates: PyTree, state: Any, params: PyTree | None = None) -> tuple[PyTree, Any]:
        def one(tree: PyTree) -> PyTree:
            norm = optax.tree.norm(tree)
            return jax.tree.map(lambda leaf: leaf * jnp.minimum(1.0, most / jnp.maximum(norm, 1e-12)), tree)

        return jax.vmap(one)(updates), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def _parts(n: int, share: float, lesson: Lesson, index: Int[np.ndarray, " B"]) -> Float[np.ndarray, "B n"]:
    """Return whose rows these are: 1 or 0 by row and member."""
    first = lesson.memory.seen - len(lesson.memory)
    return in_part(first + index, n, share).astype(np.float32)


def in_part(row: Int[np.ndarray, " B"], n: int, share: float) -> Bool[np.ndarray, "B n"]:
    """Tell which of n members have a row: a random function of the number of the row, the same at any time.

    >>> bool(np.array_equal(in_part(np.array([3, 8]), 4, 0.5)[1:], in_part(np.array([8]), 4, 0.5)))
    True
    """
    mixed: Any = row.astype(np.uint64)[:, None] * np.uint64(n) + np.arange(1, n + 1, dtype=np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return (mixed ^ (mixed >> np.uint64(31))) >> np.uint64(11) < np.uint64(int(share * 2**53))
