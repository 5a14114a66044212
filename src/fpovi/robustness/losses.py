# SPDX-License-Identifier: Apache-2.0
r"""What an attack climbs to get away from a label, and descends to get to one.

All take the log-probabilities f of n particles and a label for each row, and act through what the ensemble predicts,
:math:`\bar p = \frac1n \sum_i p_i`.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

Loss = Callable[[Float[Array, "n B k"], Int[Array, " B"]], Float[Array, " B"]]


def mean_probability(f: Float[Array, "n B k"], label: Int[Array, " B"]) -> Float[Array, " B"]:
    r"""Return :math:`-\log \frac1n \sum_i p_i(y)`: particles that are sure of another class hardly count."""
    return -_log_mean(_of_label(f, label))


def mean_log(f: Float[Array, "n B k"], label: Int[Array, " B"]) -> Float[Array, " B"]:
    r"""Return :math:`-\frac1n \sum_i \log p_i(y)`: all particles count, also those that are sure of another class."""
    return -jnp.mean(_of_label(f, label), axis=0)


def margin(f: Float[Array, "n B k"], label: Int[Array, " B"]) -> Float[Array, " B"]:
    r"""Return :math:`\max_{c \ne y} \log \bar p(c) - \log \bar p(y)`, which is positive where the prediction is not y.

    Its gradient does not fade where the ensemble is sure: that of the others is a difference of numbers near 1, of
    which float32 keeps nothing once :math:`1 - \bar p(y)` is below 1e-7.
    """
    mixture = _log_mean(f)
    own = jnp.arange(mixture.shape[-1], dtype=label.dtype) == label[:, None]
    return jnp.max(jnp.where(own, -jnp.inf, mixture), axis=-1) - jnp.max(jnp.where(own, mixture, -jnp.inf), axis=-1)


def _of_label(f: Float[Array, "n B k"], label: Int[Array, " B"]) -> Float[Array, "n B"]:
    return jnp.take_along_axis(f, label[None, :, None], axis=-1)[..., 0]


def _log_mean(values: Float[Array, "n *rest"]) -> Float[Array, "*rest"]:
    return jax.nn.logsumexp(values, axis=0) - math.log(values.shape[0])


LOSSES: dict[str, Loss] = {"mean_probability": mean_probability, "mean_log": mean_log, "margin": margin}
