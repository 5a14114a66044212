# SPDX-License-Identifier: Apache-2.0
"""A Gaussian with the first two moments of fresh prior draws: the prior of the paper."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from fpovi._float64 import in_float64
from fpovi.priors._draws import check_draws, has_state, prior_draws
from fpovi.priors._outputs import Outputs, is_for_classes, pick, put_back
from fpovi.types import FunctionPrior, Key, Likelihood, Network


def moment_matched(
    network: Network,
    likelihood: Likelihood | None = None,
    draws: int = 40,
    floor: float = 1e-3,
) -> FunctionPrior:
    r"""Match a Gaussian to ``draws`` functions from the network's prior, drawn afresh for every key.

    .. math:: \nabla_f \log p(f) = -V \max(\Lambda, \text{floor})^{-1} V^T (f - m)

    where m and :math:`V \Lambda V^T` are mean and covariance of the draws at x, all outputs together.

    Args:
        network: where the draws come from.
        likelihood: whose f the prior is over; for classes that is log-softmax of the outputs.
        draws: how many. The covariance is good for fewer points than draws.
        floor: eigenvalues of the covariance are raised to this value.

    Reference: Wang et al. (2019), "Function-space prior gradient"; the floor is that of their experiments.
    """
    check_draws(draws)
    if not floor > 0:
        raise ValueError(f"floor={floor} must be positive")

    @in_float64
    def precision_times(f: Float[Array, "n d"], samples: Float[Array, "M d"]) -> Float[Array, "n d"]:
        mean = jnp.mean(samples, axis=0)
        centred = samples - mean
        values, vectors = jnp.linalg.eigh(centred.T @ centred / (draws - 1))
        values = jnp.maximum(values, floor)
        coordinates = (f - mean) @ vectors
        return (coordinates / values) @ vectors.T

    def score(
        key: Key,
        f: Float[Array, "n B k"],
        x: Float[Array, "B *d_x"],
        outputs: Outputs = None,
        context: Float[Array, "C *d_x"] | None = None,
    ) -> Float[Array, "n B k"]:
        samples = pick(prior_draws(key, network, x, draws, likelihood, context), outputs)
        picked = pick(f, outputs)
        solved = precision_times(picked.reshape(f.shape[0], -1), samples.reshape(draws, -1))
        return put_back(-solved.reshape(picked.shape), outputs, f.shape[-1])

    return FunctionPrior(score, for_classes=is_for_classes(likelihood), takes_context=has_state(network))
