# SPDX-License-Identifier: Apache-2.0
"""Scale a fitted model's uncertainty by one number, learned on held-out data."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from fpovi.calibration.held_out import (
    Array64,
    checked_targets,
    compute_in_float64,
    normalised_weights,
    require_classes,
    weighted_mean,
)
from fpovi.predictive import Predictive
from fpovi.types import Key, Likelihood, Numbers, PyTree, Support

FACTORS = np.geomspace(1e-3, 1e3, 61)
TEMPERATURES = (1e-2, 1e2)
PRECISION = 1e-8  # of the logarithm


def variance_scaling(predictive: Predictive, y: Numbers, sample_weight: Numbers | None = None) -> float:
    r"""Return the factor c on standard deviations for which :math:`m + c\,(Y - m)` has the lowest NLL; m is the mean.

    For one Gaussian particle, :math:`c^2` is the mean of :math:`(y - m)^2 / \sigma^2`. Several targets share c. It is
    sought between 1e-3 and 1e3; pass it to :func:`recalibrate`.

    Args:
        predictive: what was predicted for B held-out rows; numbers that are not counts.
        y: their targets ``(B, m)`` in their own units.
        sample_weight: weights ``(B,)`` of the rows; equal by default.
    """
    _stretchable(predictive, "variance_scaling")
    y = checked_targets(predictive, y)
    weight = normalised_weights(sample_weight, len(y))

    def loss(log_factor: float) -> float:
        return float(compute_in_float64(predictive, _stretched_nll, y, weight, log_factor))

    # a mixture's NLL may have several valleys: look everywhere before going down
    grid = np.log(FACTORS)
    best = int(np.argmin([loss(at) for at in grid]))
    around = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    return float(np.exp(minimize_scalar(loss, bounds=around, method="bounded", options={"xatol": PRECISION}).x))


def temperature_scaling(predictive: Predictive, y: Numbers, sample_weight: Numbers | None = None) -> float:
    r"""Return the T for which classes with probability proportional to :math:`\bar p_k^{1/T}` have the lowest NLL.

    :math:`\bar p` is the mean over particles: pooled first, tempered then. Above 1 it softens, below 1 it sharpens.
    It is sought between .01 and 100, and is near .01 when every held-out row is right; pass it to :func:`recalibrate`.

    Args:
        predictive: what was predicted for B held-out rows; classes, or 0 and 1.
        y: their classes ``(B,)`` as integers, or 0 and 1 ``(B, m)``.
        sample_weight: weights ``(B,)`` of the rows; equal by default.
    """
    require_classes(predictive, "temperature_scaling")
    y = checked_targets(predictive, y).astype(np.int64)
    log_probs: Array64 = compute_in_float64(predictive, _log_class_probs)

    def loss(log_temperature: float) -> float:
        tempered = log_softmax(log_probs * np.exp(-log_temperature), axis=-1)
        return weighted_mean(-np.take_along_axis(tempered, y[..., None], axis=-1)[..., 0], sample_weight)

    # convex in 1/T, so there is one valley
    bounds = np.log(TEMPERATURES)
    return float(np.exp(minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": PRECISION}).x))


def recalibrate(predictive: Predictive, factor: float) -> Predictive:
    r"""Return the predictive distribution with its spread multiplied, or its classes tempered, by ``factor``.

    For numbers, it is the distribution of :math:`m + c\,(Y - m)`: noise and disagreement both grow about the mean. For
    classes and 0 or 1, it is one pooled particle at temperature ``factor``: disagreement between particles
    (``mutual_information``, ``epistemic_std``) is lost, so ask the original for it.

    Args:
        predictive: a predictive distribution of anything but counts.
        factor: c for numbers (see :func:`variance_scaling`), T for classes (see :func:`temperature_scaling`);
            positive, and 1 changes nothing.
    """
    if not (factor > 0 and np.isfinite(factor)):
        raise ValueError(f"factor={factor} must be positive and finite")
    if predictive.likelihood.support.labels:
        return _temper(predictive, jnp.asarray(factor, predictive.f.dtype))
    _stretchable(predictive, "recalibrate")
    return _stretch(predictive, jnp.asarray(factor, predictive.f.dtype))


def _stretchable(predictive: Predictive, name: str) -> None:
    if predictive.likelihood.support.labels:
        raise ValueError(f"{name} is for numbers, but these targets are classes: see temperature_scaling")
    if predictive.likelihood.support.atoms:
        raise ValueError(f"{name} is for targets that can be stretched, but these are counts: see conformal")


@jax.jit
def _log_class_probs(predictive: Predictive) -> Float[Array, "B m k"]:
    """Return the mixture's log class probabilities, from those of the particles so that none underflows."""
    f, likelihood = predictive.f, predictive.likelihood
    shape = (f.shape[1], likelihood.targets(f.shape[-1]))

    def of(label: int) -> Array:
        y = jnp.full(shape, label)
        each = jax.vmap(lambda params, f: likelihood.log_prob(params, f, y), axis_size=f.shape[0])(predictive.params, f)
        return jax.nn.logsumexp(each, axis=0) - jnp.log(jnp.asarray(f.shape[0], f.dtype))

    count = 2 if likelihood.support is Support.BINARY else f.shape[-1]
    return jnp.stack([of(label) for label in range(count)], axis=-1)


