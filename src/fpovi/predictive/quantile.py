# SPDX-License-Identifier: Apache-2.0
"""Quantiles of a mixture over particles, by inverting its cdf."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fpovi.types import Likelihood, PyTree

MAX_EVALUATIONS = 200


def over_particles(
    function: Callable[..., Array], params: PyTree, f: Float[Array, "n B k"], *args: Array
) -> Float[Array, "n B _"]:
    """Return ``function(params, f, *args)`` of every particle."""
    return jax.vmap(lambda params, f: function(params, f, *args), axis_size=f.shape[0])(params, f)


@partial(jax.jit, static_argnums=(0, 1))
def mixture_quantile(
    likelihood: Likelihood, precision: float, params: PyTree, f: Float[Array, "n B k"], q: Float[Array, ""]
) -> Float[Array, "B m"]:
    r"""Return the mixture's q-quantile in the units of f, to a relative ``precision``.

    It lies between the extreme quantiles of the particles, and these where Cantelli's inequality puts them:
    :math:`\mu - \sigma\sqrt{(1-q)/q} \le F^{-1}(q) \le \mu + \sigma\sqrt{q/(1-q)}`.
    """
    mean = over_particles(likelihood.mean, params, f)
    std = jnp.sqrt(over_particles(likelihood.variance, params, f))
    low = jnp.min(mean - std * jnp.sqrt((1 - q) / q), axis=0)
    high = jnp.max(mean + std * jnp.sqrt(q / (1 - q)), axis=0)

    def excess(y: Array) -> Array:
        return jnp.mean(over_particles(likelihood.cdf, params, f, y), axis=0) - q

    if likelihood.support.atoms:  # the cdf is a staircase: the answer is the one whole number left between the ends
        _, high = _bracket(excess, low - 0.2, high + 0.2, lambda y: 0.3, smooth=False)
        return jnp.floor(high)
    # a quantile near 0 has no relative precision, but one in standard deviations, which is what the product is
    enough = precision / 10 * (high - low) * jnp.sqrt(q * (1 - q))
    low, high = _bracket(excess, low, high, lambda y: jnp.maximum(precision * jnp.abs(y), enough), smooth=True)
    return (low + high) / 2


class _Search(NamedTuple):
    """The crossing of every entry lies between ``y`` and ``a`` or between ``y`` and ``b``; ``at_`` is the excess."""

    evaluations: Array
    y: Array
    a: Array
    b: Array
    at_y: Array
    at_a: Array
    at_b: Array


def _bracket(
    excess: Callable[[Array], Array], low: Array, high: Array, gap: Callable[[Array], Array | float], smooth: bool
) -> tuple[Array, Array]:
    """Return ends, at most ``gap(y)`` apart, of an interval at whose start ``excess < 0`` and at whose end not.

    Halve the interval, or where the excess is ``smooth`` interpolate its inverse by a parabola if that promises
    to be monotone: Chandrupatla (1997), "A new hybrid quadratic/bisection algorithm".
    """

    def unfinished(search: _Search) -> Array:
        return jnp.abs(search.a - search.b) > gap(search.a)

    def narrow(search: _Search) -> _Search:
        # A point is placed one turn after it was evaluated. Worked out in the same turn, its value could be compiled
        # twice and rounded in two ways, and near 0 the sign we go by be another than the one we keep.
        evaluations, y, a, b, at_y, at_a, at_b = search
        beyond = (at_y < 0) == (at_a < 0)  # the crossing is between y and b, not between a and y
        b, c = jnp.where(beyond, b, a), jnp.where(beyond, a, b)
        at_b, at_c = jnp.where(beyond, at_b, at_a), jnp.where(beyond, at_a, at_b)
        share: Array | float = 0.5
        if smooth:
            least = jnp.minimum(gap(y) / jnp.abs(b - y), 1) / 2
            share = jnp.clip(_inverse_quadratic(y, b, c, at_y, at_b, at_c), least, 1 - least)
        following = y + share * (b - y)
        moved = _Search(evaluations + 1, following, y, b, excess(following), at_y, at_b)
        # a finished entry stays as it is however long the others take, so no answer depends on the other entries
        under_way = unfinished(search)
        return jax.tree.map(lambda new, old: jnp.where(under_way, new, old) if new.ndim else new, moved, search)

    # at the ends the sign is enough, as the first step is a halving
    middle = low + (high - low) / 2
    signs = -jnp.ones_like(low), jnp.ones_like(low)
    start = _Search(jnp.zeros((), int), middle, low, high, excess(middle), *signs)
    found = jax.lax.while_loop(lambda s: (s.evaluations < MAX_EVALUATIONS) & jnp.any(unfinished(s)), narrow, start)
    return jnp.minimum(found.a, found.b), jnp.maximum(found.a, found.b)


def _inverse_quadratic(a: Array, b: Array, c: Array, at_a: Array, at_b: Array, at_c: Array) -> Array:
    """Return where between a (0) and b (1) the parabola through the three points is 0, else the middle."""
    xi, phi = (a - b) / (c - b), (at_a - at_b) / (at_c - at_b)
    monotone = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
    share = at_a / (at_b - at_a) * at_c / (at_b - at_c)
    share += (c - a) / (b - a) * at_a / (at_c - at_a) * at_b / (at_c - at_b)
    return jnp.where(monotone, share, 0.5)
