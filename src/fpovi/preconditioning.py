# SPDX-License-Identifier: Apache-2.0
"""Directions made fit for whole steps: how far weights have to move for a function to move as it should."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import cho_solve, cholesky
from jaxtyping import Array, Float, Int

from fpovi.particles import ravel
from fpovi.types import Likelihood, Network, PyTree, Scalar, Seen

DRAWS = 32  # of a target, where f is a single number
AT_FIRST = 5  # times as often is a curvature met, until so many would have been
MOST_DAMPING = 1.0  # where even this leaves no factor, nothing will


class Curvature(NamedTuple):
    """Of every particle, the average curvature it has met and a factor of it, damped.

    ``weight`` is how much of a whole average the curvatures so far make up, ``step`` the number of steps.
    """

    average: Float[Array, "n p p"]
    factor: Float[Array, "n p p"]
    weight: Scalar
    step: Int[Array, ""]


def gauss_newton(
    network: Network,
    likelihood: Likelihood,
    memory: float = 0.8,
    every: int = 4,
    damping: float = 3e-5,
    trust: float = 0.5,
) -> optax.GradientTransformationExtraArgs:
    r"""Multiplies each particle's direction by the inverse of its curvature: a preconditioner for ``function_space``.

    .. math::
        \delta^i = (C^i + \Lambda + \mu\, \mathrm{diag}\, C^i)^{-1} g^i, \qquad
        C^i = \frac{N}{B'} \sum_b J_b^T F_b J_b

    with :math:`J_b` the derivative of f at row b by the weights, :math:`F_b` the Fisher information of the likelihood
    in f, and Λ the prior's precision of the weights. Where particles come to rest does not change, the direction
    is zero there; but they get there in hundreds of steps instead of tens of thousands. Each takes time of order p³
    and memory of order p²: it is for networks of at most some thousand weights.

    :math:`F_b` is estimated from targets that are drawn from the particle's own answers. The flow should give every
    particle its own score, as ``gfsf`` does: the curvature is that of one particle.

    Follow it with a rate, 1 being a whole step, that falls in the end where a step sees some of the rows only:

    >>> from fpovi.likelihoods import gaussian
    >>> from fpovi.networks import mlp
    >>> rate = optax.sgd(optax.cosine_decay_schedule(0.5, 400))
    >>> optimiser = optax.chain(gauss_newton(mlp((8, 50, 1), jnp.tanh), gaussian()), rate)

    Args:
        network, likelihood: the model.
        memory: how much of the average curvature stays when another is met; 0 where a batch is all rows.
        every: a curvature is met, and the factor made anew, every so many steps.
        damping: μ, after Marquardt; ten times as much, and so on, where it leaves no factor.
        trust: the most a particle may move: half the square of it is the KL divergence, per row, of its answers
            before from those after a whole step. In units of the noise: where that is small from the start, and not
            learned, more.
    """
    _check(memory, every, damping, trust)

    def init(particles: PyTree) -> Curvature:
        rows, _ = ravel(particles)
        nothing = jnp.zeros((*rows.shape, rows.shape[1]), rows.dtype)
        return Curvature(nothing, nothing, jnp.zeros((), rows.dtype), jnp.zeros((), jnp.int32))

    def met(state: Curvature, particles: PyTree, roots: Array, seen: Seen) -> Curvature:
        rows, unravel = ravel(particles)
        weight = memory * state.weight + (1 - memory)

        def one(particle: tuple[Any, ...]) -> tuple[Array, Array]:
            row, root, before, model = particle
            told = row_gradients(partial(value, model=model), unravel(row), seen.batch.x, root)
            average = memory * before + (1 - memory) * (told.T @ told)
            return average, damped_factor(average / weight, precision(network, unravel, row), damping)

        average, factor = jax.lax.map(one, (rows, roots, state.average, seen.model))
        return Curvature(average, factor, weight, state.step)

    def value(theta: PyTree, x: Array, model: PyTree) -> Float[Array, "B k"]:
        return likelihood.canonical(network.apply(theta, model, x, False)[0])

    def update(
        updates: PyTree, state: Curvature, particles: PyTree | None = None, *, seen: Seen | None = None, **rest: Any
    ) -> tuple[PyTree, Curvature]:
        if seen is None or particles is None:
            raise ValueError("gauss_newton is an optimiser for function_space, which tells it what a step has seen")
        all_values = jax.vmap(lambda theta, model: value(theta, seen.batch.x, model))
        f, change = jax.linearize(lambda particles: all_values(particles, seen.model), particles)
        roots = roots_of_fisher(likelihood, seen, f)
        fresh = (state.step % every == 0) | (state.step < AT_FIRST * every)
        state = jax.lax.cond(fresh, met, lambda state, *rest: state, state, particles, roots, seen)

        directions, unravel = ravel(updates)
        steps = jax.vmap(lambda factor, direction: cho_solve((factor, True), direction))(state.factor, directions)
        moved = change(jax.vmap(unravel)(steps))
        squares = jnp.sum(jnp.sum(roots * moved, axis=-1) ** 2, axis=-1) / seen.batch.num_data
        within = jnp.minimum(1, trust / jnp.sqrt(jnp.maximum(squares, jnp.finfo(squares.dtype).tiny)))
        return jax.vmap(unravel)(steps * within[:, None]), state._replace(step=state.step + 1)

    return optax.GradientTransformationExtraArgs(init, update)


def _check(memory: float, every: int, damping: float, trust: float) -> None:
    if not 0 <= memory < 1:
        raise ValueError(f"memory={memory} must be at least 0 and less than 1")
    if every < 1:
        raise ValueError(f"every={every} must be at least 1")
    if not (damping > 0 and trust > 0):
        raise ValueError(f"damping={damping} and trust={trust} must be positive")


def row_gradients(
    value: Callable[[PyTree, Array], Array], theta: PyTree, x: Float[Array, "B *d_x"], roots: Float[Array, "B k"]
) -> Float[Array, "B p"]:
    """Jᵀv for every row: the curvature is the sum of their squares."""

    def gradient(point: Array, root: Array) -> Float[Array, " p"]:
        _, pullback = jax.vjp(lambda theta: value(theta, point[None])[0], theta)
        return ravel_pytree(pullback(root))[0]

    return jax.vmap(gradient)(x, roots)


def roots_of_fisher(likelihood: Likelihood, seen: Seen, f: Float[Array, "n B k"]) -> Float[Array, "n B k"]:
    """For every row a vector v with E[v vᵀ] its Fisher information in f, times the row's share of the data.

    It is the score of a drawn target; where f is a single number, the root mean square of many such scores.
    """
    batch = seen.batch
    share = batch.weight * batch.num_data / jnp.maximum(jnp.sum(batch.weight), jnp.finfo(f.dtype).tiny)

    def score(key: Any, params: PyTree, f: Array) -> Array:
        y = likelihood.sample(key, params, f)
        return jax.grad(lambda f: jnp.sum(jnp.sqrt(share) * likelihood.log_prob(params, f, y)))(f)

    scores = jax.vmap(score, axis_size=f.shape[0])
    if f.shape[2] > 1:
        return scores(jax.random.split(seen.key, f.shape[0]), seen.params, f)
    keys = jax.random.split(seen.key, (DRAWS, f.shape[0]))
    return jnp.sqrt(jnp.mean(jax.lax.map(lambda keys: scores(keys, seen.params, f) ** 2, keys), axis=0))


def precision(network: Network, unravel: Callable[[Array], PyTree], row: Float[Array, " p"]) -> Float[Array, " p"]:
    """Of the weights under their prior, in which they are independent."""
    score = jax.grad(lambda row: network.log_prior(unravel(row)))
    return jnp.maximum(-jax.jvp(score, (row,), (jnp.ones_like(row),))[1], 0)


def damped_factor(curvature: Float[Array, "p p"], prior: Float[Array, " p"], damping: float) -> Float[Array, "p p"]:
    """The Cholesky factor of C + Λ + μ diag C, with the least of μ = ``damping``, ten times it, … that has one."""

    def attempt(mu: Array) -> Array:
        return cholesky(curvature + jnp.diag(prior + mu * jnp.diagonal(curvature)), lower=True)

    def failed(tried: tuple[Array, Array]) -> Array:
        mu, factor = tried
        return ~jnp.all(jnp.isfinite(jnp.diagonal(factor))) & (mu < MOST_DAMPING)

    first = jnp.asarray(damping, curvature.dtype)
    again = lambda tried: (10 * tried[0], attempt(10 * tried[0]))  # noqa: E731
    return jax.lax.while_loop(failed, again, (first, attempt(first)))[1]