@jax.jit
def _temper(predictive: Predictive, temperature: Float[Array, ""]) -> Predictive:
    logits = _log_class_probs(predictive) / temperature
    binary = predictive.likelihood.support is Support.BINARY
    f = logits[..., 1] - logits[..., 0] if binary else jax.nn.log_softmax(logits[:, 0])
    first = jax.tree.map(lambda leaf: leaf[:1], predictive.params)
    return Predictive(predictive.likelihood, f[None], first, predictive.shift, predictive.scale)


@jax.jit
def _stretched_nll(
    predictive: Predictive, y: Float[Array, "B m"], weight: Float[Array, " B"], log_factor: Float[Array, ""]
) -> Float[Array, ""]:
    return -weight @ _stretch(predictive, jnp.exp(log_factor)).log_prob(y)


@jax.jit
def _stretch(predictive: Predictive, factor: Float[Array, ""]) -> Predictive:
    f, likelihood = predictive.f, predictive.likelihood
    means = jax.vmap(likelihood.mean, axis_size=f.shape[0])(predictive.params, f)
    centre = jnp.broadcast_to(jnp.mean(means, axis=0), means.shape)
    params = (predictive.params, jnp.full(f.shape[0], factor))
    wide = jnp.concatenate([f, centre], axis=-1)
    return Predictive(_stretched(likelihood), wide, params, predictive.shift, predictive.scale)


@lru_cache(maxsize=64)  # the same one again, so that quantiles are not compiled anew
def _stretched(base: Likelihood) -> Likelihood:
    """Return the likelihood of y = centre + c·(y' − centre), y' from ``base``; f ends in the centre, params in c."""
    columns = base.width(1) + 1

    def split(f: Float[Array, "B k"]) -> tuple[Array, Array]:
        targets = f.shape[-1] // columns
        return f[:, :-targets], f[:, -targets:]

    def back(params: PyTree, f: Array, y: Array) -> tuple[PyTree, Array, Array]:
        own, centre = split(f)
        return params[0], own, centre + (y.astype(f.dtype) - centre) / params[1]

    def out(params: PyTree, f: Array, y: Array) -> Array:
        centre = split(f)[1]
        return centre + params[1] * (y - centre)

    def sample(key: Key, params: PyTree, f: Array) -> Array:
        return out(params, f, base.sample(key, params[0], split(f)[0]))

    def normal_components(params: PyTree, f: Array) -> tuple[Array, Array, Array]:
        assert base.normal_components is not None
        weight, mean, scale = base.normal_components(params[0], split(f)[0])
        return weight, out(params, f, mean), params[1] * scale

    return base._replace(
        init=lambda: (base.init(), jnp.ones(())),
        canonical=lambda outputs: outputs,
        log_prob=lambda params, f, y: base.log_prob(*back(params, f, y)) - jnp.log(params[1]),
        log_prior=lambda params: base.log_prior(params[0]),
        mean=lambda params, f: out(params, f, base.mean(params[0], split(f)[0])),
        variance=lambda params, f: params[1] ** 2 * base.variance(params[0], split(f)[0]),
        sample=sample,
        cdf=lambda params, f, y: base.cdf(*back(params, f, y)),
        noise=lambda params: params[1] * base.noise(params[0]),
        width=lambda m: columns * m,
        targets=lambda k: k // columns,
        normal_components=None if base.normal_components is None else normal_components,
    )
