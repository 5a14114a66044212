# SPDX-License-Identifier: Apache-2.0
"""The library's own steps, and the plain ensemble that they are compared with."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array

from fpovi._lookup import is_made_of, lookup, make_part
from fpovi.bench.settings import Setting, make_workload
from fpovi.bench.timing import Run, UnavailableError, compile_run
from fpovi.flows import FLOWS
from fpovi.inference import function_space, weight_space
from fpovi.inference.loop import run
from fpovi.inference.particles import forward, init_particles, over_particles
from fpovi.inference.score import weighted_log_likelihood
from fpovi.measurement import halo, train_only
from fpovi.priors import PRIORS
from fpovi.types import Algorithm, Batch, FunctionPrior, Likelihood, Network, PyTree

LEARNING_RATE = 1e-3
PRIOR_DRAWS = 40  # fresh networks a step, the default of moment_matched, for peers that do the same
LOOP_CHUNK = 500  # steps between two checks by the loop


def optimiser() -> optax.GradientTransformation:
    """Return Adam, as every contestant uses it."""
    return optax.adam(LEARNING_RATE)


def function_algorithm(
    flow: str, prior: str, setting: Setting, make: Callable[..., Algorithm] = function_space
) -> Algorithm:
    """Return function space with the extra points of the setting around the data.

    Args:
        flow: a name in ``FLOWS``.
        prior: a name in ``PRIORS``.
        setting: the shapes.
        make: what makes the algorithm of its parts; one that puts it on many devices, for example.
    """
    parts = make_workload(setting)
    return make(
        parts.network,
        parts.likelihood,
        prior_of(prior, parts.network, parts.likelihood, setting.draws),
        flow=lookup(FLOWS, flow, "flow"),
        measurement=halo(setting.extra) if setting.extra else train_only(),
        optimiser=optimiser(),
        noise_optimiser=optimiser(),
        prior_size=setting.prior_points,
    )


def prior_of(name: str, network: Network, likelihood: Likelihood, draws: int | None = None) -> FunctionPrior:
    """Return the prior called ``name`` for a network and a likelihood, and otherwise with its own defaults.

    Args:
        name: a key of ``PRIORS``.
        network, likelihood: the model.
        draws: how many prior networks a step takes, for priors made of them.

    Raises:
        UnavailableError: if it is for other networks.
    """
    offered = {} if draws is None else {"draws": draws}
    try:
        return make_part(
            PRIORS, name, "prior", network=network, likelihood=likelihood, covariance=_squared_exponential, **offered
        )
    except ValueError as error:
        if network.architecture is None:
            raise UnavailableError(str(error)) from error
        raise


def can_make(name: str) -> bool:
    """Tell whether the bench can give a prior all that it needs."""
    return is_made_of(PRIORS[name], "network", "likelihood", "covariance")


def _squared_exponential(a: Array, b: Array) -> Array:
    a, b = a.reshape(a.shape[0], -1), b.reshape(b.shape[0], -1)
    squared = jnp.sum(a**2, axis=1)[:, None] + jnp.sum(b**2, axis=1)[None, :] - 2 * a @ b.T
    return jnp.exp(-squared / (2 * a.shape[1]))


def function_step(flow: str, prior: str, setting: Setting) -> Run:
    """Return a run of function space. Every step draws its measurement points anew, as in a fit."""
    return _run_of(function_algorithm(flow, prior, setting), make_workload(setting).labelled, setting.n)


def weight_step(flow: str, setting: Setting) -> Run:
    """Return a run of weight space with targets at all points, so that the passes through the networks are the same."""
    parts = make_workload(setting)
    algorithm = weight_space(parts.network, parts.likelihood, flow=lookup(FLOWS, flow, "flow"), optimiser=optimiser())
    return _run_of(algorithm, parts.all_rows, setting.n)


def run_loop(setting: Setting) -> Run:
    """Return f-SVGD in the loop that users run, with its history and its checks between chunks."""
    algorithm, rows = function_algorithm("svgd", "nngp", setting), make_workload(setting).labelled
    state = algorithm.init(jax.random.key(0), setting.n)

    def many(steps: int) -> None:
        run(jax.random.key(1), algorithm, state, rows, steps, chunk_size=LOOP_CHUNK)

    return many


def vectorised_fits(count: int, setting: Setting) -> Run:
    """Return f-SVGD of ``count`` independent fits as one vectorised program, a step of each at a time."""
    algorithm, rows = function_algorithm("svgd", "nngp", setting), make_workload(setting).labelled
    keys = jax.random.split(jax.random.key(1), count)
    states = jax.vmap(lambda key: algorithm.init(key, setting.n))(keys)

    def step(i: Array, states: PyTree, rows: Batch) -> tuple[PyTree, PyTree]:
        return jax.vmap(lambda key, state: algorithm.step(jax.random.fold_in(key, i), state, rows))(keys, states)

    passes = _run_reading_info(step, states, rows)
    return lambda steps: passes(-(-steps // count))


def _run_of(algorithm: Algorithm, rows: Batch, n: int) -> Run:
    key = jax.random.key(1)
    step = lambda i, state, rows: algorithm.step(jax.random.fold_in(key, i), state, rows)  # noqa: E731
    return _run_reading_info(step, algorithm.init(jax.random.key(0), n), rows)


def _run_reading_info(step: Callable[[Array, PyTree, Batch], tuple[PyTree, PyTree]], state: PyTree, rows: Batch) -> Run:
    """Sum the Info of all steps: a fit reads it, and the compiler would leave out what nobody reads."""
    _, info = jax.eval_shape(step, jnp.asarray(0), state, rows)
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), info)

    def both(i: Array, carry: tuple[PyTree, PyTree], rows: Batch) -> tuple[PyTree, PyTree]:
        state, seen = carry
        state, info = step(i, state, rows)
        return state, jax.tree.map(lambda a, b: a | b if b.dtype == bool else a + b, seen, info)

    return compile_run(both, (state, nothing), rows)


def plain_ensemble(setting: Setting) -> Run:
    """Return a run of n networks that each go to their own maximum a posteriori: gradient, Adam, and nothing else.

    This is what remains of a step without Bayesian inference, and leaner than ``weight_space(flow=ensemble)``, which
    also returns an Info. The pass is the library's own, so that a better one does not flatter our ratios.
    """
    parts = make_workload(setting)
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

    return compile_run(step, ((theta, params), adam.init((theta, params))), parts.all_rows)
