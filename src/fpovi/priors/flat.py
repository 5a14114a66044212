# SPDX-License-Identifier: Apache-2.0
"""The prior that prefers no function."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from fpovi.priors._outputs import Outputs
from fpovi.types import FunctionPrior, Key


def flat() -> FunctionPrior:
    r"""Return the improper prior :math:`p(f(x)) \propto 1`: only likelihood and repulsion act."""

    def score(
        key: Key, f: Float[Array, "n B k"], x: Float[Array, "B *d_x"], outputs: Outputs = None
    ) -> Float[Array, "n B k"]:
        return jnp.zeros_like(f)

    def log_prob(key: Key, f: Float[Array, "n B k"], x: Float[Array, "B *d_x"]) -> Float[Array, " n"]:
        return jnp.zeros(f.shape[0], f.dtype)

    return FunctionPrior(score, log_prob, for_classes=True)
