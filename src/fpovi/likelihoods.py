# SPDX-License-Identifier: Apache-2.0
r"""Likelihoods p(y | f), for one particle: f is ``(B, k)``, y ``(B, m)``, and so is every density.

Targets may be whole numbers; what is computed has the dtype of f.

A noise scale is kept as ``rho`` with :math:`\sigma = \log(1 + e^\rho)`; it starts at .5 (targets are expected in
standardised units) and has an inverse-gamma prior on the standard deviation itself.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import stats
from jaxtyping import Array, Float, Integer, Shaped

from fpovi.types import Key, Likelihood, PyTree, Scalar

NO_PARAMS: tuple[()] = ()


def inverse_gamma_log_prob(value: Array, shape: float = 1.0, scale: float = 0.1) -> Array:
    r""":math:`\alpha\log\beta - \log\Gamma(\alpha) - (\alpha+1)\log\sigma - \beta/\sigma`."""
    constant = shape * jnp.log(scale) - jax.scipy.special.gammaln(shape)
    return constant - (shape + 1) * jnp.log(value) - scale / value


def _softplus_inverse(value: float) -> Array:
    return jnp.asarray(math.log(math.expm1(value)), float)


class Floored(NamedTuple):
    """Parameters of a noise that cannot fall below a floor: σ² = floor² + softplus(rho)². The floor does not move."""

    rho: Float[Array, "*n"]
    floor: Float[Array, "*n"]

    @classmethod
    def at(cls, above: Float[Array, "*n"], floor: Float[Array, "..."]) -> "Floored":
        """The parameters with softplus(rho) = ``above``."""
        return cls(jnp.log(jnp.expm1(above)), jnp.broadcast_to(floor, above.shape))


class _Noise:
    """Where σ comes from: a fixed number, or a learned ``rho``, with or without a floor."""

    def __init__(self, fixed: float | None, start: float, floor: float = 0.0):
        for name, value in (("noise_scale", fixed), ("start", start)):
            if value is not None:
                _check_positive(name, value)
        if not 0 <= floor < math.inf or (floor > 0 and fixed is not None):
            raise ValueError(f"floor={floor} must be finite and not negative, and goes with a learned noise only")
        self.fixed, self.start, self.floor = fixed, start, floor

    def init(self) -> PyTree:
        if self.fixed is not None:
            return NO_PARAMS
        rho = _softplus_inverse(self.start)
        return Floored(rho, jnp.asarray(self.floor, float)) if self.floor else rho

    def scale(self, params: PyTree) -> Scalar:
        if self.fixed is not None:
            return jnp.asarray(self.fixed, float)
        if not self.floor:
            return jax.nn.softplus(params)
        return jnp.hypot(jax.lax.stop_gradient(params.floor), jax.nn.softplus(params.rho))

    def log_prior(self, params: PyTree) -> Scalar:
        return jnp.zeros(()) if self.fixed is not None else inverse_gamma_log_prob(self.scale(params))

    def log_jacobian(self, params: PyTree) -> Scalar:
        if self.fixed is not None:
            return jnp.zeros(())
        if not self.floor:
            return jax.nn.log_sigmoid(params)
        above = jax.nn.softplus(params.rho)
        return jnp.log(above) + jax.nn.log_sigmoid(params.rho) - jnp.log(self.scale(params))


def _check_positive(name: str, value: float) -> None:
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"{name}={value} must be positive and finite")


def _location_scale(
    noise: _Noise,
    log_pdf: Callable[[Array], Array],
    cdf: Callable[[Array], Array],
    draw: Callable[[Key, tuple[int, ...], jnp.dtype], Array],
    unit_variance: float,
    shared: bool,
) -> Likelihood:
    """y = f + σ·ε with ε from a standard distribution."""

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
    noise_scale: float | None = None, shared: bool = False, start: float = 0.5, floor: float = 0.0
) -> Likelihood:
    r""":math:`y \sim \mathcal N(f, \sigma^2)`.

    σ is ``noise_scale`` if given, else learned: one per particle, or with ``shared`` one for all of them. It never
    falls below ``floor``: networks that can interpolate the data would otherwise find no noise at all.

    >>> normal = gaussian(noise_scale=1.0)
    >>> float(normal.log_prob(normal.init(), jnp.zeros((1, 1)), jnp.zeros((1, 1)))[0, 0])  # -log √(2π)
    -0.9189...
    """
    noise = _Noise(noise_scale, start, floor)
    return _location_scale(noise, stats.norm.logpdf, stats.norm.cdf, jax.random.normal, 1.0, shared)._replace(
        normal=True
    )


def student_t(
    df: float = 4.0, noise_scale: float | None = None, shared: bool = False, start: float = 0.5
) -> Likelihood:
    r""":math:`y \sim f + \sigma\, t_\nu`: a Gaussian's shoulders with heavy tails; ``df`` is ν, above 2."""
    if not (df > 2 and math.isfinite(df)):
        raise ValueError(f"df={df} must be finite and above 2, or the variance does not exist")
    noise = _Noise(noise_scale, start)
    draw = lambda key, shape, dtype: jax.random.t(key, df, shape, dtype)  # noqa: E731
    log_pdf = lambda z: stats.t.logpdf(z, df)  # noqa: E731
    return _location_scale(noise, log_pdf, lambda z: _student_cdf(z, df), draw, df / (df - 2), shared)


def _student_cdf(z: Array, df: float) -> Array:
    """P(t ≤ z) by the incomplete beta function, of whichever of its two arguments x and 1 − x is not near 1."""
    square = z**2
    central = square < df
    a, b = jnp.where(central, 0.5, df / 2), jnp.where(central, df / 2, 0.5)
    half = 0.5 * jax.scipy.special.betainc(a, b, jnp.where(central, square, df) / (df + square))
    below = jnp.where(central, 0.5 - half, half)  # P(t ≤ −|z|)
    return jnp.where(z > 0, 1 - below, below)


