# SPDX-License-Identifier: Apache-2.0
"""The equally weighted mixture of the particles' predictive distributions."""

import math
from collections.abc import Callable
from functools import lru_cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from fpovi.inference.particles import forward
from fpovi.likelihoods import categorical
from fpovi.predictive.quantile import mixture_quantile, over_particles
from fpovi.types import Key, Likelihood, Network, Numbers, PyTree, State, Support


def predict(
    network: Network,
    likelihood: Likelihood,
    state: State,
    x: Float[Array | np.ndarray, "B *d_x"],
    shift: Numbers = 0.0,
    scale: Numbers = 1.0,
) -> "Predictive":
    """Return the predictive distribution at x.

    Args:
        network: the network that every particle parametrises.
        likelihood: turns a network's outputs into a distribution of the targets.
        state: particles and their likelihood parameters, as :func:`fpovi.inference.run` returns them.
        x: B inputs, in the scale the particles were fitted in.
        shift, scale: one number, or one for each of m targets: the particles were fitted to (y − shift)/scale.

    Returns:
        A :class:`Predictive` in the units of y.

    Raises:
        ValueError: if x is not finite, or shift and scale do not fit the targets.
    """
    if not isinstance(x, jax.core.Tracer) and not np.all(np.isfinite(x)):
        raise ValueError(f"x has {np.sum(~np.isfinite(x))} NaN or infinite values: all must be finite")
    outputs, _ = forward(network, state.particles, state.network_state, jnp.asarray(x))
    units = [jnp.asarray(unit, outputs.dtype) for unit in (shift, scale)]
    if not any(isinstance(unit, jax.core.Tracer) for unit in (shift, scale)):
        _check_units(np.asarray(shift), np.asarray(scale), likelihood, outputs.shape[-1])
    return Predictive(likelihood, likelihood.canonical(outputs), state.params, *units)


def of_classes(log_probs: Float[Array | np.ndarray, "n B k"]) -> "Predictive":
    """Return the mixture of n particles with these log-probabilities of k classes.

    >>> print(of_classes(np.log([[[0.75, 0.25]], [[0.5, 0.5]]])).probs)
    [[0.625 0.375]]
    """
    return Predictive(_categorical(), jnp.asarray(log_probs), (), jnp.zeros(()), jnp.ones(()))


@lru_cache
def _categorical() -> Likelihood:
    """Return the same object each time: another would be another program."""
    return categorical()


def _check_units(shift: np.ndarray, scale: np.ndarray, likelihood: Likelihood, k: int) -> None:
    targets = likelihood.targets(k)
    if any(unit.shape not in ((), (1,), (targets,)) for unit in (shift, scale)):
        raise ValueError(f"shift={shift} and scale={scale} must be one number, or one for each of {targets} targets")
    if not (np.all(np.isfinite(shift)) and np.all(np.isfinite(scale)) and np.all(scale > 0)):
        raise ValueError(f"shift={shift} must be finite, and scale={scale} finite and positive")
    if likelihood.support.atoms and (np.any(shift != 0) or np.any(scale != 1)):
        raise ValueError(f"shift={shift} and scale={scale} must be left out: counts and classes have no units")


