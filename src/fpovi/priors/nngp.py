# SPDX-License-Identifier: Apache-2.0
"""The infinite-width limit of the network at hand, analytically."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fpovi.priors.gaussian_process import Covariance, gaussian_process
from fpovi.types import Architecture, FunctionPrior, Network

QUADRATURE_NODES = 32


def nngp(network: Network, jitter: float = 1e-4, centred: bool = False) -> FunctionPrior:
    r"""The Gaussian process that the prior of ``network`` tends to as its hidden layers grow.

    .. math::
        C_0 = b_0 + \tfrac{w_0}{d} \langle s\odot x, s\odot x'\rangle, \qquad
        C_l = b_l + w_l\, \mathbb E_{(u,v)\sim\mathcal N(0, C_{l-1})}[\phi(u)\phi(v)]

    with the network's own weight variances w, bias variances b and input scales s. ReLU and erf have closed forms
    (Cho & Saul 2009; Williams 1998); other activations are integrated by Gauss–Hermite quadrature.

    Args:
        network: one that describes its architecture, such as ``mlp``.
        jitter, centred: as in :func:`~fpovi.priors.gaussian_process`.
    """
    if network.architecture is None:
        raise ValueError(
            "prior=nngp needs a network with a known architecture, such as mlp; use moment_matched or ssge"
        )
    return gaussian_process(nngp_covariance(network.architecture), jitter, centred)


def nngp_covariance(architecture: Architecture) -> Covariance:
    """The covariance function of :func:`nngp`, as ``covariance(a, b)``."""
    sizes, phi, scales = architecture
    expectation = EXPECTATIONS.get(phi, lambda uu, uv, vv: quadrature_expectation(phi, uu, uv, vv))

    def covariance(a: Float[Array, "A d_x"], b: Float[Array, "B d_x"]) -> Float[Array, "A B"]:
        input_scale, weight, bias = (jnp.asarray(s, a.dtype) for s in (scales.input, scales.weight, scales.bias))
        a, b = a * input_scale, b * input_scale
        first = lambda inner: bias[0] + weight[0] / sizes[0] * inner  # noqa: E731
        uu, uv, vv = first(jnp.sum(a**2, axis=1)), first(a @ b.T), first(jnp.sum(b**2, axis=1))
        for layer in range(1, len(sizes) - 1):
            grow = lambda inner, layer=layer: bias[layer] + weight[layer] * inner  # noqa: E731
            uv = grow(expectation(uu[:, None], uv, vv[None, :]))
            uu, vv = grow(expectation(uu, uu, uu)), grow(expectation(vv, vv, vv))
        return uv

    return covariance


def relu_expectation(uu: Array, uv: Array, vv: Array) -> Array:
    r""":math:`\frac{\sqrt{uu\,vv}}{2\pi}(\sin\vartheta + (\pi-\vartheta)\cos\vartheta)`, ϑ the angle of u and v."""
    norm = jnp.sqrt(uu * vv)
    cosine = jnp.clip(uv / jnp.where(norm > 0, norm, 1), -1, 1)
    angle = jnp.arccos(cosine)
    return norm / (2 * jnp.pi) * (jnp.sqrt(1 - cosine**2) + (jnp.pi - angle) * cosine)


def erf_expectation(uu: Array, uv: Array, vv: Array) -> Array:
    r""":math:`\frac2\pi \arcsin\frac{2uv}{\sqrt{(1+2uu)(1+2vv)}}`."""
    return 2 / jnp.pi * jnp.arcsin(2 * uv / jnp.sqrt((1 + 2 * uu) * (1 + 2 * vv)))


def quadrature_expectation(phi: Callable[[Array], Array], uu: Array, uv: Array, vv: Array) -> Array:
    r""":math:`\mathbb E[\phi(u)\phi(v)]` by a product Gauss–Hermite rule on u = √uu·z₁, v = √vv·(ρz₁ + √(1−ρ²)z₂)."""
    nodes, mass = np.polynomial.hermite_e.hermegauss(QUADRATURE_NODES)
    mass = mass / mass.sum()
    z1, z2 = (jnp.asarray(z, uv.dtype) for z in np.meshgrid(nodes, nodes, indexing="ij"))
    weight = jnp.asarray(np.outer(mass, mass), uv.dtype)
    norm = jnp.sqrt(uu * vv)
    rho = jnp.clip(uv / jnp.where(norm > 0, norm, 1), -1, 1)
    u, v = (jnp.broadcast_to(a, rho.shape)[..., None, None] for a in (jnp.sqrt(uu), jnp.sqrt(vv)))
    rho = rho[..., None, None]
    return jnp.sum(weight * phi(u * z1) * phi(v * (rho * z1 + jnp.sqrt(1 - rho**2) * z2)), axis=(-2, -1))


EXPECTATIONS: dict[Callable[[Array], Array], Callable[[Array, Array, Array], Array]] = {
    jax.nn.relu: relu_expectation,
    jax.scipy.special.erf: erf_expectation,
}
