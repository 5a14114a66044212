# SPDX-License-Identifier: Apache-2.0
"""The scales of a network's prior, chosen by the marginal likelihood of its infinite-width limit."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, minimize

from fpovi.priors.nngp import nngp_covariance
from fpovi.types import Architecture, Key, Numbers, Scalar, Scales

Activation = Callable[[Array], Array]

# Standard deviations of the log-normal hyperpriors, on standard deviations (not variances), and the typical noise.
COMMON_SPREAD, FEATURE_SPREAD, LAYER_SPREAD, NOISE_SPREAD, TYPICAL_NOISE = 1.5, 0.75, 1.0, 2.0, 0.3
ROWS_PER_FEATURE = 10  # with fewer, the scales of single features are held closer to the common one
LIMIT = 7.0  # no standard deviation leaves e^±7 of its hyperprior's centre

MIN_ROWS, COARSE_ROWS, STEPS, ENOUGH = 64, 256, 40, 0.03  # a climb ends with a step that gains less than this many nats
# Where climbs begin, in units of the hyperpriors' spreads: noises of .3, .11, .04 and .005, twice with a common input
# scale of 4.5, as from a smooth function there is often no way up to a wiggly one.
STARTS = ((0.0, 0.0), (-0.5, 1.0), (-1.0, 0.0), (-2.0, 1.0))
TOO_FAR = 1e300  # the loss where it is not finite, from which a line search turns back
VARIES = 1e-10  # relative range of a column, under which it is constant up to rounding


def evidence(
    key: Key,
    x: Numbers,
    y: Numbers,
    sizes: Sequence[int],
    activation: Activation = jax.nn.relu,
    *,
    weight: Numbers | None = None,
    per_feature: bool = True,
    max_rows: int = 1000,
    watch: Callable[[int, int, float], None] | None = None,
) -> Scales:
    r"""Return the scales under which the data are most probable: input scales, layer variances and noise.

    They maximise the log marginal likelihood of :func:`~fpovi.priors.nngp`, summed over targets, on a random
    subsample of the rows, plus weak log-normal hyperpriors:

    .. math::
        \sum_j \log \mathcal N\big(y_j;\, 0,\, C_s(x, x) + \mathrm{diag}(\sigma^2 / w)\big)
        - \tfrac12 \|z\|^2, \qquad \log s = \mu + \tau z

    The hyperpriors are centred on variances of 1 and a noise of .3 in units of the root mean square of every column
    of x and of y. A feature's log-scale is drawn to that of all features, the closer the fewer rows there are per
    feature; a column without variation keeps the common scale.

    Args:
        key: chooses the rows; the same key gives the same scales.
        x, y: inputs ``(N, d_x)`` and real targets ``(N,)`` or ``(N, m)``, standardised: the prior has mean zero.
        sizes, activation: of the network, as in ``mlp``. Widths do not matter.
        weight: per row, or per row and target; a row's noise variance is σ²/weight, and 0 leaves it out.
        per_feature: give every feature a scale of its own. What hardly matters to a Gaussian process is then all but
            taken from the network, which may know better what to do with it: see ``False`` as an alternative to try.
        max_rows: of the subsample. Time grows with its cube, about 10 seconds at 1,000 rows.
        watch: called after each climb with the number of climbs done, that of all, and the objective it reached.

    Note:
        In the first of several layers only the input scales are free. ``weight[0]`` is 1, as they say the same, and
        ``bias[0]`` the variance that the inputs contribute on average. Left free it often grows by orders of
        magnitude for a few nats, which the infinite network can afford; of 50 real units hardly one would then have
        its kink among the data. Under ReLU a factor can still be moved from layer to layer without changing the
        prior; there the hyperprior decides.

    Reference: MacKay (1992), "Bayesian interpolation"; Neal (1996) for a scale per feature.
    """
    rows, targets, weights = _checked(x, y, weight, tuple(sizes), max_rows)
    key_rows, key_starts = jax.random.split(key)
    seen = np.flatnonzero(weights.any(axis=1))
    x_unit, y_unit = _units(rows[seen]), _root_mean_square(targets[seen])
    if len(seen) > min(max_rows, COARSE_ROWS):  # some are a sample of all, in an order that is compiled for each number
        seen = seen[np.asarray(jax.random.permutation(key_rows, len(seen)))[:max_rows]]
    data = rows[seen] / x_unit, targets[seen] / y_unit, weights[seen]
    scattered = np.asarray(jax.random.normal(key_starts, (len(STARTS), rows.shape[1])), np.float64)
    layers, dtype = len(sizes) - 1, jax.dtypes.canonicalize_dtype(float)

    with jax.enable_x64(True):
        objective = partial(_loss, activation, layers)
        fine = _padded(max_rows, *data)
        coarse = fine if len(fine[0]) <= 1.5 * COARSE_ROWS else _padded(max_rows, *(a[:COARSE_ROWS] for a in data))
        own, done, total = float(per_feature), count(1), len(STARTS) + 2 * per_feature + (coarse is not fine)

        def climb(start: NDArray[Any], data: list[NDArray[Any]], own: float = own) -> tuple[NDArray[Any], float]:
            reached = _climb(objective, start, *data, own)
            if watch is not None:
                watch(next(done), total, -reached[1])
            return reached

        starts = [_start(own * z / 2, layers, *start) for z, start in zip(scattered, STARTS, strict=True)]
        if per_feature:
            starts.append(climb(_start(scattered[0] * 0, layers), coarse, own=0.0)[0])
        best, _ = min((climb(start, coarse) for start in starts), key=lambda reached: reached[1])
        if coarse is not fine:
            best, _ = climb(best, fine)
        found = _scales(jnp.asarray(best), layers, own * _feature_spread(len(seen), rows.shape[1]))
        found = jax.tree.map(np.asarray, found)
    last = np.where(np.arange(layers) == layers - 1, y_unit**2, 1.0)
    found = Scales(found.input / x_unit, found.weight_variance * last, found.bias_variance * last, found.noise * y_unit)
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), found)


def log_evidence(
    architecture: Architecture,
    x: Float[Array, "N d_x"],
    y: Float[Array, "N m"],
    weight: Float[Array, "N _"] | None = None,
) -> Scalar:
    r"""Return :math:`\sum_j \log \mathcal N(y_j; 0, C + \mathrm{diag}(\sigma^2/w_j))`, C of :func:`~fpovi.priors.nngp`.

    Meant for double precision; it differentiates, repeated rows included.

    Args:
        architecture: of the network, with its scales and noise.
        x, y: standardised inputs ``(N, d_x)`` and targets ``(N, m)``.
        weight: per row, or per row and target; rows of weight 0 do not count.
    """
    weight = jnp.ones((x.shape[0], 1), x.dtype) if weight is None else weight
    covariance = nngp_covariance(architecture)(x, x)
    noise = jnp.asarray(architecture.scales.noise, x.dtype)

    def of_group(y: Float[Array, "N g"], weight: Float[Array, " N"]) -> Scalar:
        """Return the log evidence of targets that have their weights, and so their factor, in common."""
        here = (weight > 0).astype(x.dtype)
        safe = jnp.where(weight > 0, weight, 1)
        variance = jnp.where(weight > 0, noise**2 / safe, 1)
        factor = jnp.linalg.cholesky(covariance * here[:, None] * here + jnp.diag(variance))
        white = solve_triangular(factor, y * here[:, None], lower=True)
        log_norm = jnp.sum(jnp.log(jnp.diagonal(factor))) + jnp.sum(here) / 2 * jnp.log(2 * jnp.pi)
        return -jnp.sum(white**2) / 2 - y.shape[1] * log_norm

    groups = y.T.reshape(weight.shape[1], -1, y.shape[0])
    return jnp.sum(jax.vmap(of_group)(jnp.swapaxes(groups, 1, 2), weight.T))


def _checked(
    x: Numbers, y: Numbers, weight: Numbers | None, sizes: tuple[int, ...], max_rows: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return everything in double precision and two dimensions."""
    rows, targets = _numbers("x", x), _numbers("y", y)
    targets = targets[:, None] if targets.ndim == 1 else targets
    if rows.ndim != 2 or 0 in rows.shape:
        raise ValueError(f"x has shape {rows.shape}, but rows of features (N, d_x) are needed")
    if targets.ndim != 2 or len(targets) != len(rows) or targets.shape[1] == 0:
        raise ValueError(f"y has shape {targets.shape}, but x has {len(rows)} rows: one row of targets each is needed")
    if len(sizes) < 2 or sizes[0] != rows.shape[1]:
        raise ValueError(f"sizes={sizes} must begin with the {rows.shape[1]} features of x and end with the outputs")
    if max_rows < 1:
        raise ValueError(f"max_rows={max_rows} must be at least 1")
    weights = np.ones((len(rows), 1)) if weight is None else _numbers("weight", weight)
    weights = weights[:, None] if weights.ndim == 1 else weights
    if weights.shape not in ((len(rows), 1), targets.shape):
        raise ValueError(f"weight has shape {weights.shape}, but {(len(rows), 1)} or {targets.shape} is needed")
    if (weights < 0).any() or not weights.any():
        raise ValueError("weight must not be negative, nor 0 everywhere")
    return rows, np.where(weights > 0, targets, 0.0), weights


