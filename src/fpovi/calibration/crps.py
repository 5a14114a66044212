# SPDX-License-Identifier: Apache-2.0
r"""The continuous ranked probability score of a mixture over particles."""

import math
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import scoringrules
from jaxtyping import Array, Float

from fpovi.calibration.held_out import Array64, checked_targets, compute_in_float64, refuse_classes, weighted_mean
from fpovi.predictive import Predictive
from fpovi.types import Likelihood, Numbers, PyTree

BLOCK = 2**20  # numbers held at once
REACH = 100.0  # standard deviations from a particle's mean; beyond, F² < REACH⁻⁴ (Cantelli), less than 1e-6 in all
SPACING = 2.0  # length of a panel, in local scales of the sharpest particle
NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(8)
NEGLIGIBLE = 1e-12


def crps(predictive: Predictive, y: Numbers, sample_weight: Numbers | None = None) -> float:
    """Return the mean of :func:`crps_rows` over rows and targets, in the targets' units; lower is better.

    Args:
        predictive: what was predicted for B rows; anything but classes.
        y: targets ``(B, m)`` in their own units.
        sample_weight: weights ``(B,)`` of the rows; equal by default.
    """
    return weighted_mean(crps_rows(predictive, y), sample_weight)


def crps_rows(predictive: Predictive, y: Numbers) -> Array64:
    r"""Return the score of every row and target; for a point forecast it is the absolute error.

    .. math:: \mathrm{CRPS}(F, y) = \int (F(z) - 1[y \le z])^2\,dz

    A mixture of normals with weights w, as Gaussian particles are with :math:`w_i = 1/n`, has a closed form (Grimit et
    al. 2006), with :math:`A(d, v) = \mathbb E|d + \sqrt v\,\varepsilon|`:

    .. math::
        \sum_i w_i A(y - \mu_i, \sigma_i^2) - \frac12 \sum_{ij} w_i w_j A(\mu_i - \mu_j, \sigma_i^2 + \sigma_j^2)

    Counts are summed over all whole numbers up to a probability of 1e-12 on each side. Other densities are integrated
    on panels that resolve the sharpest particle everywhere, to about 1e-6 of a particle's standard deviation.

    Args:
        predictive: what was predicted for B rows; anything but classes.
        y: targets ``(B, m)`` in their own units.

    Returns:
        Scores ``(B, m)`` in the targets' units; lower is better.
    """
    refuse_classes(predictive, "crps")
    y = checked_targets(predictive, y)

    def score(p: Predictive) -> Array:
        z = (jnp.asarray(y) - p.shift) / p.scale
        if p.likelihood.normal_components is not None:
            return p.scale * _normal_mixture(p.likelihood.normal_components, p.params, p.f, z)
        if p.likelihood.support.atoms:
            return _counts(p.likelihood, p.params, p.f, z, p.quantile(NEGLIGIBLE), p.quantile(1 - NEGLIGIBLE))
        mesh, length = _mesh(p.likelihood, p.params, p.f)
        # a multiple of four, so that other data seldom compile anew
        panels = 4 * math.ceil(float(jnp.max(length)) / (4 * SPACING))
        return p.scale * _quadrature(p.likelihood, panels, p.params, p.f, z, mesh, length)

    return compute_in_float64(predictive, score)


@partial(jax.jit, static_argnums=0)
def _normal_mixture(
    normals: Callable[..., tuple[Array, Array, Array]], params: PyTree, f: Float[Array, "n B k"], y: Float[Array, "B m"]
) -> Float[Array, "B m"]:
    """Return the score of normals, one particle's components after the other, by a library's closed form."""
    found = jax.vmap(normals, axis_size=f.shape[0])(params, f)  # each (n, c, B, m)
    weight, mean, scale = (jnp.moveaxis(part.reshape(-1, *y.shape), 0, -1) for part in found)  # each (B, m, n·c)
    score = partial(scoringrules.crps_mixnorm, backend="jax")
    rows = (y, mean, scale, weight / f.shape[0])
    return _by_rows(lambda row: score(*row), rows, mean[0].size * mean.shape[-1])


