# SPDX-License-Identifier: Apache-2.0
"""Normalisation by the statistics of a batch, of which some rows may be no data."""

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
    mean, variance = (statistic.astype(h.dtype) for statistic in running)
    if rows:
        axes = tuple(range(h.ndim - 1))
        mean = jnp.mean(h[:rows], axis=axes)
        variance = jnp.mean((h[:rows] - mean) ** 2, axis=axes)
        fresh = jax.lax.stop_gradient((mean, variance))
        running = jax.tree.map(lambda old, new: MOMENTUM * old + (1 - MOMENTUM) * new.astype(old.dtype), running, fresh)
    return (h - mean) * jax.lax.rsqrt(variance + EPSILON), running
