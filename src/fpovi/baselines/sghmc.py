# SPDX-License-Identifier: Apache-2.0
"""Stochastic gradient Hamiltonian Monte Carlo on the weights, by blackjax, in rescaled coordinates."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fpovi.baselines.optimisation import (
    Watch,
    as_state,
    check_counts,
    independent_info,
    log_posterior,
    map_ensemble,
    prior_deviations,
)
from fpovi.inference.batches import check_batch_size
from fpovi.inference.loop import run
from fpovi.inference.particles import ravel
from fpovi.inference.step import check_targets, finish, first_step
from fpovi.types import Algorithm, Batch, Info, Key, Likelihood, Network, PyTree, Scalar, State

MOST_ROWS = 1000  # from which the scale of coordinates is estimated
FRICTION = 1.0
ITERATIONS = 30


def sghmc(
    key: Key,
    network: Network,
    likelihood: Likelihood,
    data: Batch,
    *,
    n: int = 20,
    chains: int = 4,
    num_steps: int,
    batch_size: int | None = None,
    step_size: float = 0.3,
    leapfrogs: int = 10,
    watch: Watch | None = None,
) -> State:
    r"""Draw n times from p(θ, noise | data), with several chains (Chen et al. 2014).

    Every chain starts with ``num_steps // 2`` steps to a maximum of its own, as a member of
    :func:`~fpovi.baselines.map_ensemble` does. There the coordinates are scaled by the prior's variances v and the
    diagonal of the Fisher information, :math:`\theta = \theta_0 + (\lambda P)^{-1/2} z`,

    .. math::
        P = \mathrm{diag}\Big(v^{-1} + \sum_i \big(\partial_\theta \log p(\tilde y_i \mid f_\theta(x_i))\big)^2\Big),
        \qquad \tilde y_i \sim p(\cdot \mid f_\theta(x_i)),

    and by the largest eigenvalue λ of what the information is in these units, so that one ``step_size`` serves all
    networks and data sets. The other steps are SGHMC in z, a fresh momentum and ``leapfrogs`` moves each. Mini-batches
    add noise of variance up to N/B' − 1 to a gradient in these units; moves are shorter by the factor B'/N, so that
    they heat by at most ``step_size``/2 in the stiffest direction, and far less in others. A quarter of all steps are
    burn-in, and draws are spread evenly over the last quarter.

    A learned noise scale is sampled too, the change of variables included. There is no accept-reject step: the step
    size is small or the draws are too wide.

    Args:
        key: a typed key; the same key gives the same result.
        network: the prior and the shape of the weights.
        likelihood: how targets follow from outputs.
        data: all rows, from :func:`fpovi.make_batch`.
        n: how many draws, of all chains together.
        chains: how many chains; n must be a multiple of it.
        num_steps: steps of each chain, in all.
        batch_size: rows per step; all by default.
        step_size: length of a move with all data, in standard deviations of the stiffest direction.
        leapfrogs: moves per step.
        watch: called now and then with the state and the history, as in :func:`fpovi.run`.

    Returns:
        A state with n particles and params, for :func:`fpovi.predict`.
    """
    check_counts(num_steps=num_steps, n=n, chains=chains)
    if n % chains != 0:
        raise ValueError(f"n={n} must be a multiple of chains={chains}")
    sampling = num_steps // 4
    if sampling < n // chains:
        raise ValueError(f"num_steps={num_steps} must be at least {4 * (n // chains)}: n/chains draws from a quarter")
    rows = check_batch_size(data.x.shape[0] if batch_size is None else batch_size, data.x.shape[0])
    algorithm = sghmc_algorithm(network, likelihood, step_size * rows / data.x.shape[0], leapfrogs)
    key_start, key_scale, key_burn, key_draws = jax.random.split(key, 4)
    options: dict[str, Any] = {"batch_size": batch_size, "watch": watch}
    warm = map_ensemble(key_start, network, likelihood, data, num_steps=num_steps // 2, n=chains, **options)
    state = _chain_starter(network, likelihood)(key_scale, data=data, warm=warm)
    thin = sampling // (n // chains)
    state = run(key_burn, algorithm, state, data, num_steps // 4, chunk_size=thin, **options).state
    kept: list[tuple[PyTree, PyTree]] = []

    def keep(state: State, history: Info) -> bool | None:
        kept.append((state.particles, state.params))
        return None if watch is None else watch(state, history)

    run(key_draws, algorithm, state, data, thin * (n // chains), batch_size=batch_size, chunk_size=thin, watch=keep)
    return as_state(*jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *kept))


@lru_cache(maxsize=64)
def sghmc_algorithm(network: Network, likelihood: Likelihood, step_size: float, leapfrogs: int) -> Algorithm:
    """Return SGHMC as an algorithm; the ``optimiser`` of its state holds the scale of every coordinate."""
    if not (step_size > 0 and np.isfinite(step_size)) or leapfrogs < 1:
        raise ValueError(f"step_size={step_size} must be positive and finite, and leapfrogs={leapfrogs} at least 1")

    def step(key: Key, state: State, batch: Batch) -> tuple[State, Info]:
        together = (state.particles, state.params)
        n = jax.tree.leaves(together)[0].shape[0]

        def one(key: Key, position: PyTree, scale: PyTree) -> PyTree:
            move = lambda z: jax.tree.map(lambda p, s, z: p + s * z, position, scale, z)  # noqa: E731
            slope = jax.grad(lambda z, batch: log_posterior(network, likelihood, move(z), batch)[0])
            kernel = blackjax.sghmc(slope, leapfrogs, FRICTION)
            return move(kernel.step(key, jax.tree.map(jnp.zeros_like, position), batch, step_size))

        particles, params = jax.vmap(one)(jax.random.split(key, n), together, state.optimiser)
        seen = jax.vmap(lambda position: log_posterior(network, likelihood, position, batch)[1])(together)
        log_lik = jnp.mean(seen)
        after, finite = finish(state._replace(particles=particles, params=params), log_lik)
        return after, independent_info(likelihood, state.params, n, log_lik, finite)

    def init(key: Key, n: int) -> State:
        raise ValueError("SGHMC starts at fitted particles: make its state with start_chains")

    return Algorithm(init, step, partial(check_targets, network, likelihood))


@lru_cache(maxsize=64)
def _chain_starter(network: Network, likelihood: Likelihood) -> Callable[..., State]:
    return jax.jit(partial(start_chains, network=network, likelihood=likelihood))


def start_chains(key: Key, network: Network, likelihood: Likelihood, data: Batch, warm: State) -> State:
    """Return chains at the particles of ``warm``, with scales (λP)^(−1/2), 0 where a coordinate has no precision."""
    count = data.x.shape[0]
    key_rows, key_targets = jax.random.split(key)
    chosen = jax.random.permutation(key_rows, count)[:MOST_ROWS]
    rows = (jax.random.split(key_targets, len(chosen)), data.x[chosen], data.weight[chosen])
    prior_std = prior_deviations(network)
    prior_precision = (
        jax.tree.map(lambda std: std**-2, prior_std), jax.tree.map(jnp.zeros_like, likelihood.init()),
    )  # fmt: skip

    def of_row(position: PyTree, key: Key, x: Array, weight: Array) -> Scalar:
        theta, params = position
        outputs, _ = network.apply(theta, (), x[None], False)
        f = likelihood.canonical(outputs)
        y = likelihood.sample(key, *jax.lax.stop_gradient((params, f)))
        return jnp.sum(likelihood.log_prob(params, f, y) * jnp.sqrt(weight))

    def scale(position: PyTree) -> PyTree:
        slopes = jax.vmap(jax.grad(of_row), in_axes=(None, 0, 0, 0))(position, *rows)
        slopes = jax.tree.map(lambda slope: slope * (count / len(chosen)) ** 0.5, slopes)
        precision = jax.tree.map(lambda slope, prior: jnp.sum(slope**2, axis=0) + prior, slopes, prior_precision)
        unit = jax.tree.map(lambda p: jnp.where(p > 0, jnp.where(p > 0, p, 1) ** -0.5, 0), precision)
        matrix, _ = ravel(jax.tree.map(jnp.multiply, slopes, unit))
        stiffest = _largest_eigenvalue(lambda v: matrix.T @ (matrix @ v), matrix.shape[1], matrix.dtype)
        return jax.tree.map(lambda unit: unit / jnp.sqrt(jnp.maximum(stiffest, 1)), unit)

    scales = jax.lax.map(scale, (warm.particles, warm.params))
    return State(first_step(), warm.particles, warm.params, (), (), scales, ())


def _largest_eigenvalue(times: Callable[[Array], Array], size: int, dtype: jnp.dtype) -> Scalar:
    """Estimate, from below, the largest eigenvalue of a positive semi-definite matrix by power iteration."""

    def improve(_: Array, v: Array) -> Array:
        product = times(v)
        return product / jnp.maximum(jnp.linalg.norm(product), jnp.finfo(dtype).tiny)

    start = jax.random.normal(jax.random.key(0), (size,), dtype)
    return jnp.linalg.norm(times(jax.lax.fori_loop(0, ITERATIONS, improve, start)))
