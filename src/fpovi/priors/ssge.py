# SPDX-License-Identifier: Apache-2.0
"""The prior's score, estimated from draws without a Gaussian in between."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from fpovi._fast.median import median
from fpovi._float64 import in_float64
from fpovi.priors._draws import check_draws, has_state, prior_draws
from fpovi.priors._outputs import Outputs, is_for_classes, pick, put_back
from fpovi.types import FunctionPrior, Key, Likelihood, Network


def ssge(
    network: Network,
    likelihood: Likelihood | None = None,
    draws: int = 200,
    kept: float = 0.99,
) -> FunctionPrior:
    r"""Estimate the prior's score by the spectral Stein gradient estimator on draws from it.

    .. math::
        \hat s(f) = \sum_{j \le J} \hat\beta_j\, \hat\psi_j(f), \quad
        \hat\psi_j(f) = \frac{\sqrt M}{\lambda_j} \sum_m u_{jm}\, k(f, f_m), \quad
        \hat\beta_j = -\frac1M \sum_m \nabla \hat\psi_j(f_m)

    with :math:`\lambda_j, u_j` the eigenpairs of the kernel matrix of the M draws.

    Args:
        network: where the draws come from.
        likelihood: whose f the prior is over; for classes that is log-softmax of the outputs.
        draws: M, drawn afresh for every key.
        kept: J is the number of leading eigenvalues that make up this share of their sum.

    Reference: Shi, Sun & Zhu (2018). The kernel is Gaussian, its lengthscale the median distance between draws.
    """
    check_draws(draws)
    if not 0 < kept <= 1:
        raise ValueError(f"kept={kept} must lie in (0, 1]")

    def score(
        key: Key,
        f: Float[Array, "n B k"],
        x: Float[Array, "B *d_x"],
        outputs: Outputs = None,
        context: Float[Array, "C *d_x"] | None = None,
    ) -> Float[Array, "n B k"]:
        samples = pick(prior_draws(key, network, x, draws, likelihood, context), outputs)
        picked = pick(f, outputs)
        share = jnp.asarray(kept, f.dtype)
        estimate = stein_score(picked.reshape(f.shape[0], -1), samples.reshape(draws, -1), share)
        return put_back(estimate.reshape(picked.shape), outputs, f.shape[-1])

    return FunctionPrior(score, for_classes=is_for_classes(likelihood), takes_context=has_state(network))


@in_float64
def stein_score(f: Float[Array, "n d"], samples: Float[Array, "M d"], kept: Float[Array, ""]) -> Float[Array, "n d"]:
    """Return the estimate of :func:`ssge` at f, given the draws."""
    size = samples.shape[0]
    squared = _squared(samples, samples)
    lengthscale2 = jnp.maximum(median(squared), 1e-12)
    gram = jnp.exp(-squared / (2 * lengthscale2))
    values, vectors = jnp.linalg.eigh(gram)
    values, vectors = values[::-1], vectors[:, ::-1]
    before = (jnp.cumsum(values) - values) / jnp.sum(values)  # share of the eigenvalues before j
    weight = jnp.where((before < kept) & (values > 1e-10 * values[0]), 1 / values, 0) * jnp.sqrt(size)
    psi = jnp.exp(-_squared(f, samples) / (2 * lengthscale2)) @ vectors * weight  # (n, J)
    # Σ_m' ∇ k(f_m', f_m) = Σ_m' −k(f_m', f_m)(f_m' − f_m)/ℓ²
    gradient = (gram.sum(axis=0)[:, None] * samples - gram.T @ samples) / lengthscale2  # (M, d)
    beta = -(vectors.T @ gradient) * weight[:, None] / size  # (J, d)
    return psi @ beta


def _squared(a: Float[Array, "A d"], b: Float[Array, "B d"]) -> Float[Array, "A B"]:
    return jnp.sum(a**2, axis=1)[:, None] + jnp.sum(b**2, axis=1)[None, :] - 2 * a @ b.T
