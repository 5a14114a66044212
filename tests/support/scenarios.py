# SPDX-License-Identifier: Apache-2.0
"""Targets with known answers, shared by the tests."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fpovi.types import Batch, Network


class GaussianTarget(NamedTuple):
    """A multivariate normal to be recovered from its score."""

    mean: jax.Array
    covariance: jax.Array

    def score(self, f: jax.Array) -> jax.Array:
        return -jnp.linalg.solve(self.covariance, (f - self.mean).T).T


def correlated_gaussian() -> GaussianTarget:
    return GaussianTarget(jnp.asarray([1.0, -2.0]), jnp.asarray([[1.0, 0.6], [0.6, 0.8]]))


def linear_network(features: Callable[[jax.Array], jax.Array], size: int) -> Network:
    """f(x) = features(x) θ with θ ~ N(0, I): its posterior under Gaussian noise has a closed form."""

    def sample(key: jax.Array) -> jax.Array:
        return jax.random.normal(key, (size,))

    return Network(
        init=lambda key: (sample(key), ()),
        sample_prior=sample,
        log_prior=lambda theta: -0.5 * jnp.sum(theta**2) - size / 2 * jnp.log(2 * jnp.pi),
        apply=lambda theta, state, x, train: ((features(x) @ theta)[:, None], state),
    )


def polynomial(x: jax.Array) -> jax.Array:
    return jnp.concatenate([jnp.ones_like(x), x, x**2], axis=1)


def linear_posterior(features: np.ndarray, y: np.ndarray, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of θ for y = features θ + noise·ε, θ ~ N(0, I)."""
    precision = np.eye(features.shape[1]) + features.T @ features / noise**2
    covariance = np.linalg.inv(precision)
    return covariance @ features.T @ y / noise**2, covariance


class GPProblem(NamedTuple):
    """The paper's appendix on approximations: 21 training inputs, 3 test inputs, an RBF prior of bandwidth .5."""

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    noise: float
    jitter: float

    @staticmethod
    def covariance(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.exp(-((a - b.T) ** 2) / (2 * 0.5**2))

    def posterior(self, every: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Exact mean and covariance at the test inputs, given every ``every``-th training point."""
        x, y = self.x[::every], self.y[::every]
        k = lambda a, b: np.exp(-((a - b.T) ** 2) / (2 * 0.5**2))  # noqa: E731
        k_rr = k(x, x) + (self.noise**2 + self.jitter) * np.eye(len(x))
        gain = np.linalg.solve(k_rr, k(self.x_test, x).T).T
        covariance = k(self.x_test, self.x_test) + self.jitter * np.eye(len(self.x_test)) - gain @ k(self.x_test, x).T
        return gain @ y, covariance

    def batch(self) -> Batch:
        from fpovi.inference.batches import make_batch

        return make_batch(self.x, self.y)


def gp_problem(seed: int = 0, jitter: float = 1e-4) -> GPProblem:
    rng = np.random.default_rng(seed)
    x = np.linspace(-2, 2, 21)[:, None]
    y = np.sin(x[:, 0]) + 0.1 * rng.normal(size=21)
    return GPProblem(x, y, np.array([[1.7], [1.9], [2.1]]), 0.1, jitter)