def _numbers(name: str, values: Numbers) -> NDArray[Any]:
    array = np.asarray(values, np.float64)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} has {(~np.isfinite(array)).sum()} NaN or infinite values: all must be finite")
    return array


def _start(features: NDArray[Any], layers: int, noise: float = 0.0, common: float = 0.0) -> NDArray[Any]:
    """Return where a climb begins: log-scales in units of their hyperpriors' standard deviations, in one row."""
    return np.concatenate([[common], features, np.zeros(2 * layers), [noise]])


def _feature_spread(rows: Any, features: int) -> Array:
    """Return τ of the features' own log-scales."""
    return FEATURE_SPREAD * jnp.sqrt(jnp.minimum(1.0, rows / (ROWS_PER_FEATURE * features)))


def _scales(point: Float[Array, " p"], layers: int, feature_spread: Array) -> Scales:
    """Return the scales that a point stands for, in units of the data."""
    grow = lambda log: jnp.exp(LIMIT * jnp.tanh(log / LIMIT))  # noqa: E731
    weight, bias = grow(LAYER_SPREAD * point[-2 * layers - 1 : -1].reshape(2, layers)) ** 2
    scales = Scales(
        input=grow(COMMON_SPREAD * point[0] + feature_spread * point[1 : -2 * layers - 1]),
        weight_variance=weight.at[0].set(1.0),
        bias_variance=bias,
        noise=TYPICAL_NOISE * grow(NOISE_SPREAD * point[-1]),
    )
    return scales._replace(bias_variance=bias.at[0].set(jnp.mean(scales.input**2))) if layers > 1 else scales


