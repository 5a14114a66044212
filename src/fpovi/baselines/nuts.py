# SPDX-License-Identifier: Apache-2.0
"""The no-U-turn sampler on the weights, several chains, by blackjax: the reference posterior."""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import blackjax
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from fpovi.baselines.optimisation import log_posterior
from fpovi.likelihoods import Floored
from fpovi.types import Batch, Key, Likelihood, Network, PyTree


class NutsDraws(NamedTuple):
    """Draws of the weights and of the likelihood's parameters; every leaf leads with ``(chains, draws)``."""

    theta: PyTree
    params: PyTree
    divergent: Shaped[Array, "chains draws"]
    acceptance: Float[Array, "chains draws"]


def nuts(
    key: Key,
    network: Network,
    likelihood: Likelihood,
    data: Batch,
    *,
    chains: int = 4,
    warmup: int = 300,
    draws: int = 500,
    target_acceptance: float = 0.65,
) -> NutsDraws:
    """Sample p(θ, noise | data) with NUTS, chains started at draws from the prior.

    Step size and a diagonal mass matrix are adapted during ``warmup``. A trajectory is hundreds of leapfrog steps, so
    ``target_acceptance`` is low, as theory advises for many dimensions: half the steps at the same mixing. A learned
    noise scale is sampled as ``rho`` with σ = softplus(rho), the change of variables included. Networks with
    ``unit_weights`` mix best. Check R̂ of what you care about (:func:`blackjax.rhat`): the functions rather than the
    weights, which are not identified.

    Args:
        key: a typed key; the same key gives the same result.
        network: the prior and the shape of the weights.
        likelihood: how targets follow from outputs.
        data: all rows, from :func:`fpovi.make_batch`.
        chains: how many chains, each in a thread of its own.
        warmup: steps of each chain that adapt the sampler and are not kept.
        draws: steps of each chain that are kept.
        target_acceptance: mean acceptance probability to adapt to, between 0 and 1.

    Returns:
        All draws, and which steps diverged.
    """
    if min(chains, warmup, draws) < 1:
        raise ValueError(f"chains={chains}, warmup={warmup} and draws={draws} must all be at least 1")

    begin = likelihood.init()
    # a floor is a constant of the model: as a coordinate without a gradient it would drift away
    moving, whole = (begin.rho, begin._replace) if isinstance(begin, Floored) else (begin, None)

    def density(position: tuple[PyTree, PyTree]) -> Array:
        theta, params = position
        together = (theta, whole(rho=params) if whole else params)
        return log_posterior(network, likelihood, together, data, network.init(key)[1])[0]

    def chain(key: Key) -> NutsDraws:
        key_start, key_warmup, key_draws = jax.random.split(key, 3)
        start = (network.sample_prior(key_start), moving)
        adapt = blackjax.window_adaptation(blackjax.nuts, density, target_acceptance_rate=target_acceptance)
        (state, settings), _ = adapt.run(key_warmup, start, num_steps=warmup)
        kernel = blackjax.nuts(density, **settings)

        def one(state, key):  # type: ignore[no-untyped-def]
            state, info = kernel.step(key, state)
            return state, (state.position, info.is_divergent, info.acceptance_rate)

        _, (position, divergent, acceptance) = jax.lax.scan(one, state, jax.random.split(key_draws, draws))
        theta, params = position
        return NutsDraws(theta, params, divergent, acceptance)

    # chains side by side in threads: batched into one program they would all wait for the longest trajectory
    compiled = jax.jit(chain).lower(key).compile()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        finished = list(pool.map(lambda key: jax.block_until_ready(compiled(key)), jax.random.split(key, chains)))
    found: NutsDraws = jax.tree.map(lambda *leaves: jnp.stack(leaves), *finished)
    return found._replace(params=Floored(found.params, jnp.full_like(found.params, begin.floor))) if whole else found
