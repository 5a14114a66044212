# SPDX-License-Identifier: Apache-2.0
"""An optimiser that divides by curvature: it moves weights as far as the function should move."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import cho_solve, cholesky
from jaxtyping import Array, Float, Int

from fpovi.inference.particles import ravel
from fpovi.inference.score import at_step
from fpovi.inference.step import check_schedules, first_step
from fpovi.types import Key, Likelihood, Network, PyTree, Scalar, Schedule, StepContext

DRAWS = 32  # of a target, where f is a single number
AT_FIRST = 5  # so many intervals at the start have a curvature in every step
MOST_DAMPING = 1.0  # where even this leaves no factor, nothing will
LEAST = 1e-6  # of a curvature's diagonal, beside its mean: weights that no row has seen are damped too


class Curvature(NamedTuple):
    """The average curvature that each particle has met, and a damped factor of it.

    ``filled`` is how much of a whole average the curvatures so far make up, ``step`` the number of steps.
    """

    average: Float[Array, "n p p"]
    factor: Float[Array, "n p p"]
    filled: Scalar
    step: Int[Array, ""]


def gauss_newton(
    network: Network,
    likelihood: Likelihood,
    rate: Schedule = 0.5,
    *,
    memory: float = 0.8,
    every: int = 4,
    damping: float = 3e-5,
    trust: float = 0.25,
) -> optax.GradientTransformationExtraArgs:
    r"""Return an optimiser for ``function_space`` that multiplies each direction by the inverse of its curvature.

    .. math::
        \delta^i = \epsilon\, (C^i + \Lambda + \mu\, \mathrm{diag}\, C^i)^{-1} g^i, \qquad
        C^i = \frac{N}{B'} \sum_b J_b^T F_b J_b

    with :math:`J_b` the derivative of f at row b by the weights, :math:`F_b` the Fisher information of the likelihood
    in f, and Λ the precision of the weights in the network's own prior, in which they have to be independent. Where
    particles come to rest does not change, the direction is zero there; but they get there in hundreds of steps instead
    of tens of thousands. A step takes as long as 30 to 100 of Adam's: it pays where the noise is small. A factor takes
    time of order p³ for every particle, and two matrices of p² numbers are kept of each: it is for networks of at most
    some thousand weights, on one device, and without a state, as BatchNorm has.

    :math:`F_b` is estimated from targets that are drawn from the particle's own answers. The flow should give every
    particle its own score, as ``gfsf`` does: the curvature is that of one particle, at temperature 1.

    >>> from fpovi.likelihoods import gaussian
    >>> from fpovi.networks import mlp
    >>> optimiser = gauss_newton(mlp((8, 50, 1), jnp.tanh), gaussian(), optax.cosine_decay_schedule(0.5, 400))

    Args:
        network, likelihood: the model.
        rate: ε, 1 being a whole step; a number or a schedule. Where a step sees some of the rows only it should fall in
            the end: hard pulls of single batches, cut short by ``trust`` at a high rate, count in full at a low one.
        memory: how much of the average curvature stays when another is met; it averages over batches and draws.
        every: a curvature is met, and the factor made anew, every so many steps, and in every step at the start.
        damping: μ, after Marquardt; ten times as much, and so on, where it leaves no factor.
        trust: the most a particle moves in a step. Half its square is, to second order, the KL divergence per row of
            the answers before from those after. Raise it where the noise is small and fixed.
    """
    check_schedules(rate=rate)
    _check(memory, every, damping, trust)

    def init(particles: PyTree) -> Curvature:
        rows, _ = ravel(particles)
        nothing = jnp.zeros((*rows.shape, rows.shape[1]), rows.dtype)
        return Curvature(nothing, nothing, jnp.zeros((), rows.dtype), first_step())

    def refreshed(state: Curvature, particles: PyTree, roots: Array, context: StepContext) -> Curvature:
        rows, unravel = ravel(particles)
        filled = memory * state.filled + (1 - memory)

        def one(particle: tuple[Any, ...]) -> tuple[Array, Array]:
            row, root, before, network_state = particle
            gradients = row_gradients(partial(value, network_state=network_state), unravel(row), context.batch.x, root)
            average = memory * before + (1 - memory) * (gradients.T @ gradients)
            return average, damped_factor(average / filled, precision(network, unravel, row), damping)

        average, factor = jax.lax.map(one, (rows, roots, state.average, context.network_state))
        return state._replace(average=average, factor=factor, filled=filled)

    def value(theta: PyTree, x: Array, network_state: PyTree) -> Float[Array, "B k"]:
        return likelihood.canonical(network.apply(theta, network_state, x, False)[0])

    def update(
        updates: PyTree,
        state: Curvature,
        particles: PyTree | None = None,
        *,
        context: StepContext | None = None,
        **rest: Any,
    ) -> tuple[PyTree, Curvature]:
        if context is None or particles is None:
            raise ValueError("gauss_newton is an optimiser for function_space, which tells it of each step")
        if jax.tree.leaves(context.network_state):
            raise ValueError(
                "gauss_newton is for networks without a state: give those with BatchNorm another optimiser"
            )
        all_values = jax.vmap(lambda theta, network_state: value(theta, context.batch.x, network_state))
        f, change = jax.linearize(lambda particles: all_values(particles, context.network_state), particles)
        roots = others = roots_of_fisher(likelihood, context, context.key, f)
        if f.shape[2] > 1:  # what one draw does not see, the factor of it does not damp
            others = roots_of_fisher(likelihood, context, jax.random.fold_in(context.key, 1), f)
        fresh = (state.step % every == 0) | (state.step < AT_FIRST * every)
        state = jax.lax.cond(fresh, refreshed, lambda state, *rest: state, state, particles, roots, context)

        directions, unravel = ravel(updates)
        whole = jax.vmap(lambda factor, direction: cho_solve((factor, True), direction))(state.factor, directions)
        steps = -at_step(state.step, rate, whole.dtype) * whole  # downhill, as optax wants it
        change_of_f = change(jax.vmap(unravel)(steps))
        squares = jnp.sum(jnp.sum(others * change_of_f, axis=-1) ** 2, axis=-1) / context.batch.num_data
        within = jnp.minimum(1, trust / jnp.sqrt(jnp.maximum(squares, jnp.finfo(squares.dtype).tiny)))
        return jax.vmap(unravel)(steps * within[:, None]), state._replace(step=state.step + 1)

    return optax.GradientTransformationExtraArgs(init, update)


def _check(memory: float, every: int, damping: float, trust: float) -> None:
    if not 0 <= memory < 1:
        raise ValueError(f"memory={memory} must be at least 0 and less than 1")
    if int(every) != every or every < 1:
        raise ValueError(f"every={every} must be a whole number, at least 1")
    if not (0 < damping < math.inf and trust > 0):
        raise ValueError(f"damping={damping} and trust={trust} must be positive, and damping finite")


def row_gradients(
    value: Callable[[PyTree, Array], Array], theta: PyTree, x: Float[Array, "B *d_x"], roots: Float[Array, "B k"]
) -> Float[Array, "B p"]:
    """Return Jᵀv for every row: the curvature is the sum of their outer products."""

    def gradient(point: Array, root: Array) -> Float[Array, " p"]:
        _, pullback = jax.vjp(lambda theta: value(theta, point[None])[0], theta)
        return ravel_pytree(pullback(root))[0]

    return jax.vmap(gradient)(x, roots)


def roots_of_fisher(
    likelihood: Likelihood, context: StepContext, key: Key, f: Float[Array, "n B k"]
) -> Float[Array, "n B k"]:
    """Return for every row a vector v with E[v vᵀ] its Fisher information in f, times the row's share of the data.

    It is the score of a drawn target; where f is a single number, the root mean square of many such scores.
    """
    batch = context.batch
    share = batch.weight * batch.num_data / jnp.maximum(jnp.sum(batch.weight), jnp.finfo(f.dtype).tiny)

    def score(key: Key, params: PyTree, f: Array) -> Array:
        y = likelihood.sample(key, params, f)
        return jax.grad(lambda f: jnp.sum(jnp.sqrt(share) * likelihood.log_prob(params, f, y)))(f)

    scores = jax.vmap(score, axis_size=f.shape[0])
    if f.shape[2] > 1:
        return scores(jax.random.split(key, f.shape[0]), context.params, f)
    keys = jax.random.split(key, (DRAWS, f.shape[0]))
    return jnp.sqrt(jnp.mean(jax.lax.map(lambda keys: scores(keys, context.params, f) ** 2, keys), axis=0))


def precision(network: Network, unravel: Callable[[Array], PyTree], row: Float[Array, " p"]) -> Float[Array, " p"]:
    """Return the precision of the weights under their prior, in which they are independent."""
    score = jax.grad(lambda row: network.log_prior(unravel(row)))
    return jnp.maximum(-jax.jvp(score, (row,), (jnp.ones_like(row),))[1], 0)


def damped_factor(curvature: Float[Array, "p p"], prior: Float[Array, " p"], damping: float) -> Float[Array, "p p"]:
    """Return the Cholesky factor of C + Λ + μ diag C for the least of μ = ``damping``, ten times it, … that has one."""
    diagonal = jnp.diagonal(curvature)
    damped = jnp.maximum(diagonal, LEAST * jnp.mean(diagonal))

    def attempt(mu: Array) -> Array:
        return cholesky(curvature + jnp.diag(prior + mu * damped), lower=True)

    def failed(tried: tuple[Array, Array]) -> Array:
        mu, factor = tried
        return ~jnp.all(jnp.isfinite(jnp.diagonal(factor))) & (mu < MOST_DAMPING)

    first = jnp.asarray(damping, curvature.dtype)
    again = lambda tried: (10 * tried[0], attempt(10 * tried[0]))  # noqa: E731
    return jax.lax.while_loop(failed, again, (first, attempt(first)))[1]
