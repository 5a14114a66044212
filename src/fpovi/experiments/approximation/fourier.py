# SPDX-License-Identifier: Apache-2.0
r"""Networks whose wide limit is a Gaussian process with a squared-exponential covariance.

:math:`\sum_j a_j \cos(w_j x + b_j)` is a network with one hidden layer and cosines for units. With random weights these
are random Fourier features; here they are free to move.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.polynomial import Chebyshev, Polynomial
from numpy.typing import NDArray

from fpovi.networks import mlp
from fpovi.types import Network, Scales


def fourier_network(units: int, bandwidth: float, noise: float) -> Network:
    """Return a network of one input: w ~ N(0, 1/bandwidth²), b so wide that its phase is uniform, a ~ N(0, 2/units).

    Then E[2 cos cos'] is the covariance exp(−(x − x')² / 2 bandwidth²).
    """
    scales = Scales(jnp.ones(1), jnp.asarray([bandwidth**-2, 2.0]), jnp.asarray([10.0**2, 0.0]), jnp.asarray(noise))
    return mlp((1, units, 1), cosine, scales)


@jax.custom_jvp
def cosine(x: Array) -> Array:
    """Return the cosine in double precision, within 1e-13 for |x| < 100.

    XLA calls the C library for one number at a time, which took nine tenths of a step; a polynomial takes many at once.
    """
    turns = x / (2 * np.pi)
    rest = turns - jnp.round(turns)
    return jnp.polyval(jnp.asarray(_COSINE), rest**2, unroll=len(_COSINE))


@cosine.defjvp
def _minus_sine(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (tangent,) = primals, tangents
    return cosine(x), cosine(x + np.pi / 2) * tangent


def _coefficients() -> NDArray[np.float64]:
    """Return the coefficients of a polynomial through cos(2π√u) for u up to 1/4, the highest power first."""
    through = Chebyshev.interpolate(lambda u: np.cos(2 * np.pi * np.sqrt(u)), 12, [0, 0.25])
    return np.asarray(through.convert(kind=Polynomial).coef[::-1], np.float64)


_COSINE = _coefficients()
