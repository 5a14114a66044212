# SPDX-License-Identifier: Apache-2.0
"""What particles say about new inputs: the equally weighted mixture of their predictive distributions."""

import math
from collections.abc import Callable
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from fpovi.inference.particles import forward
from fpovi.types import Key, Likelihood, Network, Numbers, PyTree, State

MAX_EVALUATIONS = 200
Carry = tuple[Array, Array, Array, Array, Array, Array, Array]


def predict(
    network: Network,
    likelihood: Likelihood,
    state: State,
    x: Float[Array | np.ndarray, "B *d_x"],
    shift: Numbers = 0.0,
    scale: Numbers = 1.0,
) -> "Predictive":
    """The predictive distribution at x; targets were standardised as (y − shift)/scale, all alike or one by one."""
    if not isinstance(x, jax.core.Tracer) and not np.all(np.isfinite(x)):
        raise ValueError(f"x has {np.sum(~np.isfinite(x))} NaN or infinite values: all must be finite")
    outputs, _ = forward(network, state.particles, state.network_state, jnp.asarray(x))
    units = [jnp.asarray(unit, outputs.dtype) for unit in (shift, scale)]
    if not any(isinstance(unit, jax.core.Tracer) for unit in (shift, scale)):
        _check_units(np.asarray(shift), np.asarray(scale), likelihood, outputs.shape[-1])
    return Predictive(likelihood, likelihood.canonical(outputs), state.params, *units)


def _check_units(shift: np.ndarray, scale: np.ndarray, likelihood: Likelihood, k: int) -> None:
    targets = likelihood.targets(k)
    if any(unit.shape not in ((), (1,), (targets,)) for unit in (shift, scale)):
        raise ValueError(f"shift={shift} and scale={scale} must be one number, or one for each of {targets} targets")
    if not (np.all(np.isfinite(shift)) and np.all(np.isfinite(scale)) and np.all(scale > 0)):
        raise ValueError(f"shift={shift} must be finite, and scale={scale} finite and positive")
    if likelihood.discrete and (np.any(shift != 0) or np.any(scale != 1)):
        raise ValueError(f"shift={shift} and scale={scale} must be left out: counts and classes have no units")


