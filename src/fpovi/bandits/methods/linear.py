# SPDX-License-Identifier: Apache-2.0
r"""Linear models with a Gaussian posterior in closed form: on contexts, and on the last features of a network.

For each arm, with rows :math:`a` of a design and rewards r,

.. math::
    w \sim \mathcal N(m, P^{-1}), \qquad P = V^{-1} + \tfrac1{\sigma^2} \sum a a^T, \qquad
    m = P^{-1} \tfrac1{\sigma^2} \sum a r

with V the prior's diagonal covariance.
"""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from fpovi.bandits.memory import Rows
from fpovi.bandits.method import Lesson, Method, Scale, as_scale, unit_scale
from fpovi.bandits.methods.options import NetworkOptions
from fpovi.bandits.methods.training import Build
from fpovi.flows import ensemble
from fpovi.inference import weight_space
from fpovi.networks import MLP
from fpovi.types import Key, Network, PyTree

LEAST_NOISE = 1e-2  # of a learned σ, in standard deviations of rewards
BLOCK = 1024


class Sums(NamedTuple):
    """What a posterior needs of the rows: Σ aaᵀ, Σ ar, Σ r² and Σ 1, by arm, weighted, in float64."""

    gram: Float[np.ndarray, "K p p"]
    moment: Float[np.ndarray, "K p"]
    square: Float[np.ndarray, " K"]
    total: Float[np.ndarray, " K"]

    @classmethod
    def zeros(cls, arms: int, p: int) -> "Sums":
        """Return the sums of no rows."""
        return cls(np.zeros((arms, p, p)), np.zeros((arms, p)), np.zeros(arms), np.zeros(arms))

    def add(self, design: Float[np.ndarray, "N p"], rows: Rows) -> "Sums":
        """Return the sums with more rows."""
        gram, moment, square, total = (array.copy() for array in self)
        for arm in np.unique(rows.arm):
            of_arm = rows.arm == arm
            a, r, w = design[of_arm].astype(np.float64), rows.reward[of_arm], rows.weight[of_arm]
            gram[arm] += (a * w[:, None]).T @ a
            moment[arm] += a.T @ (w * r)
            square[arm] += w @ r**2
            total[arm] += w.sum()
        return Sums(gram, moment, square, total)


class Posterior(NamedTuple):
    """The posterior of every arm's weights: means ``(K, p)`` and Cholesky factors of precisions ``(K, p, p)``."""

    mean: Float[np.ndarray, "K p"]
    factor: Float[np.ndarray, "K p p"]

    def sample(self, random: np.random.Generator, n: int) -> Float[np.ndarray, "n K p"]:
        """Draw weights of all arms n times."""
        normal = random.standard_normal((len(self.mean), self.mean.shape[1], n))
        spread = [solve_triangular(f, z, lower=True, trans=1) for f, z in zip(self.factor, normal, strict=True)]
        return np.moveaxis(self.mean[:, :, None] + np.stack(spread), 2, 0)


def posterior(sums: Sums, prior_variance: Float[np.ndarray, " p"], noise: float) -> Posterior:
    """Return the posterior of every arm's weights.

    Args:
        sums: of all rows.
        prior_variance: of each weight.
        noise: σ.
    """
    precision = np.diag(1 / prior_variance) + sums.gram / noise**2
    factor = np.stack([cho_factor(p, lower=True)[0] for p in precision])
    factor = np.tril(factor)
    mean = [cho_solve((f, True), b / noise**2) for f, b in zip(factor, sums.moment, strict=True)]
    return Posterior(np.stack(mean), factor)


def residual_noise(sums: Sums, prior_variance: Float[np.ndarray, " p"], rounds: int = 3) -> float:
    """Return the deviation of rewards around the means of the posterior that it gives; 1 for no rows."""
    noise = 1.0
    for _ in range(rounds if sums.total.sum() > 0 else 0):
        w = posterior(sums, prior_variance, noise).mean
        left = sums.square - 2 * np.einsum("kp,kp->k", w, sums.moment) + np.einsum("kp,kpq,kq->k", w, sums.gram, w)
        noise = max(float(np.sqrt(max(left.sum(), 0.0) / sums.total.sum())), LEAST_NOISE)
    return noise


class LinearModel(NamedTuple):
    """Sums of rows with rewards as they came, the scale they are learned in, and draws of weights in that scale."""

    sums: Sums
    weights: Float[np.ndarray, "n K p"]
    scale: Scale


