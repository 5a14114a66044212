# SPDX-License-Identifier: Apache-2.0
"""Kernels between particles: ``kernel(a, b) -> gram``, and what they need to stay cheap and exact.

A kernel whose lengthscale is a function, ``rbf(median_lengthscale)``, is settled once a step from all particles by
``kernel.at(f)``; from then on it is a fixed function that differentiates and shards like any other.
"""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fpovi._fast.median import median
from fpovi.types import KernelModule, Network, PyTree

Lengthscale = float | Array | Callable[[Array], Array]
Canonical = Callable[[Array], Array]


def squared_distances(a: Float[Array, "n d"], b: Float[Array, "m d"]) -> Float[Array, "n m"]:
    """Return ‖aᵢ − bⱼ‖² by one matrix product: no array of size n·m·d.

    Both sides are first centred on b's mean, which leaves the distances alone and keeps float32 from cancelling.
    """
    centre = jax.lax.stop_gradient(jnp.mean(b, axis=0, keepdims=True))
    a, b = a - centre, b - centre
    norms = jnp.sum(a**2, axis=1)[:, None] + jnp.sum(b**2, axis=1)[None, :]
    return jnp.maximum(norms - 2 * a @ b.T, 0)


def median_lengthscale(f: Float[Array, "n d"], factor: float = 1.0, floor: float = 1e-5) -> Float[Array, ""]:
    r"""Return the lengthscale of the median heuristic.

    .. math:: \ell = c\,\sqrt{\mathrm{median}(d^2) / (2\log(n+1))}

    The median runs over the whole n×n matrix, its zero diagonal included.

    Args:
        f: all particles.
        factor: c, 1 in the literature. There a particle at the median distance has K = 1/(n+1): in more than a few
            dimensions particles hardly feel each other, and the spread comes out too small. A factor of 2 to 4 lets
            the kernel see the whole cloud and restores it: ``rbf(partial(median_lengthscale, factor=2.0))``.
        floor: the least ℓ², which a single particle has.
    """
    squared = median(squared_distances(f, f)) / (2 * jnp.log(f.shape[0] + 1.0).astype(f.dtype))
    return jnp.sqrt(jnp.maximum(factor**2 * squared, floor))


class StationaryKernel(KernelModule):
    """A kernel of ‖a − b‖/ℓ with the profile ``profile(r²)``."""

    lengthscale: Lengthscale
    profile: Callable[[Array], Array] = eqx.field(static=True)

    def at(self, f: Float[Array, "n d"]) -> "StationaryKernel":
        """Return this kernel with the lengthscale that suits the particles ``f``, held fixed."""
        if not callable(self.lengthscale):
            return self
        return StationaryKernel(jax.lax.stop_gradient(self.lengthscale(f)), self.profile)

    def __call__(self, a: Float[Array, "n d"], b: Float[Array, "m d"]) -> Float[Array, "n m"]:
        lengthscale = jnp.asarray(self.at(b).lengthscale, a.dtype)
        return self.profile(squared_distances(a, b) / lengthscale**2)

    def settled_lengthscale(self) -> Array | float:
        """Return ℓ where it is settled."""
        return jnp.nan if callable(self.lengthscale) else self.lengthscale

    def repulsion(self, a: Float[Array, "n d"], weight: Float[Array, " n"]) -> Float[Array, "n d"]:
        """Return Σⱼ wⱼ ∂K(aᵢ, aⱼ)/∂aⱼ, which for a stationary kernel is −∂/∂aᵢ Σⱼ wⱼ K(aᵢ, aⱼ)."""
        fixed = self.at(a)
        return -jax.grad(lambda moved: jnp.sum(fixed(moved, a) @ weight))(a)


def rbf(lengthscale: Lengthscale = median_lengthscale) -> StationaryKernel:
    r"""Return the Gaussian kernel :math:`\exp(-\|a-b\|^2 / 2\ell^2)`.

    Args:
        lengthscale: ℓ, a number, or a function of all particles ``(n, d)``.

    >>> import jax.numpy as jnp
    >>> float(rbf(1.0)(jnp.zeros((1, 2)), jnp.ones((1, 2)))[0, 0])  # exp(-1)
    0.3678794...
    """
    return StationaryKernel(_positive(lengthscale), _gaussian_profile)


def imq(lengthscale: Lengthscale = median_lengthscale) -> StationaryKernel:
    r"""Return the inverse multiquadric :math:`(1 + \|a-b\|^2 / 2\ell^2)^{-1/2}`, with heavier tails than ``rbf``.

    Args:
        lengthscale: as in :func:`rbf`.
    """
    return StationaryKernel(_positive(lengthscale), _imq_profile)