class Predictive(eqx.Module):
    r"""A mixture over n particles, :math:`p(y) = \frac1n \sum_i p(y \mid f_i)`, in the target's own units.

    Everything per input and target is ``(B, m)``; y may be ``(B,)`` where there is one target. For classes
    (``categorical``), see :meth:`probs`, :meth:`entropy` and :meth:`mutual_information`.
    """

    likelihood: Likelihood = eqx.field(static=True)
    f: Float[Array, "n B k"]
    params: PyTree
    shift: Float[Array, "..."]
    scale: Float[Array, "..."]

    def _each(self, function: Callable[..., Array], *args: Array) -> Float[Array, "n B _"]:
        return _over_particles(function, self.params, self.f, *args)

    @property
    def particle_means(self) -> Float[Array, "n B m"]:
        """What each particle expects of y: for classes, its probabilities."""
        return self.shift + self.scale * self._each(self.likelihood.mean)

    @property
    def mean(self) -> Float[Array, "B m"]:
        """The mean over particles."""
        return self.shift + self.scale * jnp.mean(self._each(self.likelihood.mean), axis=0)

    @property
    def epistemic_std(self) -> Float[Array, "B m"]:
        """Disagreement: the standard deviation of the particles' means."""
        return self.scale * jnp.std(self._each(self.likelihood.mean), axis=0)

    @property
    def aleatoric_std(self) -> Float[Array, "B m"]:
        """Noise: the root of the mean over particles of their variances."""
        return self.scale * jnp.sqrt(jnp.mean(self._each(self.likelihood.variance), axis=0))

    @property
    def std(self) -> Float[Array, "B m"]:
        """The whole: √(epistemic² + aleatoric²)."""
        return jnp.hypot(self.epistemic_std, self.aleatoric_std)

    def log_prob(self, y: Numbers) -> Float[Array, " B"]:
        r""":math:`\log \frac1n \sum_i p(y \mid f_i)`, the targets of a row taken together."""
        each = self._each(self.likelihood.log_prob, self._standardised(y))
        units = jnp.sum(jnp.broadcast_to(jnp.log(self.scale), (self._num_targets,)))
        return jax.nn.logsumexp(jnp.sum(each, axis=-1), axis=0) - math.log(self.f.shape[0]) - units

    def cdf(self, y: Numbers) -> Float[Array, "B m"]:
        """P(Y ≤ y), target by target."""
        return jnp.mean(self._each(self.likelihood.cdf, self._standardised(y)), axis=0)

    def quantile(self, q: float) -> Float[Array, "B m"]:
        """The smallest y with P(Y ≤ y) ≥ q, by inverting the mixture's cdf."""
        if not 0 < q < 1:
            raise ValueError(f"q={q} must lie strictly between 0 and 1")
        if self.likelihood.classes:
            raise ValueError("classes have no order and so no quantiles: see probs")
        with jax.enable_x64(True):  # near 1 a cdf in float32 has no digits left
            wide = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), (self.params, self.f))
            y = _quantile(self.likelihood, float(jnp.finfo(self.f.dtype).eps), *wide, q).astype(self.f.dtype)
        return self.shift + self.scale * y

    def interval(self, level: float = 0.95) -> tuple[Float[Array, "B m"], Float[Array, "B m"]]:
        """The central interval that holds ``level`` of the probability."""
        if not 0 < level < 1:
            raise ValueError(f"level={level} must lie strictly between 0 and 1")
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)

    def sample(self, key: Key, n: int) -> Shaped[Array, "draws B m"]:
        """n draws of y at all inputs: each from one random particle, so a draw is one coherent function plus noise."""
        if n < 1:
            raise ValueError(f"n={n} draws were asked for, but at least 1 is needed")
        key_which, key_noise = jax.random.split(key)
        which = jax.random.randint(key_which, (n,), 0, self.f.shape[0])
        chosen = jax.tree.map(lambda leaf: leaf[which], (self.params, self.f))
        draws = jax.vmap(self.likelihood.sample)(jax.random.split(key_noise, n), *chosen)
        return draws if self.likelihood.discrete else self.shift + self.scale * draws

    @property
    def probs(self) -> Float[Array, "B k"]:
        """For classes: the mean over particles of their probabilities."""
        if not self.likelihood.classes:
            raise ValueError("probs, entropy and mutual_information are for classes (categorical): see mean and std")
        return self.mean

    @property
    def entropy(self) -> Float[Array, " B"]:
        """For classes: the entropy of :attr:`probs`, total uncertainty in nats."""
        return _entropy(self.probs)

    @property
    def mutual_information(self) -> Float[Array, " B"]:
        """For classes: entropy less the particles' mean entropy, the part that more data could remove."""
        return jnp.maximum(self.entropy - jnp.mean(_entropy(self.particle_means), axis=0), 0)

    @property
    def _num_targets(self) -> int:
        return self.likelihood.targets(self.f.shape[-1])

    def _standardised(self, y: Numbers) -> Shaped[Array, "B m"]:
        """y as the likelihood takes it."""
        y = jnp.asarray(y)
        y = y[:, None] if y.ndim == 1 else y
        wanted = (self.f.shape[1], self._num_targets)
        if y.shape != wanted:
            raise ValueError(f"y has shape {y.shape}, but {wanted} is needed: a row for every input")
        if not self.likelihood.classes:
            y = y.astype(self.f.dtype)
        elif not jnp.issubdtype(y.dtype, jnp.integer):
            raise ValueError(f"y has dtype {y.dtype}, but classes are integers 0…{self.f.shape[-1] - 1}")
        return y if self.likelihood.discrete else (y - self.shift) / self.scale


def _over_particles(
    function: Callable[..., Array], params: PyTree, f: Float[Array, "n B k"], *args: Array
) -> Float[Array, "n B _"]:
    """``function(params, f, *args)`` for every particle."""
    return jax.vmap(lambda params, f: function(params, f, *args), axis_size=f.shape[0])(params, f)


