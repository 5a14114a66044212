# SPDX-License-Identifier: Apache-2.0
"""Likelihoods of whole numbers: classes, yes or no, counts."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Integer, Shaped

from fpovi.likelihoods.noise import NO_PARAMS
from fpovi.types import Key, Likelihood, PyTree, Support


def _discrete(
    log_prob: Callable[[PyTree, Array, Array], Array],
    mean: Callable[[PyTree, Array], Array],
    variance: Callable[[PyTree, Array], Array],
    sample: Callable[[Key, PyTree, Array], Array],
    cdf: Callable[[PyTree, Array, Array], Array],
    support: Support,
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
        support=support,
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
    r"""Return the likelihood of classes 0…k−1.

    :math:`f = \log\mathrm{softmax}(\text{outputs})`, so that f is identified. y is ``(B, 1)`` of integers, ``mean``
    is the vector of class probabilities, and ``cdf`` is cumulative over classes.
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
        support=Support.CLASSES,
        canonical=jax.nn.log_softmax,
    )._replace(targets=lambda k: 1, check=_check_classes)


def bernoulli() -> Likelihood:
    r"""Return :math:`p(y=1) = \mathrm{sigmoid}(f)`, y in {0, 1}, any number of independent targets."""

    def log_prob(params: PyTree, f: Float[Array, "B m"], y: Shaped[Array, "B m"]) -> Float[Array, "B m"]:
        y = y.astype(f.dtype)
        return y * jax.nn.log_sigmoid(f) + (1 - y) * jax.nn.log_sigmoid(-f)

    return _discrete(
        log_prob=log_prob,
        mean=lambda params, f: jax.nn.sigmoid(f),
        variance=lambda params, f: jax.nn.sigmoid(f) * jax.nn.sigmoid(-f),
        sample=lambda key, params, f: jax.random.bernoulli(key, jax.nn.sigmoid(f)).astype(f.dtype),
        cdf=lambda params, f, y: jnp.where(y < 0, 0.0, jnp.where(y < 1, jax.nn.sigmoid(-f), 1.0)),
        support=Support.BINARY,
    )._replace(check=_check_whole(0, 1))


def poisson() -> Likelihood:
    r"""Return the likelihood of counts with rate :math:`e^f`."""
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
        support=Support.COUNTS,
    )._replace(check=_check_whole(0, math.inf))
