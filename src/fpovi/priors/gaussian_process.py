# SPDX-License-Identifier: Apache-2.0
"""A Gaussian process with any covariance function, in closed form."""

from collections.abc import Callable

import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from fpovi._float64 import in_float64
from fpovi.priors._outputs import (
    Outputs,
    degrees_of_freedom,
    for_precision,
    is_for_classes,
    pick,
    precision_times,
    put_back,
)
from fpovi.types import FunctionPrior, Key, Likelihood

Covariance = Callable[[Float[Array, "A d_x"], Float[Array, "B d_x"]], Float[Array, "A B"]]


def gaussian_process(
    covariance: Covariance, likelihood: Likelihood | None = None, jitter: float = 1e-6
) -> FunctionPrior:
    r"""Return the prior f(x) ~ N(0, C), independently for every output.

    .. math:: C = \mathrm{cov}(x, x) + \epsilon I, \qquad \nabla_f \log p(f) = -C^{-1} f

    Args:
        covariance: ``covariance(a, b)`` for inputs ``(A, d_x)`` and ``(B, d_x)``; it is called in double precision.
        likelihood: whose f the prior is over. For classes only the part of f that is centred over the outputs counts,
            as a Gaussian over logits tells nothing of their common shift: C is replaced by
            :math:`C \otimes (I - 11^T/k)` and its pseudo-inverse (:mod:`fpovi.priors._outputs`).
        jitter: ε. It biases the prior where C has eigenvalues of its size, and makes the score stiff (of size 1/ε)
            when it is small: as small as the problem needs, no smaller.
    """
    if jitter < 0:
        raise ValueError(f"jitter={jitter} must not be negative")
    centred = is_for_classes(likelihood)

    def between(x: Array) -> Array:
        return covariance(x, x) + jitter * jnp.eye(x.shape[0], dtype=x.dtype)

    @in_float64
    def solve64(x: Array, picked: Array, *across: Array) -> Array:
        return precision_times(between(x), picked, across)

    @in_float64
    def log_prob64(f: Array, x: Array) -> Array:
        n, rows, k = f.shape
        factor = jnp.linalg.cholesky(between(x))
        stacked = jnp.moveaxis(pick(f, None, centred), 1, 0).reshape(rows, -1)  # (B, n·k)
        white = solve_triangular(factor, stacked, lower=True)
        quadratic = jnp.sum(white.reshape(rows, n, k) ** 2, axis=(0, 2))
        log_norm = jnp.sum(jnp.log(jnp.diagonal(factor))) + rows / 2 * jnp.log(2 * jnp.pi)
        return -quadratic / 2 - degrees_of_freedom(k, k, centred) * log_norm

    def score(
        key: Key, f: Float[Array, "n B k"], x: Float[Array, "B d_x"], outputs: Outputs = None
    ) -> Float[Array, "n B k"]:
        picked, across = for_precision(f, outputs, centred)
        return put_back(-solve64(x, picked, *across), outputs, f.shape[-1], centred)

    def log_prob(key: Key, f: Float[Array, "n B k"], x: Float[Array, "B d_x"]) -> Float[Array, " n"]:
        return log_prob64(f, x)

    return FunctionPrior(score, log_prob, for_classes=centred)
