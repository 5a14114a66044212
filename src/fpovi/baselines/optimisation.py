# SPDX-License-Identifier: Apache-2.0
"""Fit members that each maximise an objective of their own: MAP ensembles, and what variational fits share."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Required, TypedDict, Unpack

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array

from fpovi._fast.convolution import over_networks
from fpovi.flows import ensemble
from fpovi.inference import augmented, weight_space
from fpovi.inference.loop import run
from fpovi.inference.particles import over_particles
from fpovi.inference.score import log_density, weighted_log_likelihood
from fpovi.inference.step import ascend, check_targets, finish, first_step
from fpovi.types import Algorithm, Batch, Info, Key, Likelihood, Network, PyTree, Scalar, State, Transform

Watch = Callable[[State, Info], bool | None]
LEARNING_RATE = 4e-3
CHUNKS = 20  # of a run; ``watch`` is called after each


def as_state(particles: PyTree, params: PyTree) -> State:
    """Return finished particles as a state for :func:`fpovi.predict`, without what a next step would need."""
    return State(first_step(), particles, params, (), (), (), ())


@lru_cache
def decaying_adam(num_steps: int, learning_rate: float = LEARNING_RATE) -> optax.GradientTransformation:
    """Return Adam whose rate falls to 0 along half a cosine; the same object for the same numbers."""
    return optax.adam(optax.cosine_decay_schedule(learning_rate, num_steps))


def maximise(
    network: Network,
    likelihood: Likelihood,
    start: Callable[[Key], PyTree],
    objective: Callable[[Key, PyTree, PyTree, Batch], tuple[Scalar, Scalar]],
    example: Callable[[PyTree], PyTree],
    optimiser: optax.GradientTransformation,
) -> Algorithm:
    """Return an algorithm whose n members each maximise ``objective``, together with their likelihood's ``params``.

    Args:
        network, likelihood: the model.
        start: ``start(key)`` returns a member.
        objective: ``objective(key, member, params, batch)`` returns its value and the log-likelihood per datum.
        example: ``example(member)`` returns weights of ``network``, by which targets are checked.
        optimiser: any optax transformation.
    """

    def init(key: Key, n: int) -> State:
        members = jax.vmap(start)(jax.random.split(key, n))
        params = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (n, *jnp.shape(leaf))), likelihood.init())
        return State(first_step(), members, params, (), (), optimiser.init((members, params)), ())

    def step(key: Key, state: State, batch: Batch) -> tuple[State, Info]:
        n = jax.tree.leaves(state.particles)[0].shape[0]

        def total(together: tuple[PyTree, PyTree]) -> tuple[Array, Array]:
            one = lambda key, member, params: objective(key, member, params, batch)  # noqa: E731
            values, log_lik = over_networks(one, jax.random.split(key, n), *together)
            return jnp.sum(values), jnp.mean(log_lik)

        together = (state.particles, state.params)
        (_, log_lik), ascent = jax.value_and_grad(total, has_aux=True)(together)
        (members, params), optimiser_state = ascend(optimiser, ascent, state.optimiser, together)
        after, finite = finish(State(state.step, members, params, (), (), optimiser_state, ()), log_lik)
        return after, independent_info(likelihood, state.params, n, log_lik, finite)

    def check(state: State, data: Batch) -> None:
        weights = jax.eval_shape(jax.vmap(example), state.particles)
        check_targets(network, likelihood, state._replace(particles=weights), data)

    return Algorithm(init, step, check)


def independent_info(likelihood: Likelihood, params: PyTree, n: int, log_lik: Scalar, finite: Array) -> Info:
    """Return the Info of a step in which n members with ``params`` do not interact."""
    none = jnp.zeros_like(log_lik)
    noise = jnp.mean(over_particles(likelihood.noise, params, n))
    return Info(log_lik, none, none, none, none, none, none, noise, finite)


def log_joint(
    network: Network, likelihood: Likelihood, outputs: Array, theta: PyTree, params: PyTree, batch: Batch
) -> tuple[Scalar, Scalar]:
    """Return log-likelihood for all data plus log-priors of one member, and the log-likelihood per datum."""
    total, mean = log_likelihood(likelihood, outputs, params, batch)
    return total + network.log_prior(theta) + likelihood.log_prior(params), mean


def log_likelihood(likelihood: Likelihood, outputs: Array, params: PyTree, batch: Batch) -> tuple[Scalar, Scalar]:
    """Return the log-likelihood of one member's ``outputs`` for all data, and per datum."""
    params_of_one, f_of_one = jax.tree.map(lambda leaf: leaf[None], (params, likelihood.canonical(outputs)))
    return weighted_log_likelihood(likelihood, params_of_one, f_of_one, batch)


