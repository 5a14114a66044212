# SPDX-License-Identifier: Apache-2.0
"""Likelihoods of real numbers."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.scipy import stats
from jaxtyping import Array, Float, Shaped

from fpovi.likelihoods.noise import NO_PARAMS, Noise, check_positive
from fpovi.types import Key, Likelihood, PyTree, Scalar


def _location_scale(
    noise: Noise,
    log_pdf: Callable[[Array], Array],
    cdf: Callable[[Array], Array],
    draw: Callable[[Key, tuple[int, ...], jnp.dtype], Array],
    unit_variance: float,
    shared: bool,
) -> Likelihood:
    """Return the likelihood of y = f + σ·ε with ε from a standard distribution."""

    def scale(params: PyTree, f: Array) -> Scalar:
        return noise.scale(params).astype(f.dtype)

    def log_prob(params: PyTree, f: Float[Array, "B m"], y: Shaped[Array, "B m"]) -> Float[Array, "B m"]:
        # a product with ones: so is the derivative in the scale then, where XLA's sum would be slow
        precision = jnp.ones((f.size, 1), f.dtype) @ (1 / scale(params, f))[None]
        return (log_pdf((y.astype(f.dtype) - f).ravel() * precision) + jnp.log(precision)).reshape(f.shape)

    return Likelihood(
        init=noise.init,
        canonical=lambda outputs: outputs,
        log_prob=log_prob,
        log_prior=noise.log_prior,
        log_jacobian=noise.log_jacobian,
        mean=lambda params, f: f,
        variance=lambda params, f: jnp.full_like(f, unit_variance) * scale(params, f) ** 2,
        sample=lambda key, params, f: f + scale(params, f) * draw(key, f.shape, f.dtype),
        cdf=lambda params, f, y: cdf((y.astype(f.dtype) - f) / scale(params, f)),
        noise=noise.scale,
        width=lambda m: m,
        targets=lambda k: k,
        shared=shared,
    )


def gaussian(
    noise_scale: float | None = None, shared: bool = False, start: float = 0.5, floor: float | None = None
) -> Likelihood:
    r"""Return :math:`y \sim \mathcal N(f, \sigma^2)`.

    Args:
        noise_scale: σ in the units of the targets the network learns; None learns it, one for every particle.
        shared: learn one σ for all particles.
        start: where a learned σ starts; with a floor, σ² = floor² + start².
        floor: what a learned σ never falls below, as networks that interpolate the data would find no noise at all;
            1e-3 by default, 0 for none (the paper's).

    >>> normal = gaussian(noise_scale=1.0)
    >>> float(normal.log_prob(normal.init(), jnp.zeros((1, 1)), jnp.zeros((1, 1)))[0, 0])  # -log √(2π)
    -0.9189...
    """
    least = 1e-3 if floor is None and noise_scale is None else floor or 0.0
    noise = Noise(noise_scale, start, least)
    one = lambda params, f: (jnp.ones_like(f), f, jnp.full_like(f, noise.scale(params)))  # noqa: E731
    return _location_scale(noise, stats.norm.logpdf, stats.norm.cdf, jax.random.normal, 1.0, shared)._replace(
        normal_components=lambda params, f: _only(*one(params, f))
    )


def _only(weight: Array, mean: Array, scale: Array) -> tuple[Array, Array, Array]:
    """Return a mixture of one component."""
    return weight[None], mean[None], scale[None]


def student_t(
    df: float = 4.0, noise_scale: float | None = None, shared: bool = False, start: float = 0.5
) -> Likelihood:
    r"""Return :math:`y \sim f + \sigma\, t_\nu`, which looks like a Gaussian in the middle and has heavy tails.

    Args:
        df: ν, above 2.
        noise_scale, shared, start: as in :func:`gaussian`.
    """
    if not (df > 2 and math.isfinite(df)):
        raise ValueError(f"df={df} must be finite and above 2, or the variance does not exist")
    noise = Noise(noise_scale, start, floor=0.0)
    draw = lambda key, shape, dtype: jax.random.t(key, df, shape, dtype)  # noqa: E731
    log_pdf = lambda z: stats.t.logpdf(z, df)  # noqa: E731
    return _location_scale(noise, log_pdf, lambda z: _student_cdf(z, df), draw, df / (df - 2), shared)


def _student_cdf(z: Array, df: float) -> Array:
    """Return P(t ≤ z) by the incomplete beta function, of whichever of its two arguments x and 1 − x is not near 1."""
    square = z**2
    central = square < df
    a, b = jnp.where(central, 0.5, df / 2), jnp.where(central, df / 2, 0.5)
    half = 0.5 * jax.scipy.special.betainc(a, b, jnp.where(central, square, df) / (df + square))
    below = jnp.where(central, 0.5 - half, half)  # P(t ≤ −|z|)
    return jnp.where(z > 0, 1 - below, below)


def heteroscedastic(floor: float = 1e-3) -> Likelihood:
    r"""Return :math:`y \sim \mathcal N(f_{1..m}, \sigma(f_{m+1..2m})^2)`, noise that depends on x.

    Args:
        floor: the least scale: σ = floor + softplus.
    """
    check_positive("floor", floor)

    def split(f: Float[Array, "B k"]) -> tuple[Array, Array]:
        mean, raw = jnp.split(f, 2, axis=-1)
        return mean, floor + jax.nn.softplus(raw)

    def sample(key: Key, params: PyTree, f: Array) -> Array:
        mean, scale = split(f)
        return mean + scale * jax.random.normal(key, mean.shape, mean.dtype)

    return Likelihood(
        init=lambda: NO_PARAMS,
        canonical=lambda outputs: outputs,
        log_prob=lambda params, f, y: stats.norm.logpdf(y.astype(f.dtype), *split(f)),
        log_prior=lambda params: jnp.zeros(()),
        mean=lambda params, f: split(f)[0],
        variance=lambda params, f: split(f)[1] ** 2,
        sample=sample,
        cdf=lambda params, f, y: stats.norm.cdf(y.astype(f.dtype), *split(f)),
        noise=lambda params: jnp.zeros(()),
        width=lambda m: 2 * m,
        targets=lambda k: k // 2,
        normal_components=lambda params, f: _only(jnp.ones_like(split(f)[0]), *split(f)),
    )
