# SPDX-License-Identifier: Apache-2.0
"""The versions of f-SVGD that ``approximation`` compares, and what they are made of.

Networks whose wide limit is the prior's Gaussian process, a kernel that matches moments, batches that take turns, and
an optimiser of coordinates.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float
from numpy.polynomial import Chebyshev, Polynomial
from numpy.typing import NDArray

from fpovi.baselines.optimisation import decaying_adam
from fpovi.experiments.paper_parts import PAPER_FLOWS
from fpovi.inference import exact, function_space
from fpovi.inference.batches import take
from fpovi.inference.particles import forward
from fpovi.kernels import StationaryKernel, median_lengthscale, rbf
from fpovi.likelihoods import gaussian
from fpovi.measurement import points
from fpovi.networks import mlp
from fpovi.priors import gaussian_process
from fpovi.types import Algorithm, Batch, Info, Kernel, KernelModule, Key, Network, Scales, State

NOISE, JITTER, BANDWIDTH = 0.1, 1e-5, 0.5
X = np.linspace(-2, 2, 21)[:, None]
X_TEST = np.array([[1.7], [1.9], [2.1]])
UNITS = 50
LENGTHSCALE_FACTOR, MEDIAN_PARTICLES = 3.0, 100
RATE_OF_VALUES = 0.1


class Version(NamedTuple):
    """An algorithm that is given all rows, and the values of its particles at the test inputs."""

    algorithm: Algorithm
    values: Callable[[State], Float[Array, "n 3"]]


def covariance(a: Float[Array, "A 1"], b: Float[Array, "B 1"]) -> Float[Array, "A B"]:
    """Return the prior covariance of f between two sets of inputs."""
    return jnp.exp(-((a - b.T) ** 2) / (2 * BANDWIDTH**2))


def exact_version(n: int, steps: int) -> Version:
    """Return the version whose particles are the values f(X), begun at draws from the prior."""
    x = jnp.asarray(np.concatenate([X, X_TEST]))
    root = jnp.linalg.cholesky(covariance(x, x) + JITTER * jnp.eye(len(x)))
    algorithm = exact(
        x,
        gaussian(NOISE, floor=0.0),
        gaussian_process(covariance, jitter=JITTER),
        flow=PAPER_FLOWS["svgd"],
        prior_weight=1.0,
        start=lambda key: root @ jax.random.normal(key, (len(x), 1)),
        kernel=sampled_kernel(LENGTHSCALE_FACTOR, n),
        optimiser=in_coordinates(root, decaying_adam(steps, RATE_OF_VALUES)),
    )
    return Version(algorithm, lambda state: state.particles[:, len(X) :, 0])


def network_version(
    n: int, steps: int, rate: float, batch_size: int | None = None, kernel: Kernel | None = None
) -> Version:
    """Return the version of networks, begun at draws from their prior; the test inputs are compared in every step."""
    network = fourier_network(UNITS, BANDWIDTH, NOISE)
    algorithm = function_space(
        network,
        gaussian(NOISE, floor=0.0),
        gaussian_process(covariance, jitter=JITTER),
        flow=PAPER_FLOWS["svgd"],
        prior_weight=1.0,
        measurement=points(X_TEST),
        prior_size=None,
        kernel=sampled_kernel(LENGTHSCALE_FACTOR, n) if kernel is None else kernel,
        optimiser=decaying_adam(steps, rate),
    )
    at_test = jax.jit(
        lambda state: forward(network, state.particles, state.network_state, jnp.asarray(X_TEST))[0][..., 0]
    )
    return Version(algorithm if batch_size is None else on_batches(batch_size, algorithm), at_test)


def in_coordinates(root: Float[Array, "d d"], optimiser: optax.GradientTransformation) -> optax.GradientTransformation:
    """Return ``optimiser`` acting on the coordinates z of particles f = root z.

    With the root of the prior's covariance all coordinates have a prior variance of 1.

    Steps in f itself are slow: its directions have prior variances from 1e-5 to 7.
    """

    def update(updates: Array, state: optax.OptState, particles: Array | None = None) -> tuple[Array, optax.OptState]:
        del particles
        steps, state = optimiser.update(jnp.einsum("ji,njk->nik", root, updates), state)
        return jnp.einsum("ij,njk->nik", root, steps), state

    return optax.GradientTransformation(optimiser.init, update)


def on_batches(size: int, algorithm: Algorithm) -> Algorithm:
    """Return the algorithm with ``size`` of the rows in every step, and with all of them equally often.

    A step continues in a shuffled order where the last one stopped, and starts again at its end; in N steps each of N
    rows has been seen ``size`` times, then the order is a new one. (Rows drawn independently for every step leave noise
    that all particles share. Epochs would not do either: of 21 rows 16 leave 5, and every second step would see only
    these.)
    """

    def step(key: Key, state: State, batch: Batch) -> tuple[State, Info]:
        count = batch.x.shape[0]
        order = jax.random.permutation(jax.random.fold_in(jax.random.key(0), state.step // count), count)
        rows = order[(size * (state.step % count) + jnp.arange(size)) % count]
        return algorithm.step(key, state, take(batch, rows, jnp.ones(size, bool)))

    return algorithm._replace(step=step)


def sampled_kernel(factor: float, n: int) -> StationaryKernel:
    """Return ``rbf`` with the median heuristic of n particles, its median taken over the first 100 of them."""
    few = min(MEDIAN_PARTICLES, n)
    corrected = factor * float(np.sqrt(np.log(few + 1) / np.log(n + 1)))
    return rbf(lambda f: median_lengthscale(f[:few], factor=corrected, floor=1e-5))


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


def fourier_network(units: int, bandwidth: float, noise: float) -> Network:
    r"""Return a network with a Gaussian process of squared-exponential covariance as its wide limit.

    :math:`\sum_j a_j \cos(w_j x + b_j)` has one hidden layer and cosines for units. With random weights these are
    random Fourier features; here they are free to move. w ~ N(0, 1/bandwidth²), b so wide that its phase is uniform,
    a ~ N(0, 2/units). Then E[2 cos cos'] is the covariance exp(−(x − x')² / 2 bandwidth²).
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