@partial(jax.jit, static_argnums=0)
def _counts(
    likelihood: Likelihood,
    params: PyTree,
    f: Float[Array, "n B k"],
    y: Float[Array, "B m"],
    low: Float[Array, "B m"],
    high: Float[Array, "B m"],
) -> Float[Array, "B m"]:
    """Sum over whole numbers from ``low`` to ``high``, a block of them at a time; outside, F is 0 or 1."""
    length = min(max(BLOCK // f.size, 1), 1024)
    block = jnp.arange(length, dtype=f.dtype)[:, None, None]
    cdf = jax.vmap(jax.vmap(likelihood.cdf, in_axes=(0, 0, None), axis_size=f.shape[0]), in_axes=(None, None, 0))

    def add(number: Array, total: Array) -> Array:
        z = low + length * number.astype(f.dtype) + block
        missed = jnp.mean(cdf(params, f, z), axis=1) - (y <= z).astype(f.dtype)
        return total + jnp.sum(jnp.where(z <= high, missed**2, 0), axis=0)

    blocks = (jnp.max(high - low) // length + 1).astype(int)
    inside = jax.lax.fori_loop(0, blocks, add, jnp.zeros_like(y))
    return inside + jnp.maximum(low - y, 0) + jnp.maximum(y - 1 - high, 0)


@partial(jax.jit, static_argnums=0)
def _mesh(
    likelihood: Likelihood, params: PyTree, f: Float[Array, "n B k"]
) -> tuple[Float[Array, "B G m"], Float[Array, "B G m"]]:
    r"""Return points along each row's axis, and the length up to each in local scales.

    .. math:: \int \max_i 1/\ell_i(z)\,dz

    The cdf of particle i is smooth over :math:`\ell_i(z) = \sqrt{s_i^2 + (z - \mu_i)^2}`, so panels of equal length in
    this measure are all equally easy. The scale s of its core comes from the density at the mean, and is σ for a
    Gaussian: with heavy tails the standard deviation says little about the core.
    """
    steps = jnp.linspace(-1, 1, 25, dtype=f.dtype)[:, None]

    def one(row: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        mean, std, scale = row
        reach = scale[:, None] * jnp.sinh(steps * jnp.arcsinh(REACH * std / scale)[:, None])
        points = jnp.sort((mean[:, None] + reach).reshape(-1, mean.shape[-1]), axis=0)
        density = jnp.max(1 / jnp.hypot(scale, points[:, None] - mean), axis=1)
        lengths = jnp.diff(points, axis=0) * (density[1:] + density[:-1]) / 2
        return points, jnp.concatenate([jnp.zeros_like(points[:1]), jnp.cumsum(lengths, axis=0)])

    mean, std = _moments(likelihood, params, f)
    peak = jax.vmap(likelihood.log_prob, axis_size=f.shape[0])(params, f, jnp.swapaxes(mean, 0, 1))
    scale = jnp.exp(-jnp.swapaxes(peak, 0, 1)) / math.sqrt(2 * math.pi)
    return _by_rows(one, (mean, std, scale), len(steps) * mean[0].size * f.shape[0])


@partial(jax.jit, static_argnums=(0, 1))
def _quadrature(
    likelihood: Likelihood,
    panels: int,
    params: PyTree,
    f: Float[Array, "n B k"],
    y: Float[Array, "B m"],
    mesh: Float[Array, "B G m"],
    length: Float[Array, "B G m"],
) -> Float[Array, "B m"]:
    """Integrate by the Gauss-Legendre rule on panels of equal length, the one that holds y cut in two."""
    nodes, weights = (jnp.asarray(a, f.dtype)[:, None] for a in ((1 + NODES) / 2, NODE_WEIGHTS / 2))
    place = jax.vmap(jnp.interp, in_axes=1, out_axes=1)

    def one(row: tuple[Array, ...]) -> Array:
        f, y, mesh, length = row
        ends = place(jnp.linspace(0, 1, panels + 1, dtype=f.dtype)[:, None] * length[-1], length, mesh)
        ends = jnp.sort(jnp.concatenate([ends, y[None]]), axis=0)
        width = jnp.diff(ends, axis=0)[:, None]
        z = (ends[:-1, None] + width * nodes).reshape(-1, y.shape[0])
        repeat = lambda f: jnp.broadcast_to(f, (z.shape[0], f.shape[-1]))  # noqa: E731
        each = jax.vmap(lambda params, f: likelihood.cdf(params, repeat(f), z), axis_size=f.shape[0])(params, f)
        missed = jnp.mean(each, axis=0) - (y <= z).astype(f.dtype)
        return jnp.sum(width * weights * (missed**2).reshape(panels + 1, len(NODES), -1), axis=(0, 1))

    rows = (jnp.swapaxes(f, 0, 1), y, mesh, length)
    return _by_rows(one, rows, (panels + 1) * len(NODES) * f[:, 0].size)


def _moments(
    likelihood: Likelihood, params: PyTree, f: Float[Array, "n B k"]
) -> tuple[Float[Array, "B n m"], Float[Array, "B n m"]]:
    """Every particle's mean and standard deviation, row by row."""
    both = (jax.vmap(moment, axis_size=f.shape[0])(params, f) for moment in (likelihood.mean, likelihood.variance))
    mean, variance = (jnp.swapaxes(moment, 0, 1) for moment in both)
    return mean, jnp.sqrt(variance)


def _by_rows(function: Callable[..., PyTree], rows: tuple[Array, ...], size: int) -> PyTree:
    """Return ``function`` of every row, which needs ``size`` numbers, for as many rows at once as fit a block."""
    count = len(rows[0])
    blocks = -(-count // min(max(BLOCK // size, 1), count))
    at_once = -(-count // blocks)

    def cut(leaf: Array) -> Array:
        padding = [(0, blocks * at_once - count)] + [(0, 0)] * (leaf.ndim - 1)
        return jnp.pad(leaf, padding, "edge").reshape(blocks, at_once, *leaf.shape[1:])

    done = jax.lax.map(jax.vmap(function), tuple(map(cut, rows)))
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[:count], done)