class Predictive(eqx.Module):
    r"""A mixture over n particles, :math:`p(y) = \frac1n \sum_i p(y \mid f_i)`, in the target's own units.

    Everything per input and target is ``(B, m)``; y may be ``(B,)`` where there is one target. For classes
    (``categorical``), see :meth:`probs`, :meth:`entropy` and :meth:`mutual_information`.

    Args:
        likelihood: the distribution of y for one particle.
        f: function values of n particles at B inputs, as ``likelihood.canonical`` returns them.
        params: the likelihood's parameters, with an axis over particles in front of every leaf.
        shift, scale: numbers or ``(m,)``: y is shift + scale times the target of the likelihood.
    """

    likelihood: Likelihood = eqx.field(static=True)
    f: Float[Array, "n B k"]
    params: PyTree
    shift: Float[Array, "..."]
    scale: Float[Array, "..."]

    def _each(self, function: Callable[..., Array], *args: Array) -> Float[Array, "n B _"]:
        return over_particles(function, self.params, self.f, *args)

    @property
    def particle_means(self) -> Float[Array, "n B m"]:
        """The mean of y for each particle; for classes, its probabilities."""
        return self.shift + self.scale * self._each(self.likelihood.mean)

    @property
    def mean(self) -> Float[Array, "B m"]:
        """The mean of y over particles and noise; for classes, their probabilities ``(B, k)``."""
        return self.shift + self.scale * jnp.mean(self._each(self.likelihood.mean), axis=0)

    @property
    def epistemic_std(self) -> Float[Array, "B m"]:
        """The disagreement of particles: the standard deviation of their means."""
        return self.scale * jnp.std(self._each(self.likelihood.mean), axis=0)

    @property
    def aleatoric_std(self) -> Float[Array, "B m"]:
        """The noise: the root of the mean of the particles' variances."""
        return self.scale * jnp.sqrt(jnp.mean(self._each(self.likelihood.variance), axis=0))

    @property
    def std(self) -> Float[Array, "B m"]:
        """The standard deviation of y: √(epistemic² + aleatoric²)."""
        return jnp.hypot(self.epistemic_std, self.aleatoric_std)

    def log_prob(self, y: Numbers) -> Float[Array, " B"]:
        r"""Return :math:`\log \frac1n \sum_i p(y \mid f_i)` of every row, its targets taken together.

        Args:
            y: targets ``(B, m)`` in their own units, ``(B,)`` for one target; for classes, integers.
        """
        each = self._each(self.likelihood.log_prob, self._standardised(y))
        units = jnp.sum(jnp.broadcast_to(jnp.log(self.scale), (self._num_targets,)))
        return jax.nn.logsumexp(jnp.sum(each, axis=-1), axis=0) - math.log(self.f.shape[0]) - units

    def cdf(self, y: Numbers) -> Float[Array, "B m"]:
        """Return P(Y ≤ y) of every input and target.

        Args:
            y: numbers ``(B, m)`` in the targets' units, ``(B,)`` for one target.
        """
        return jnp.mean(self._each(self.likelihood.cdf, self._standardised(y)), axis=0)

    def quantile(self, q: float) -> Float[Array, "B m"]:
        """Return the smallest y with P(Y ≤ y) ≥ q, by inverting the mixture's cdf.

        A row's quantile does not depend on the other rows of the call.

        Args:
            q: probability, strictly between 0 and 1.

        Raises:
            ValueError: for a q outside of (0, 1), and for classes, which have no order.
        """
        if not 0 < q < 1:
            raise ValueError(f"q={q} must lie strictly between 0 and 1")
        if self.likelihood.support is Support.CLASSES:
            raise ValueError("classes have no order and so no quantiles: see probs")
        with jax.enable_x64(True):  # near 1 a cdf in float32 has no digits left
            wide = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), (self.params, self.f))
            y = mixture_quantile(self.likelihood, float(jnp.finfo(self.f.dtype).eps), *wide, q).astype(self.f.dtype)
        return self.shift + self.scale * y

    def interval(self, level: float = 0.95) -> tuple[Float[Array, "B m"], Float[Array, "B m"]]:
        """Return the central predictive interval of every input and target.

        Args:
            level: probability inside the interval, strictly between 0 and 1.

        Returns:
            ``(lower, upper)``, each ``(B, m)``.
        """
        if not 0 < level < 1:
            raise ValueError(f"level={level} must lie strictly between 0 and 1")
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)

    def sample(self, key: Key, n: int) -> Shaped[Array, "draws B m"]:
        """Draw y at all inputs n times, each time from one random particle: one coherent function plus noise.

        Args:
            key: a key of ``jax.random``; the same key gives the same draws.
            n: number of draws, at least 1.

        Returns:
            Draws ``(n, B, m)`` in the targets' units; for classes, integers.
        """
        if n < 1:
            raise ValueError(f"n={n} draws were asked for, but at least 1 is needed")
        key_which, key_noise = jax.random.split(key)
        which = jax.random.randint(key_which, (n,), 0, self.f.shape[0])
        chosen = jax.tree.map(lambda leaf: leaf[which], (self.params, self.f))
        draws = jax.vmap(self.likelihood.sample)(jax.random.split(key_noise, n), *chosen)
        return draws if self.likelihood.support.atoms else self.shift + self.scale * draws

    @property
    def probs(self) -> Float[Array, "B k"]:
        """The class probabilities, the mean over particles; for classes only."""
        if self.likelihood.support is not Support.CLASSES:
            raise ValueError("probs, entropy and mutual_information are for classes (categorical): see mean and std")
        return self.mean

    @property
    def entropy(self) -> Float[Array, " B"]:
        """The entropy of :attr:`probs`, the total uncertainty in nats; for classes only."""
        return _entropy(self.probs)

    @property
    def mutual_information(self) -> Float[Array, " B"]:
        """The entropy less the particles' mean entropy, which more data could remove, in nats; for classes only."""
        return jnp.maximum(self.entropy - jnp.mean(_entropy(self.particle_means), axis=0), 0)

    @property
    def _num_targets(self) -> int:
        return self.likelihood.targets(self.f.shape[-1])

    def _standardised(self, y: Numbers) -> Shaped[Array, "B m"]:
        """Return y ``(B, m)`` in the units and dtype that the likelihood takes."""
        y = jnp.asarray(y)
        y = y[:, None] if y.ndim == 1 else y
        wanted = (self.f.shape[1], self._num_targets)
        if y.shape != wanted:
            raise ValueError(f"y has shape {y.shape}, but {wanted} is needed: a row for every input")
        if self.likelihood.support is not Support.CLASSES:
            y = y.astype(self.f.dtype)
        elif not jnp.issubdtype(y.dtype, jnp.integer):
            raise ValueError(f"y has dtype {y.dtype}, but classes are integers 0…{self.f.shape[-1] - 1}")
        elif not isinstance(y, jax.core.Tracer) and y.size and (y.min() < 0 or y.max() >= self.f.shape[-1]):
            raise ValueError(f"y has values {y.min()}…{y.max()}, but classes are integers 0…{self.f.shape[-1] - 1}")
        return y if self.likelihood.support.atoms else (y - self.shift) / self.scale


def _entropy(probs: Float[Array, "*batch k"]) -> Float[Array, "*batch"]:
    return -jnp.sum(jnp.where(probs > 0, probs * jnp.log(jnp.where(probs > 0, probs, 1)), 0), axis=-1)
