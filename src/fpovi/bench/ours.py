# SPDX-License-Identifier: Apache-2.0
"""The library's own steps, and the plain ensemble that they are compared with."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array

from fpovi.bench.repeated import Run, repeated
from fpovi.bench.settings import Problem, Setting, problem
from fpovi.flows import FLOWS
from fpovi.inference import function_space, weight_space
from fpovi.inference.loop import run
from fpovi.inference.particles import forward, init_particles, over_particles
from fpovi.inference.score import weighted_log_likelihood
from fpovi.measurement import halo, train_only
from fpovi.priors import PRIORS
from fpovi.types import Algorithm, Batch, FunctionPrior, PyTree, lookup, make_part

LEARNING_RATE = 1e-3
PRIOR_DRAWS = 40  # fresh networks a step, as in the paper's experiments
LOOP_CHUNK = 500  # steps between two looks from outside


def optimiser() -> optax.GradientTransformation:
    """Adam, for every contestant."""
    return optax.adam(LEARNING_RATE)


def function_algorithm(
    flow: str, prior: str, setting: Setting, make: Callable[..., Algorithm] = function_space
) -> Algorithm:
    """Function space with the extra points of the setting around the data; ``make`` may put it on many devices."""
    parts = problem(setting)
    return make(
        parts.network,
        parts.likelihood,
        _prior(prior, parts),
        flow=lookup(FLOWS, flow, "flow"),
        measurement=halo(setting.extra) if setting.extra else train_only(),
        optimiser=optimiser(),
        noise_optimiser=optimiser(),
        prior_size=setting.prior_points,
    )


def function_step(flow: str, prior: str, setting: Setting) -> Run:
    """Every step draws its measurement points anew, as in a fit."""
    return _steps_of(function_algorithm(flow, prior, setting), problem(setting).labelled, setting.n)


def weight_step(flow: str, setting: Setting) -> Run:
    """Weight space, with targets at all points of the setting: the same passes through the networks."""
    parts = problem(setting)
    algorithm = weight_space(parts.network, parts.likelihood, flow=lookup(FLOWS, flow, "flow"), optimiser=optimiser())
    return _steps_of(algorithm, parts.everywhere, setting.n)


def through_the_loop(setting: Setting) -> Run:
    """f-SVGD by the loop that users run, with its history and its look from outside at the end."""
    algorithm, rows = function_algorithm("svgd", "nngp", setting), problem(setting).labelled
    state = algorithm.init(jax.random.key(0), setting.n)

    def many(steps: int) -> None:
        run(jax.random.key(1), algorithm, state, rows, steps, chunk_size=LOOP_CHUNK)

    return many


def fits_together(count: int, setting: Setting) -> Run:
    """f-SVGD of ``count`` independent fits as one vectorised program, which takes a step of each at a time."""
    algorithm, rows = function_algorithm("svgd", "nngp", setting), problem(setting).labelled
    keys = jax.random.split(jax.random.key(1), count)
    states = jax.vmap(lambda key: algorithm.init(key, setting.n))(keys)

    def step(i: Array, states: PyTree, rows: Batch) -> tuple[PyTree, PyTree]:
        return jax.vmap(lambda key, state: algorithm.step(jax.random.fold_in(key, i), state, rows))(keys, states)

    passes = _read(step, states, rows)
    return lambda steps: passes(-(-steps // count))


def _prior(name: str, parts: Problem) -> FunctionPrior:
    """Return a prior of :data:`~fpovi.priors.PRIORS` with its defaults."""
    offered = {"network": parts.network, "likelihood": parts.likelihood, "covariance": _squared_exponential}
    return make_part(PRIORS, name, "prior", **offered)


def _squared_exponential(a: Array, b: Array) -> Array:
    squared = jnp.sum(a**2, axis=1)[:, None] + jnp.sum(b**2, axis=1)[None, :] - 2 * a @ b.T
    return jnp.exp(-squared / (2 * a.shape[1]))


def _steps_of(algorithm: Algorithm, rows: Batch, n: int) -> Run:
    key = jax.random.key(1)
    step = lambda i, state, rows: algorithm.step(jax.random.fold_in(key, i), state, rows)  # noqa: E731
    return _read(step, algorithm.init(jax.random.key(0), n), rows)


def _read(step: Callable[[Array, PyTree, Batch], tuple[PyTree, PyTree]], state: PyTree, rows: Batch) -> Run:
    """The Info of every step is summed: a fit reads it, so it is part of the step, and unread it would be left out."""
    _, info = jax.eval_shape(step, jnp.asarray(0), state, rows)
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), info)

    def both(i: Array, carry: tuple[PyTree, PyTree], rows: Batch) -> tuple[PyTree, PyTree]:
        state, seen = carry
        state, info = step(i, state, rows)
        return state, jax.tree.map(lambda a, b: a | b if b.dtype == bool else a + b, seen, info)

    return repeated(both, (state, nothing), rows)


def plain_ensemble(setting: Setting) -> Run:
    """n networks trained side by side, each to its own maximum a posteriori: gradient, Adam, and nothing else.

    Leaner than ``weight_space(flow=ensemble)``, which also tells how it went: what remains of a step without any
    Bayesian inference. The pass is the library's own, so that a better one does not flatter our ratios.
    """
    parts = problem(setting)
    theta, model = init_particles(jax.random.key(0), parts.network, setting.n)
    params = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (setting.n, *leaf.shape)), parts.likelihood.init())
    adam = optimiser()

    def loss(together: tuple[PyTree, PyTree], rows: Batch) -> Array:
        theta, params = together
        outputs, _ = forward(parts.network, theta, model, rows.x, train=True)
        fit, _ = weighted_log_likelihood(parts.likelihood, params, parts.likelihood.canonical(outputs), rows)
        prior = jnp.sum(jax.vmap(parts.network.log_prior)(theta))
        return -fit - prior - jnp.sum(over_particles(parts.likelihood.log_prior, params, setting.n))

    def step(i: Array, carry: tuple[PyTree, PyTree], rows: Batch) -> tuple[Any, Any]:
        together, memory = carry
        updates, memory = adam.update(jax.grad(loss)(together, rows), memory, together)
        return optax.apply_updates(together, updates), memory

    return repeated(step, ((theta, params), adam.init((theta, params))), parts.everywhere)
