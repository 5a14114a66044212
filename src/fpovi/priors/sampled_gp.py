# SPDX-License-Identifier: Apache-2.0
"""A Gaussian process with the covariance that a network's prior draws have: for networks without a known limit."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from fpovi._float64 import in_float64
from fpovi.priors._draws import check_draws, has_state, prior_draws
from fpovi.priors._outputs import (
    Outputs,
    degrees_of_freedom,
    for_precision,
    is_for_classes,
    pick,
    precision_times,
    put_back,
)
from fpovi.types import FunctionPrior, Key, Likelihood, Network

LOGIT_STD = 10.0


def sampled_gp(
    network: Network,
    likelihood: Likelihood | None = None,
    draws: int = 40,
    std: float | None = None,
    own_scale: bool = False,
    jitter: float = 1e-2,
) -> FunctionPrior:
    r"""Match a Gaussian process to fresh prior draws, its covariance the same for all outputs and pooled over them.

    .. math::
        C = \frac{1}{Mk} \sum_{m,c} g^m_c {g^m_c}^T, \qquad
        \nabla_f \log p(f_c) = -\frac{\nu - B - 1}{\nu} (C + \epsilon \bar C I)^{-1} f_c

    where :math:`g^m_c` is output c of draw m at the B points, :math:`\bar C` the mean variance, and ν = Mk. The outputs
    of a network whose last layer is linear, with independent weights of mean 0, have this covariance exactly, and no
    correlation between outputs. :func:`moment_matched` estimates all of the B·k × B·k covariance: with as many draws as
    here most of its directions have none, and in these the prior allows nothing but its floor.

    Args:
        network: where the draws come from.
        likelihood: whose f the prior is over; for classes the part of the logits that is centred over classes, with ν
            = M(k − 1).
        draws: M.
        std: standard deviation of an output under the prior, on average over the points: draws are multiplied by what
            gives it. By default 10 for logits, under which a class may be all but certain, and 1 for other outputs,
            which are standardised.
        own_scale: leave draws as they are, and ``std`` out.
        jitter: ε, in units of the mean variance.

    Note:
        The inverse of an estimated covariance is too large on average; the factor in front corrects that.
    """
    check_draws(draws)
    labels = likelihood is not None and likelihood.support.labels
    std = (LOGIT_STD if labels else 1.0) if std is None else std
    if not 0 < std < float("inf"):
        raise ValueError(f"std={std} must be positive and finite")
    if not jitter > 0:
        raise ValueError(f"jitter={jitter} must be positive")
    centred = is_for_classes(likelihood)

    @in_float64
    def solve(samples: Float[Array, "M B k"], picked: Float[Array, "n B c"], *across: Array) -> Float[Array, "n B c"]:
        points = picked.shape[1]
        freedom = draws * degrees_of_freedom(samples.shape[-1], samples.shape[-1], centred)
        covariance = jnp.einsum("mak,mbk->ab", samples, samples) / freedom
        variance = jnp.trace(covariance) / points
        scale = 1.0 if own_scale else std**2 / jnp.maximum(variance, jnp.finfo(variance.dtype).tiny)
        covariance = scale * (covariance + jitter * variance * jnp.eye(points, dtype=covariance.dtype))
        unbiased = max(freedom - points - 1, 1) / freedom
        return unbiased * precision_times(covariance, picked, across)

    def score(
        key: Key,
        f: Float[Array, "n B k"],
        x: Float[Array, "B *d_x"],
        outputs: Outputs = None,
        context: Float[Array, "C *d_x"] | None = None,
    ) -> Float[Array, "n B k"]:
        samples = pick(prior_draws(key, network, x, draws, likelihood, context), None, centred)
        picked, across = for_precision(f, outputs, centred)
        return put_back(-solve(samples, picked, *across), outputs, f.shape[-1], centred)

    return FunctionPrior(score, for_classes=centred, takes_context=has_state(network))