@partial(jax.jit, static_argnums=(0, 1))
@partial(jax.value_and_grad, argnums=2)
def _loss(
    activation: Activation,
    layers: int,
    point: Float[Array, " p"],
    x: Array,
    y: Array,
    weight: Array,
    own: Array | float,
) -> Scalar:
    """Return minus log evidence and log hyperprior; with ``own`` 0, one scale for all features."""
    spread = own * _feature_spread(jnp.sum(jnp.any(weight > 0, axis=1)), x.shape[1])
    sizes = (x.shape[1],) + (1,) * layers  # the covariance does not depend on widths
    architecture = Architecture(sizes, activation, _scales(point, layers, spread))
    return jnp.sum(point**2) / 2 - log_evidence(architecture, x, y, weight)


def _climb(objective: Callable[..., tuple[Array, Array]], point: Any, *data: Any) -> tuple[NDArray[Any], float]:
    """Run L-BFGS from ``point`` until a step gains too little; return the end and its loss."""
    before = math.inf

    def loss(point: NDArray[Any]) -> tuple[float, NDArray[Any]]:
        value, grad = objective(point, *data)
        return (float(value), np.asarray(grad)) if math.isfinite(value) else (TOO_FAR, np.zeros_like(point))

    def stop_when_slow(intermediate_result: OptimizeResult) -> None:
        nonlocal before
        gain, before = before - intermediate_result.fun, intermediate_result.fun
        if gain < ENOUGH:
            raise StopIteration

    found = minimize(loss, point, jac=True, method="L-BFGS-B", callback=stop_when_slow, options={"maxiter": STEPS})
    return found.x, float(found.fun)


def _padded(max_rows: int, *arrays: NDArray[Any]) -> list[NDArray[Any]]:
    """Add rows of weight 0 up to one of a few lengths, four to every doubling, so that few programs are compiled."""
    rows = len(arrays[0])
    quarter = 2 ** max((rows - 1).bit_length() - 3, 4)
    length = min(max(-(-rows // quarter) * quarter, MIN_ROWS), max_rows)
    return [np.pad(a, ((0, length - rows), (0, 0))) for a in arrays]


def _units(x: NDArray[Any]) -> NDArray[Any]:
    """Return the root mean square of every column; of one that does not vary, at least 1: it may be rounding errors."""
    size = _root_mean_square(x, axis=0)
    varies = np.ptp(x, axis=0) > VARIES * np.abs(x).max(axis=0)
    return np.where(varies, size, np.maximum(size, 1.0))


def _root_mean_square(a: NDArray[Any], axis: int | None = None) -> NDArray[Any]:
    """Return the root mean square, 1 where everything is 0."""
    size = np.sqrt(np.mean(a**2, axis=axis))
    return np.where(size > 0, size, 1.0)
