# SPDX-License-Identifier: Apache-2.0
"""Normalisation by the statistics of a batch, of which some rows may be no data."""

import math
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Statistics = tuple[Float[Array, " _"], Float[Array, " _"]]  # running mean and variance of every channel
MOMENTUM, EPSILON = 0.9, 1e-5


def no_statistics(channels: int) -> Statistics:
    """Return running statistics before the first batch."""
    return jnp.zeros(channels), jnp.ones(channels)


def normalise(h: Float[Array, "B *space c"], running: Statistics, rows: int) -> tuple[Array, Statistics]:
    r"""Return :math:`(h - \mu)/\sqrt{\sigma^2 + \epsilon}` for every channel, without scale and offset.

    Args:
        h: activations, channels last.
        running: statistics of earlier batches.
        rows: μ and σ² are those of the first ``rows``, which also move the running ones a tenth of the way; 0 to use
            the running ones and leave them.
    """
    if not rows:
        mean, variance = (statistic.astype(h.dtype) for statistic in running)
        return (h - mean) * jax.lax.rsqrt(variance + EPSILON), running
    normalised, fresh = _by_own_statistics(h, rows)
    return normalised, jax.tree.map(
        lambda old, new: MOMENTUM * old + (1 - MOMENTUM) * new.astype(old.dtype), running, fresh
    )


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def _by_own_statistics(h: Float[Array, "B *space c"], rows: int) -> tuple[Array, Statistics]:
    r"""Return h normalised by the statistics of its first rows, and these, which have no derivative.

    With N numbers per channel in these rows, y what is returned, and g its gradient, that of h is

    .. math:: \frac{1}{\sqrt{\sigma^2 + \epsilon}} \Big(g - \frac{w}{N} \sum g - \frac{w}{N} y \sum g y\Big)

    w being 1 in these rows and 0 in the others. On a CPU a ResNet-8 takes three quarters of the time that it takes with
    the derivative that JAX finds.
    """
    return _forward(h, rows)[0]


def _forward(h: Float[Array, "B *space c"], rows: int) -> tuple[tuple[Array, Statistics], tuple[Array, Array]]:
    axes = tuple(range(h.ndim - 1))
    mean = jnp.mean(h[:rows], axis=axes)
    variance = jnp.mean((h[:rows] - mean) ** 2, axis=axes)
    scale = jax.lax.rsqrt(variance + EPSILON)
    normalised = (h - mean) * scale
    return (normalised, (mean, variance)), (normalised, scale)


def _backward(rows: int, kept: tuple[Array, Array], gradients: tuple[Array, Statistics]) -> tuple[Array]:
    (y, scale), (g, _) = kept, gradients
    axes, numbers = tuple(range(y.ndim - 1)), rows * math.prod(y.shape[1:-1])
    common = (jnp.sum(g, axis=axes) + y * jnp.sum(g * y, axis=axes)) / numbers
    if rows < y.shape[0]:
        common = common.at[rows:].set(0)
    return (scale * (g - common),)


_by_own_statistics.defvjp(_forward, _backward)