def _gaussian_profile(squared: Array) -> Array:
    return jnp.exp(-squared / 2)


def _imq_profile(squared: Array) -> Array:
    return jax.lax.rsqrt(1 + squared / 2)


def _positive(lengthscale: Lengthscale) -> Lengthscale:
    known = not callable(lengthscale) and not isinstance(lengthscale, jax.core.Tracer)
    if known and not 0 < float(lengthscale) < math.inf:  # type: ignore[arg-type]
        raise ValueError(f"lengthscale={lengthscale} must be positive and finite (or median_lengthscale)")
    return lengthscale


class RepresentationKernel(eqx.Module):
    r"""A kernel on weights through what the network says: :math:`k(r(\theta), r(\theta'))`.

    ``forward(network, canonical)`` picks the representation; the engine knows this step's inputs and binds them with
    :meth:`on`. These kernels are not stationary in θ: the repulsion that particle i feels is made of the other
    particles' Jacobians (Wang et al. 2019, appendix on alternative kernels).
    """

    base: StationaryKernel
    forward: Callable[[Network, Canonical], Callable[..., tuple[Array, PyTree]]] = eqx.field(static=True)

    def on(self, represent: Callable[[Float[Array, "n p"]], Float[Array, "n r"]]) -> "BoundKernel":
        """Return the kernel on ravelled weights, given the map from all particles' weights to their representations."""
        return BoundKernel(self.base, represent)


class BoundKernel(KernelModule):
    """A :class:`RepresentationKernel` at fixed inputs: an ordinary ``kernel(a, b)`` on ravelled weights."""

    base: StationaryKernel
    represent: Callable[[Array], Array] = eqx.field(static=True)

    def at(self, theta: Float[Array, "n p"]) -> "BoundKernel":
        """Return this kernel with the lengthscale that suits the representations of all particles."""
        return BoundKernel(self.base.at(self.represent(theta)), self.represent)

    def settled_lengthscale(self) -> Array | float:
        """Return the lengthscale between representations."""
        return self.base.settled_lengthscale()

    def __call__(self, a: Float[Array, "n p"], b: Float[Array, "m p"]) -> Float[Array, "n m"]:
        return self.base(self.represent(a), self.represent(b))

    def repulsion(self, a: Float[Array, "n p"], weight: Float[Array, " n"]) -> Float[Array, "n p"]:
        """Return Σⱼ wⱼ ∂K(aᵢ, aⱼ)/∂aⱼ = Σⱼ Jⱼᵀ wⱼ ∂k(rᵢ, rⱼ)/∂rⱼ: one forward pass, n pull-backs."""
        r, pullback = jax.vjp(self.represent, a)
        base = self.base.at(r)

        def felt_by(r_i: Array) -> Array:
            in_representation = jax.grad(lambda others: jnp.sum(base(r_i[None], others)[0] * weight))(r)
            return jnp.sum(pullback(in_representation)[0], axis=0)

        return jax.lax.map(felt_by, r)


def function_value(base: StationaryKernel | None = None) -> RepresentationKernel:
    r"""Return the function-value kernel :math:`k_f(\theta,\theta') = k(f(x;\theta), f(x;\theta'))` for weight space.

    Args:
        base: the kernel of function values; ``rbf()`` by default.
    """

    def forward(network: Network, canonical: Canonical) -> Callable[..., tuple[Array, PyTree]]:
        def values(*args: Any) -> tuple[Array, PyTree]:
            outputs, state = network.apply(*args)
            return canonical(outputs), state

        return values

    return RepresentationKernel(rbf() if base is None else base, forward)


def activation(base: StationaryKernel | None = None) -> RepresentationKernel:
    r"""Return the activation kernel :math:`k_a(\theta,\theta') = k(h(x;\theta), h(x;\theta'))`, h of all layers.

    Args:
        base: the kernel of activations; ``rbf()`` by default.
    """

    def forward(network: Network, canonical: Canonical) -> Callable[..., tuple[Array, PyTree]]:
        if network.activations is None:
            raise ValueError("kernel=activation needs a network that tells its activations, such as mlp")
        return network.activations

    return RepresentationKernel(rbf() if base is None else base, forward)


KERNELS: dict[str, Callable[..., StationaryKernel | RepresentationKernel]] = {
    "rbf": rbf,
    "imq": imq,
    "function_value": function_value,
    "activation": activation,
}
