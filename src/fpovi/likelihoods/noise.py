# SPDX-License-Identifier: Apache-2.0
r"""Noise scales: kept as ``rho`` with :math:`\sigma = \log(1 + e^\rho)`, under an inverse-gamma prior on σ itself.

They start at .5: targets are expected in standardised units.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fpovi.types import PyTree, Scalar

NO_PARAMS: tuple[()] = ()


def inverse_gamma_log_prob(value: Array, shape: float = 1.0, scale: float = 0.1) -> Array:
    r"""Return the log-density of an inverse-gamma prior on a standard deviation (not on a variance).

    .. math:: \alpha\log\beta - \log\Gamma(\alpha) - (\alpha+1)\log\sigma - \beta/\sigma

    Args:
        value: σ, of any shape.
        shape, scale: α and β.
    """
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
        """Return the parameters with softplus(rho) = ``above``."""
        return cls(jnp.log(jnp.expm1(above)), jnp.broadcast_to(floor, above.shape))


class Noise:
    """Where σ comes from: a fixed number, or a learned ``rho``, with or without a floor; as a likelihood needs it."""

    def __init__(self, fixed: float | None, start: float, floor: float):
        for name, value in (("noise_scale", fixed), ("start", start)):
            if value is not None:
                check_positive(name, value)
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


def check_positive(name: str, value: float) -> None:
    """Raise a ``ValueError`` unless the value is positive and finite."""
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"{name}={value} must be positive and finite")
