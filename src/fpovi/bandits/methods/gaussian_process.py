# SPDX-License-Identifier: Apache-2.0
r"""A Gaussian process over contexts and arms, learned from a part of the rows.

.. math::
    k\big((x, a), (x', a')\big) = s^2 \exp\Big(-\frac{\|x - x'\|^2}{2\ell^2} - \frac{\|v_a - v_{a'}\|^2}2\Big)

with a vector :math:`v_a` for every arm: near ones pay alike. Its functions are drawn by Matheron's rule, as prior draws
(of random Fourier features) that are corrected by what they miss at the rows (Wilson et al. 2020).
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.scipy.linalg import cho_solve
from jaxtyping import Array, Float

from fpovi.bandits.method import Lesson, Method, Scale, scale_of, unit_scale
from fpovi.bandits.methods.training import Schedule
from fpovi.types import Key, PyTree

ARM_DIMENSIONS, FEATURES, JITTER = 5, 512, 1e-4


class Hyper(NamedTuple):
    """log s, log ℓ, log σ and the vectors of arms."""

    std: Float[Array, ""]
    lengthscale: Float[Array, ""]
    noise: Float[Array, ""]
    arm: Float[Array, "K 5"]


class Points(NamedTuple):
    """Rows of fixed number; those with ``real`` 0 are not there."""

    x: Float[Array, "M d"]
    arm: Array
    y: Float[Array, " M"]
    real: Float[Array, " M"]


class Draws(NamedTuple):
    """Functions: frequencies and phases of features, weights of the prior draws, and their corrections at the rows."""

    frequency: Float[Array, "F e"]
    phase: Float[Array, " F"]
    weight: Float[Array, "n F"]
    correction: Float[Array, "n M"]


class Process(NamedTuple):
    """A process in the middle of learning, and the functions that decide."""

    hyper: Hyper
    optimiser: PyTree
    points: Points
    draws: Draws
    scale: Scale


def gaussian_process(
    *,
    rewards: str = "gaussian",
    n_particles: int = 20,
    most: int = 1000,
    learning_rate: float = 0.05,
    first_steps: int = 100,
    steps: int = 5,
    lessons: int = 20,
    every: int = 50,
    standardise: bool = True,
) -> Method:
    """Return Thompson sampling from a Gaussian process over contexts and arms.

    Args:
        rewards: "gaussian"; rewards of 0 and 1 are taken for real numbers with it.
        n_particles: how many functions decide; they are drawn anew in every lesson.
        most: how many rows it learns from, at random where there are more.
        learning_rate: of Adam, for its few parameters, by the marginal likelihood.
        first_steps, steps, lessons, every, standardise: as in
            :class:`~fpovi.bandits.methods.options.NetworkOptions`.
    """
    if rewards != "gaussian":
        raise ValueError("method='gaussian_process' is for rewards='gaussian' only, which serves 0 and 1 too")
    schedule, adam = Schedule(first_steps, steps, lessons), optax.adam(learning_rate)

    def init(key: Key, inputs: int, arms: int) -> Process:
        key_arms, key_rest = jax.random.split(key)
        hyper = Hyper(
            jnp.zeros(()), jnp.asarray(0.5 * np.log(inputs), float), jnp.asarray(np.log(0.3), float),
            jax.random.normal(key_arms, (arms, ARM_DIMENSIONS)),
        )  # fmt: skip
        empty = np.zeros(most, np.float32)
        points = Points(np.zeros((most, inputs), np.float32), np.zeros(most, np.int32), empty, empty)  # type: ignore[arg-type]
        return Process(hyper, adam.init(hyper), points, _draw(n_particles, key_rest, hyper, points), unit_scale())

    def learn(model: Process, lesson: Lesson) -> Process:
        rows = lesson.memory.rows
        scale = scale_of(rows) if standardise else model.scale
        count = min(len(rows.arm), most)
        index = np.zeros(most, int)
        index[:count] = lesson.random.permutation(len(rows.arm))[:count] if len(rows.arm) > most else np.arange(count)
        real = (np.arange(most) < count).astype(np.float32)
        y = (real * (rows.reward[index] - scale.shift) / scale.spread).astype(np.float32)
        points = Points(rows.x[index], rows.arm[index], y, real)  # type: ignore[arg-type]
        hyper, state = _climb(adam, schedule.steps(lesson.number), model.hyper, model.optimiser, points)
        return Process(hyper, state, points, _draw(n_particles, lesson.key, hyper, points), scale)

    def values(model: Process, x: Float[Array, "N d"]) -> Float[Array, "n N K"]:
        arms = model.hyper.arm.shape[0]
        rows = jnp.repeat(x, arms, axis=0)
        z = joint(model.hyper, rows, jnp.tile(jnp.arange(arms), x.shape[0]))
        there = joint(model.hyper, model.points.x, model.points.arm)
        draws = model.draws
        f = draws.weight @ features(model.hyper, draws.frequency, draws.phase, z).T
        f = f + (draws.correction * model.points.real) @ covariance(model.hyper, z, there).T
        return model.scale.shift + model.scale.spread * f.reshape(-1, x.shape[0], arms)

    return Method(init, learn, values, every)


def joint(hyper: Hyper, x: Float[Array, "N d"], arm: Array) -> Float[Array, "N e"]:
    """Return contexts and arms as points on which the kernel is that of one Gaussian."""
    return jnp.concatenate([x / jnp.exp(hyper.lengthscale), hyper.arm[arm]], axis=1)


def covariance(hyper: Hyper, a: Float[Array, "A e"], b: Float[Array, "B e"]) -> Float[Array, "A B"]:
    """Return k at all pairs of points."""
    squared = jnp.sum(a**2, axis=1)[:, None] + jnp.sum(b**2, axis=1) - 2 * a @ b.T
    return jnp.exp(2 * hyper.std - jnp.maximum(squared, 0) / 2)


def features(hyper: Hyper, frequency: Array, phase: Array, z: Float[Array, "N e"]) -> Float[Array, "N F"]:
    """Return features whose products are k on average over frequencies and phases."""
    return jnp.exp(hyper.std) * jnp.sqrt(2 / FEATURES) * jnp.cos(z @ frequency.T + phase)


def _factor(hyper: Hyper, points: Points) -> Float[Array, "M M"]:
    """Return the Cholesky factor of the covariance of rewards; rows that are not there have variance 1."""
    z = joint(hyper, points.x, points.arm)
    both = points.real[:, None] * points.real
    noise = jnp.exp(2 * hyper.noise) + JITTER * jnp.exp(2 * hyper.std) + JITTER
    diagonal = jnp.where(points.real > 0, noise, 1.0)
    return jnp.linalg.cholesky(both * covariance(hyper, z, z) + jnp.diag(diagonal))


def log_marginal(hyper: Hyper, points: Points) -> Float[Array, ""]:
    """Return the log marginal likelihood up to a constant."""
    factor = _factor(hyper, points)
    solved = jax.scipy.linalg.solve_triangular(factor, points.y, lower=True)
    return -0.5 * jnp.sum(solved**2) - jnp.sum(jnp.log(jnp.diag(factor)))


@partial(jax.jit, static_argnums=0)
def _climb(adam: optax.GradientTransformation, steps: Any, hyper: Hyper, state: PyTree, points: Points) -> Any:
    """Take so many steps of Adam up the marginal likelihood per row; steps that are not finite are left out."""
    count = jnp.maximum(jnp.sum(points.real), 1.0)

    def step(_: Array, now: tuple[Hyper, PyTree]) -> tuple[Hyper, PyTree]:
        downhill = jax.grad(lambda hyper: -log_marginal(hyper, points) / count)(now[0])
        finite = jnp.all(jnp.asarray([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(downhill)]))
        updates, after = adam.update(downhill, now[1], now[0])
        moved = (optax.apply_updates(now[0], updates), after)
        return jax.tree.map(lambda new, old: jnp.where(finite, new, old), moved, now)

    return jax.lax.fori_loop(0, steps, step, (hyper, state))


@partial(jax.jit, static_argnums=0)
def _draw(n: int, key: Key, hyper: Hyper, points: Points) -> tuple[Array, Array, Array, Array]:
    """Draw n functions: frequencies, phases, weights of the prior draws, and their corrections at the rows."""
    key_frequency, key_phase, key_weight, key_noise = jax.random.split(key, 4)
    z = joint(hyper, points.x, points.arm)
    frequency = jax.random.normal(key_frequency, (FEATURES, z.shape[1]))
    phase = 2 * jnp.pi * jax.random.uniform(key_phase, (FEATURES,))
    weight = jax.random.normal(key_weight, (n, FEATURES))
    noise = jnp.exp(hyper.noise) * jax.random.normal(key_noise, (n, z.shape[0]))
    missed = points.real * (points.y - weight @ features(hyper, frequency, phase, z).T - noise)
    correction = cho_solve((_factor(hyper, points), True), missed.T).T
    return Draws(frequency, phase, weight, correction)