@partial(jax.jit, static_argnums=(0, 1))
def _quantile(
    likelihood: Likelihood, precision: float, params: PyTree, f: Float[Array, "n B k"], q: Float[Array, ""]
) -> Float[Array, "B m"]:
    r"""The mixture's q-quantile in the units of f, to a relative ``precision``.

    It lies between the extreme quantiles of the particles, and these where Cantelli's inequality puts them:
    :math:`\mu - \sigma\sqrt{(1-q)/q} \le F^{-1}(q) \le \mu + \sigma\sqrt{q/(1-q)}`.
    """
    mean = _over_particles(likelihood.mean, params, f)
    std = jnp.sqrt(_over_particles(likelihood.variance, params, f))
    low = jnp.min(mean - std * jnp.sqrt((1 - q) / q), axis=0)
    high = jnp.max(mean + std * jnp.sqrt(q / (1 - q)), axis=0)

    def excess(y: Array) -> Array:
        return jnp.mean(_over_particles(likelihood.cdf, params, f, y), axis=0) - q

    if likelihood.discrete:  # the cdf is a staircase: the answer is the one whole number left between the ends
        _, high = _crossing(excess, low - 0.2, high + 0.2, lambda y: 0.3, smooth=False)
        return jnp.floor(high)
    # a quantile near 0 has no relative precision, but one in standard deviations, which is what the product is
    enough = precision / 10 * (high - low) * jnp.sqrt(q * (1 - q))
    low, high = _crossing(excess, low, high, lambda y: jnp.maximum(precision * jnp.abs(y), enough), smooth=True)
    return (low + high) / 2


def _crossing(
    excess: Callable[[Array], Array], low: Array, high: Array, gap: Callable[[Array], Array | float], smooth: bool
) -> tuple[Array, Array]:
    """Ends, no more than ``gap(y)`` apart, of an interval at whose start ``excess < 0`` and at whose end not.

    Halves the interval, or where the excess is ``smooth`` interpolates its inverse by a parabola if that promises
    to be monotone: Chandrupatla (1997), "A new hybrid quadratic/bisection algorithm".
    """

    def unfinished(carry: Carry) -> Array:
        return (carry[0] < MAX_EVALUATIONS) & jnp.any(_apart(carry, gap))

    def narrow(carry: Carry) -> Carry:
        # A point is placed one turn after it was evaluated. Worked out in the same turn, its value could be compiled
        # twice and rounded in two ways, and near 0 the sign we go by be another than the one we keep.
        count, y, a, b, at_y, at_a, at_b = carry
        beyond = (at_y < 0) == (at_a < 0)  # the crossing is between y and b, not between a and y
        b, c = jnp.where(beyond, b, a), jnp.where(beyond, a, b)
        at_b, at_c = jnp.where(beyond, at_b, at_a), jnp.where(beyond, at_a, at_b)
        share: Array | float = 0.5
        if smooth:
            least = jnp.minimum(gap(y) / jnp.abs(b - y), 1) / 2
            share = jnp.clip(_inverse_quadratic(y, b, c, at_y, at_b, at_c), least, 1 - least)
        following = y + share * (b - y)
        moved: Carry = count + 1, following, y, b, excess(following), at_y, at_b
        # one that has arrived stays, however long the others take: no answer depends on what else is asked
        under_way = _apart(carry, gap)
        return jax.tree.map(lambda new, old: jnp.where(under_way, new, old) if new.ndim else new, moved, carry)

    # at the ends the sign is enough, as the first step is a halving
    middle = low + (high - low) / 2
    signs = -jnp.ones_like(low), jnp.ones_like(low)
    start = (jnp.zeros((), int), middle, low, high, excess(middle), *signs)
    _, _, a, b, *_ = jax.lax.while_loop(unfinished, narrow, start)
    return jnp.minimum(a, b), jnp.maximum(a, b)


def _apart(carry: Carry, gap: Callable[[Array], Array | float]) -> Array:
    _, _, a, b, *_ = carry
    return jnp.abs(a - b) > gap(a)


def _inverse_quadratic(a: Array, b: Array, c: Array, at_a: Array, at_b: Array, at_c: Array) -> Array:
    """Where between a (0) and b (1) the parabola through the three points puts value 0, else the middle."""
    xi, phi = (a - b) / (c - b), (at_a - at_b) / (at_c - at_b)
    monotone = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
    share = at_a / (at_b - at_a) * at_c / (at_b - at_c)
    share += (c - a) / (b - a) * at_a / (at_c - at_a) * at_b / (at_c - at_b)
    return jnp.where(monotone, share, 0.5)


def _entropy(probs: Float[Array, "*batch k"]) -> Float[Array, "*batch"]:
    return -jnp.sum(jnp.where(probs > 0, probs * jnp.log(jnp.where(probs > 0, probs, 1)), 0), axis=-1)