def linear(
    *,
    rewards: str = "gaussian",
    n_particles: int = 100,
    prior_std: float = 1.0,
    noise: float | None = None,
    standardise: bool = True,
) -> Method:
    """Return Thompson sampling from a linear model of every arm, with a posterior in closed form.

    It learns from every reward at once, and does not need the old rows again.

    Args:
        rewards: "gaussian"; rewards of 0 and 1 are taken for real numbers with it.
        n_particles: how many draws of the posterior decide; they are drawn anew after every lesson.
        prior_std: how much functions vary under the prior: half from the d inputs, each N(0, prior_std²/2d), and half
            from the intercept.
        noise: σ, in the unit rewards are learned in; None takes what the fit leaves unexplained.
        standardise: learn rewards of mean 0 and variance 1, by those seen so far.
    """
    _check_real(rewards, "linear")

    def prior_variance(inputs: int) -> Float[np.ndarray, " p"]:
        return np.append(np.full(inputs, prior_std**2 / 2 / inputs), prior_std**2 / 2)

    def init(key: Key, inputs: int, arms: int) -> LinearModel:
        sums = Sums.zeros(arms, inputs + 1)
        random = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        return drawn(random, sums, unit_scale())

    def drawn(random: np.random.Generator, sums: Sums, scale: Scale) -> LinearModel:
        variance = prior_variance(sums.moment.shape[1] - 1)
        scaled = in_scale(sums, scale)
        sigma = residual_noise(scaled, variance) if noise is None else noise
        weights = posterior(scaled, variance, sigma).sample(random, n_particles)
        return LinearModel(sums, weights.astype(np.float32), scale)

    def learn(model: LinearModel, lesson: Lesson) -> LinearModel:
        sums = model.sums.add(with_one(lesson.new.x), lesson.new)
        return drawn(lesson.random, sums, scale_of_sums(sums) if standardise else model.scale)

    def values(model: LinearModel, x: Float[Array, "N d"]) -> Float[Array, "n N K"]:
        f = jnp.einsum("nkp,ip->nik", model.weights[:, :, :-1], x) + model.weights[:, None, :, -1]
        return model.scale.shift + model.scale.spread * f

    return Method(init, learn, values)


def with_one(x: Float[np.ndarray, "N d"]) -> Float[np.ndarray, "N p"]:
    """Return inputs and, after them, a 1."""
    return np.concatenate([x, np.ones((len(x), 1), x.dtype)], axis=1)


def scale_of_sums(sums: Sums) -> Scale:
    """Return mean and deviation of all rewards; the last column of the design is 1."""
    total = sums.total.sum()
    if total == 0:
        return unit_scale()
    shift = sums.moment[:, -1].sum() / total
    variance = sums.square.sum() / total - shift**2
    spread = np.sqrt(variance) if variance > 1e-12 * max(shift**2, 1e-12) else 1.0
    return as_scale(shift, spread)


def in_scale(sums: Sums, scale: Scale) -> Sums:
    """Return the sums for rewards less the shift, over the spread."""
    shift, spread = float(scale.shift), float(scale.spread)
    moment = (sums.moment - shift * sums.gram[:, :, -1]) / spread
    square = (sums.square - 2 * shift * sums.moment[:, -1] + shift**2 * sums.total) / spread**2
    return sums._replace(moment=moment, square=np.maximum(square, 0))


def neural_linear(*, n_particles: int = 20, **options: Any) -> Method:
    """Return Thompson sampling from a linear model on the last features of a network (Riquelme et al. 2018).

    A network climbs to its MAP. After every lesson the posterior of its last layer, given the layers before, is
    computed from all rows in closed form, under the network's own prior, and the last layers that decide are drawn
    from it.

    Args:
        n_particles: how many draws decide.
        options: those of :class:`~fpovi.bandits.methods.options.NetworkOptions`.
    """
    shared = NetworkOptions(**options)
    _check_real(shared.rewards, "neural_linear")
    adam = optax.adam(shared.learning_rate)

    def algorithm(network: Network) -> Build:
        return lambda numbers: weight_space(network, shared.likelihood, flow=ensemble, optimiser=adam)

    def functions(key: Key, members: PyTree, network: Network, rows: Rows | None) -> PyTree:
        theta = jax.tree.map(lambda leaf: leaf[0], members)
        width, arms = theta.weights[-1].shape
        sums = Sums.zeros(arms, width + 1)
        if rows is not None:
            blocks = range(0, len(rows.arm), BLOCK)
            features = [last_features(network, theta, rows.x[first : first + BLOCK]) for first in blocks]
            sums = sums.add(with_one(np.concatenate(features)), rows)
        variance = last_variance(network)
        noise = residual_noise(sums, variance) if shared.noise is None else shared.noise
        random = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        last = posterior(sums, variance, noise).sample(random, n_particles).astype(np.float32)
        copies = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (n_particles, *leaf.shape)), theta)
        where = lambda theta: (theta.weights[-1], theta.biases[-1])  # noqa: E731
        return eqx.tree_at(
            where, copies, (jnp.asarray(np.moveaxis(last[:, :, :-1], 1, 2)), jnp.asarray(last[:, :, -1]))
        )

    return shared.method(algorithm, 1, functions=functions)


def last_variance(network: Network) -> Float[np.ndarray, " p"]:
    """Return the prior variance of an output's weights and of its bias."""
    architecture = network.architecture
    assert architecture is not None
    width, scales = architecture.sizes[-2], architecture.scales
    weight = float(scales.weight_variance[-1]) / width
    return np.append(np.full(width, weight), float(scales.bias_variance[-1]))


def last_features(network: Network, theta: MLP, x: Float[np.ndarray, "N d"]) -> Float[np.ndarray, "N h"]:
    """Return the activations of the last hidden layer, rows filled up to a block so that one program serves all."""
    filled = np.zeros((BLOCK, x.shape[1]), x.dtype)
    filled[: len(x)] = x
    width, outputs = theta.weights[-1].shape
    return np.asarray(_activations(network, theta, filled))[: len(x), -(width + outputs) : -outputs]


@partial(jax.jit, static_argnums=0)
def _activations(network: Network, theta: MLP, x: Float[Array, "N d"]) -> Array:
    assert network.activations is not None
    return network.activations(theta, (), x, False)[0]


def _check_real(rewards: str, name: str) -> None:
    if rewards != "gaussian":
        raise ValueError(f"method={name!r} has a closed form for rewards='gaussian' only, which serves 0 and 1 too")
