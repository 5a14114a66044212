# SPDX-License-Identifier: Apache-2.0
"""The infinite-width limit of the network at hand, analytically."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fpovi.priors.gaussian_process import Covariance, gaussian_process
from fpovi.types import Architecture, FunctionPrior, Likelihood, Network

HERMITE_TERMS, HERMITE_NODES = 48, 128


def nngp(network: Network, likelihood: Likelihood | None = None, jitter: float = 1e-3) -> FunctionPrior:
    r"""Return the Gaussian process that the prior of ``network`` tends to as its hidden layers grow.

    .. math::
        C_0 = b_0 + \tfrac{w_0}{d} \langle s\odot x, s\odot x'\rangle, \qquad
        C_l = b_l + w_l\, \mathbb E_{(u,v)\sim\mathcal N(0, C_{l-1})}[\phi(u)\phi(v)]

    with the network's own weight variances w, bias variances b and input scales s. ReLU and erf have closed forms
    (Cho & Saul 2009; Williams 1998); other activations are expanded in Hermite polynomials.

    Args:
        network: one that describes its architecture, such as ``mlp``.
        likelihood, jitter: as in :func:`~fpovi.priors.gaussian_process`.
    """
    if network.architecture is None:
        raise ValueError(
            "prior=nngp needs a network with a known architecture, such as mlp; use moment_matched or ssge"
        )
    return gaussian_process(nngp_covariance(network.architecture), likelihood, jitter)


def nngp_covariance(architecture: Architecture) -> Covariance:
    """Return the covariance function of :func:`nngp`, which takes ``(A, d_x)`` and ``(B, d_x)`` to ``(A, B)``.

    Args:
        architecture: of the network, with its scales.
    """
    sizes, phi, scales = architecture
    expectation = EXPECTATIONS.get(phi, partial(hermite_expectation, phi))

    def covariance(a: Float[Array, "A d_x"], b: Float[Array, "B d_x"]) -> Float[Array, "A B"]:
        input_scale, weight, bias = (
            jnp.asarray(s, a.dtype) for s in (scales.input, scales.weight_variance, scales.bias_variance)
        )
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
    return norm / (2 * jnp.pi) * _arc_cosine(cosine)


@jax.custom_jvp
def _arc_cosine(cosine: Array) -> Array:
    r""":math:`\sin\vartheta + (\pi-\vartheta)\cos\vartheta`, whose derivative in the cosine is just π − ϑ.

    Term by term both summands have infinite derivatives at ϑ = 0, where a point meets itself.
    """
    return jnp.sqrt(1 - cosine**2) + (jnp.pi - jnp.arccos(cosine)) * cosine


_arc_cosine.defjvps(lambda tangent, value, cosine: (jnp.pi - jnp.arccos(cosine)) * tangent)


def erf_expectation(uu: Array, uv: Array, vv: Array) -> Array:
    r""":math:`\frac2\pi \arcsin\frac{2uv}{\sqrt{(1+2uu)(1+2vv)}}`."""
    return 2 / jnp.pi * jnp.arcsin(2 * uv / jnp.sqrt((1 + 2 * uu) * (1 + 2 * vv)))


def hermite_expectation(phi: Callable[[Array], Array], uu: Array, uv: Array, vv: Array) -> Array:
    r""":math:`\sum_k c_k(\sqrt{uu})\, c_k(\sqrt{vv})\, \rho^k` with :math:`c_k(\sigma) = \mathbb E[\phi(\sigma z)\,
    \mathrm{He}_k(z)]/\sqrt{k!}`, ρ the correlation (Mehler's formula).

    Cut off at any k this is still a positive definite function, which a product rule on (u, v) would not be.
    """
    norm = jnp.sqrt(uu * vv)
    rho = jnp.clip(uv / jnp.where(norm > 0, norm, 1), -1, 1)
    terms = [c_u * c_v for c_u, c_v in zip(_hermite(phi, uu), _hermite(phi, vv), strict=True)]
    total = jnp.zeros_like(rho)
    for term in reversed(terms):
        total = term + rho * total
    return total


def _hermite(phi: Callable[[Array], Array], variance: Array) -> list[Array]:
    """Return c_0, c_1, … at σ = √variance, by Gauss–Hermite quadrature."""
    nodes, mass = np.polynomial.hermite_e.hermegauss(HERMITE_NODES)
    basis = [np.ones_like(nodes), nodes]  # He_k/√k!, by its recurrence
    for k in range(1, HERMITE_TERMS - 1):
        basis.append((nodes * basis[k] - np.sqrt(k) * basis[k - 1]) / np.sqrt(k + 1))
    weighted = jnp.asarray(np.stack(basis) * mass / mass.sum(), variance.dtype)
    values = phi(jnp.sqrt(variance)[..., None] * jnp.asarray(nodes, variance.dtype))
    return list(jnp.moveaxis(values @ weighted.T, -1, 0))


EXPECTATIONS: dict[Callable[[Array], Array], Callable[[Array, Array, Array], Array]] = {
    jax.nn.relu: relu_expectation,
    jax.scipy.special.erf: erf_expectation,
}
