# SPDX-License-Identifier: Apache-2.0
"""A linear kernel between particles, in coordinates in which their own covariance is the identity."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fpovi.types import KernelModule


class LinearKernel(KernelModule):
    r""":math:`k(a, b) = 1 + (a - m)^\top A (b - m)`."""

    mean: Float[Array, " d"]
    precision: Float[Array, "d d"]

    def __call__(self, a: Float[Array, "n d"], b: Float[Array, "m d"]) -> Float[Array, "n m"]:
        return 1 + (a - self.mean) @ self.precision @ (b - self.mean).T

    def repulsion(self, a: Float[Array, "n d"], weight: Float[Array, " n"]) -> Float[Array, "n d"]:
        """Return Σⱼ wⱼ ∂K(aᵢ, aⱼ)/∂aⱼ, whose derivative is the same for all j."""
        return jnp.sum(weight) * (a - self.mean) @ self.precision


class MomentKernel(KernelModule):
    r"""The linear kernel with m the mean of all particles and A the inverse of their covariance C.

    SVGD with a linear kernel matches mean and covariance of a normal target exactly, with any number of particles above
    their dimension, and nothing else (Liu & Wang 2018). With this A its velocity is that of the Wasserstein flow of a
    normal, :math:`\bar s + (C^{-1} + \mathrm{Cov}(s, f)\, C^{-1})(f - m)`: scores are not multiplied by a covariance,
    so that those of different batches add up as they should. (C has n − 1 where SVGD's mean has n, so that it is the
    covariance with 1/n that is matched.)
    """

    def at(self, f: Float[Array, "n d"]) -> LinearKernel:
        """Return the kernel for the particles ``f``; there must be more of them than dimensions."""
        if f.shape[0] <= f.shape[1]:
            raise ValueError(
                f"{f.shape[0]} particles are compared at {f.shape[1]} values: MomentKernel needs more particles, or a "
                f"smaller batch or measurement set"
            )
        covariance = jnp.atleast_2d(jnp.cov(f.T))
        return LinearKernel(*jax.lax.stop_gradient((jnp.mean(f, axis=0), jnp.linalg.inv(covariance))))

    def __call__(self, a: Float[Array, "n d"], b: Float[Array, "m d"]) -> Float[Array, "n m"]:
        return self.at(b)(a, b)