def heteroscedastic(floor: float = 1e-3) -> Likelihood:
    r""":math:`y \sim \mathcal N(f_{1..m}, \sigma(f_{m+1..2m})^2)`, σ = floor + softplus: noise that depends on x."""
    _check_positive("floor", floor)

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
        normal=True,
    )


def _discrete(
    log_prob: Callable[[PyTree, Array, Array], Array],
    mean: Callable[[PyTree, Array], Array],
    variance: Callable[[PyTree, Array], Array],
    sample: Callable[[Key, PyTree, Array], Array],
    cdf: Callable[[PyTree, Array, Array], Array],
    canonical: Callable[[Array], Array] = lambda outputs: outputs,
) -> Likelihood:
    return Likelihood(
        init=lambda: NO_PARAMS,
        canonical=canonical,
        log_prob=log_prob,
        log_prior=lambda params: jnp.zeros(()),
        mean=mean,
        variance=variance,
        sample=sample,
        cdf=cdf,
        noise=lambda params: jnp.zeros(()),
        width=lambda m: m,
        targets=lambda k: k,
        discrete=True,
    )


def _check_classes(y: Any, k: int) -> None:
    y = np.asarray(y)
    if not np.issubdtype(y.dtype, np.integer) or y.min() < 0 or y.max() >= k:
        raise ValueError(
            f"y has dtype {y.dtype} and values {y.min()}…{y.max()}, but {k} classes are integers 0…{k - 1}"
        )


def _check_whole(low: int, high: int | float) -> Callable[[Any, int], None]:
    def check(y: Any, k: int) -> None:
        y = np.asarray(y)
        if np.any(y != np.round(y)) or y.min() < low or y.max() > high:
            wanted = f"{low} or {high}" if np.isfinite(high) else f"whole numbers from {low}"
            raise ValueError(f"y has values {y.min()}…{y.max()}, but this likelihood is for {wanted}")

    return check


def categorical() -> Likelihood:
    r"""Classes 0…k−1 with :math:`f = \log\mathrm{softmax}(\text{outputs})`, so that f is identified.

    y is ``(B, 1)`` of integers. ``mean`` is the vector of class probabilities and ``cdf`` is cumulative over classes.
    """

    def log_prob(params: PyTree, f: Float[Array, "B k"], y: Integer[Array, "B 1"]) -> Float[Array, "B 1"]:
        return jnp.take_along_axis(f, y, axis=-1)

    def cdf(params: PyTree, f: Float[Array, "B k"], y: Integer[Array, "B 1"]) -> Float[Array, "B 1"]:
        return jnp.take_along_axis(jnp.cumsum(jnp.exp(f), axis=-1), y, axis=-1)

    return _discrete(
        log_prob=log_prob,
        mean=lambda params, f: jnp.exp(f),
        variance=lambda params, f: jnp.exp(f) * (1 - jnp.exp(f)),
        sample=lambda key, params, f: jax.random.categorical(key, f)[..., None],
        cdf=cdf,
        canonical=jax.nn.log_softmax,
    )._replace(targets=lambda k: 1, classes=True, check=_check_classes)


def bernoulli() -> Likelihood:
    r""":math:`p(y=1) = \mathrm{sigmoid}(f)`, y in {0, 1}, any number of independent targets."""

    def log_prob(params: PyTree, f: Float[Array, "B m"], y: Shaped[Array, "B m"]) -> Float[Array, "B m"]:
        y = y.astype(f.dtype)
        return y * jax.nn.log_sigmoid(f) + (1 - y) * jax.nn.log_sigmoid(-f)

    return _discrete(
        log_prob=log_prob,
        mean=lambda params, f: jax.nn.sigmoid(f),
        variance=lambda params, f: jax.nn.sigmoid(f) * jax.nn.sigmoid(-f),
        sample=lambda key, params, f: jax.random.bernoulli(key, jax.nn.sigmoid(f)).astype(f.dtype),
        cdf=lambda params, f, y: jnp.where(y < 0, 0.0, jnp.where(y < 1, jax.nn.sigmoid(-f), 1.0)),
    )._replace(binary=True, check=_check_whole(0, 1))


def poisson() -> Likelihood:
    r"""Counts with rate :math:`e^f`."""
    rate = lambda params, f: jnp.exp(f)  # noqa: E731

    def log_prob(params: PyTree, f: Float[Array, "B m"], y: Shaped[Array, "B m"]) -> Float[Array, "B m"]:
        y = y.astype(f.dtype)
        return y * f - jnp.exp(f) - jax.scipy.special.gammaln(y + 1)

    def cdf(params: PyTree, f: Float[Array, "B m"], y: Shaped[Array, "B m"]) -> Float[Array, "B m"]:
        y = jnp.floor(y.astype(f.dtype))
        return jnp.where(y < 0, 0.0, jax.scipy.special.gammaincc(jnp.maximum(y, 0) + 1, jnp.exp(f)))

    return _discrete(
        log_prob=log_prob,
        mean=rate,
        variance=rate,
        sample=lambda key, params, f: jax.random.poisson(key, jnp.exp(f)).astype(f.dtype),
        cdf=cdf,
    )._replace(check=_check_whole(0, math.inf))


LIKELIHOODS = {
    "gaussian": gaussian,
    "heteroscedastic": heteroscedastic,
    "student_t": student_t,
    "categorical": categorical,
    "bernoulli": bernoulli,
    "poisson": poisson,
}