def prior_deviations(network: Network) -> PyTree:
    """Return the standard deviations of a Gaussian prior, like θ: its log-density has the gradient −1/σ² at 1."""
    theta = jax.eval_shape(lambda: network.init(jax.random.key(0))[0])
    ones = jax.tree.map(lambda leaf: jnp.ones(leaf.shape, leaf.dtype), theta)
    return jax.tree.map(lambda slope: (-1 / slope) ** 0.5, jax.grad(network.log_prior)(ones))


def log_posterior(
    network: Network, likelihood: Likelihood, position: tuple[PyTree, PyTree], batch: Batch, network_state: PyTree = ()
) -> tuple[Scalar, Scalar]:
    """Return the log-posterior of θ and the likelihood's params up to a constant, and the log-likelihood per datum."""
    theta, params = position
    outputs, _ = network.apply(theta, network_state, batch.x, False)
    total, mean = log_likelihood(likelihood, outputs, params, batch)
    return total + network.log_prior(theta) + log_density(likelihood, params), mean


class FitOptions(TypedDict, total=False):
    """The steps of a fit, rows of a step, optimiser, ``transform`` and ``watch``: options that baselines share."""

    num_steps: Required[int]
    batch_size: int | None
    optimiser: optax.GradientTransformation | None
    transform: Transform | None
    watch: Watch | None


def fit(
    key: Key,
    make: Callable[[optax.GradientTransformation], Algorithm],
    n: int,
    data: Batch,
    *,
    num_steps: int,
    batch_size: int | None = None,
    optimiser: optax.GradientTransformation | None = None,
    transform: Transform | None = None,
    watch: Watch | None = None,
    learning_rate: float = LEARNING_RATE,
) -> State:
    """Return the state of n members after ``num_steps`` of ``make(optimiser)``, by default Adam with a falling rate."""
    check_counts(num_steps=num_steps, n=n)
    algorithm = make(decaying_adam(num_steps, learning_rate) if optimiser is None else optimiser)
    algorithm = algorithm if transform is None else augmented(algorithm, transform)
    key_start, key_run = jax.random.split(key)
    state = _start(algorithm, n, key_start)
    chunk = max(num_steps // CHUNKS, 1)
    return run(key_run, algorithm, state, data, num_steps, batch_size=batch_size, chunk_size=chunk, watch=watch).state


def check_counts(**counts: int) -> None:
    """Raise a ``ValueError`` unless each count, such as that of steps, is at least 1."""
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name}={count} must be at least 1")


@partial(jax.jit, static_argnums=(0, 1))
def _start(algorithm: Algorithm, n: int, key: Key) -> State:
    return algorithm.init(key, n)


def draws_of(state: State, draw: Callable[[PyTree], PyTree], n: int) -> State:
    """Return ``draw(member)``, n particles drawn from the only member of ``state``, with its params for all of them."""
    member, params = jax.tree.map(lambda leaf: leaf[0], (state.particles, state.params))
    return as_state(draw(member), jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (n, *leaf.shape)), params))


def map_ensemble(
    key: Key, network: Network, likelihood: Likelihood, data: Batch, *, n: int = 20, **options: Unpack[FitOptions]
) -> State:
    r"""Fit n networks to their maximum a posteriori, from different starts (Lakshminarayanan et al. 2017).

    .. math:: \theta^i \to \arg\max_\theta\; \log p(y \mid f_\theta) + \log p(\theta)

    This is :func:`fpovi.weight_space` with ``flow=ensemble``.

    Args:
        key: a typed key; the same key gives the same result.
        network: the prior and the shape of the weights.
        likelihood: how targets follow from outputs.
        data: all rows, from :func:`fpovi.make_batch`.
        n: how many members.
        num_steps: how many steps to take.
        batch_size: rows per step; all by default.
        optimiser: any optax transformation; Adam whose rate falls from 4e-3 to 0 by default.
        transform: a random change of the labelled inputs of a step, as in :func:`fpovi.inference.augmented`.
        watch: called now and then with the state and the history, as in :func:`fpovi.run`.

    Returns:
        A state with n particles and params, for :func:`fpovi.predict`.
    """
    return fit(key, partial(_ensemble, network, likelihood), n, data, **options)


@lru_cache(maxsize=64)
def _ensemble(network: Network, likelihood: Likelihood, optimiser: optax.GradientTransformation) -> Algorithm:
    return weight_space(network, likelihood, flow=ensemble, optimiser=optimiser)
