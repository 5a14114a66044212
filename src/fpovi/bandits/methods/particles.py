# SPDX-License-Identifier: Apache-2.0
"""Particles in function space and in weight space, and a single network that is trusted."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from fpovi._fast.threefry import normals
from fpovi._lookup import call_maker, lookup, make_part, maker
from fpovi.bandits.method import Lesson, Method
from fpovi.bandits.methods.options import NetworkOptions
from fpovi.bandits.methods.training import CHUNK, Build
from fpovi.flows import FLOWS
from fpovi.inference import function_space as in_function_space
from fpovi.inference import weight_space as in_weight_space
from fpovi.kernels import KERNELS
from fpovi.measurement import MEASUREMENTS
from fpovi.priors import PRIORS
from fpovi.types import Flow, FunctionPrior, Key, Measurement, Network

HISTORY = "history"
OFFERED = ("network", "likelihood")


def function_space(
    *,
    n_particles: int = 20,
    flow: str | Flow = "svgd",
    kernel: Any = "rbf",
    prior: str | Callable[..., FunctionPrior] = "nngp",
    prior_size: int | None = 16,
    prior_weight: float = 1.0,
    measurement: str | Measurement = HISTORY,
    extra: int = 64,
    reach: float = 0.1,
    **options: Any,
) -> Method:
    """Return Thompson sampling by particles in function space: each is a draw of the whole reward function.

    Args:
        n_particles: how many functions there are.
        flow, kernel: how they interact, by name or as objects.
        prior: over functions, by name or as ``prior(network, likelihood) -> FunctionPrior``.
        prior_size, prior_weight: at how many points of a step the prior is felt, and how strongly.
        measurement: where functions are compared besides the rows of a step: "history", ``extra`` other contexts of the
            past with noise of deviation ``reach``/√(N d); or another name or object of :mod:`fpovi.measurement`.
        options: those of :class:`~fpovi.bandits.methods.options.NetworkOptions`.
    """
    shared = NetworkOptions(**{"batch_size": 448, **options})
    flow_of = lookup(FLOWS, flow, "flow") if isinstance(flow, str) else flow
    kernel_of = make_part(KERNELS, kernel, "kernel") if isinstance(kernel, str) else kernel
    prior_of = maker(PRIORS, prior, "prior", *OFFERED) if isinstance(prior, str) else prior
    from_history = measurement == HISTORY
    sampler = _measurement_of(measurement, extra)
    adam = optax.adam(shared.learning_rate)

    def algorithm(network: Network) -> Build:
        return lambda numbers: in_function_space(
            network, shared.likelihood, call_maker(prior_of, network=network, likelihood=shared.likelihood),
            flow=flow_of, kernel=kernel_of, optimiser=adam, noise_optimiser=adam,
            measurement=sampler(numbers),
            prior_size=prior_size, prior_weight=prior_weight,
        )  # fmt: skip

    numbers = partial(_history, extra, reach) if from_history else lambda lesson: ()
    return shared.method(algorithm, n_particles, numbers=numbers)


def _history(extra: int, reach: float, lesson: Lesson) -> tuple[Float[np.ndarray, "M d"], Float[np.ndarray, ""]]:
    """Return past contexts to take extra points from, and the deviation of the noise."""
    x = lesson.memory.rows.x
    index = lesson.random.integers(len(x), size=CHUNK * extra)
    return x[index], np.asarray(reach / np.sqrt(x.size), np.float32)


def _near_history(extra: int, numbers: tuple[Array, Array], key: Key, labelled: Array) -> Array:
    """Return the labelled points and, after them, noisy points of the past."""
    pool, deviation = numbers
    key_rows, key_noise = jax.random.split(key)
    rows = pool[jax.random.randint(key_rows, (extra,), 0, pool.shape[0])]
    return jnp.concatenate([labelled, rows + deviation * normals(key_noise, rows.shape, rows.dtype)])


def _measurement_of(measurement: str | Measurement, extra: int) -> Callable[[Any], Measurement]:
    """Return what makes the measurement of the numbers of a chunk; only those of the past depend on them."""
    if measurement == HISTORY:
        return lambda numbers: partial(_near_history, extra, numbers)
    named = isinstance(measurement, str)
    made = (
        call_maker(maker(MEASUREMENTS, str(measurement), "measurement", "size"), size=extra) if named else measurement
    )
    return lambda numbers: made  # type: ignore[return-value]


def weight_space(*, n_particles: int = 20, flow: str | Flow = "svgd", **options: Any) -> Method:
    """Return Thompson sampling by particles that are compared by their weights.

    Args:
        n_particles: how many functions there are.
        flow: how they interact; "ensemble" for networks that climb to their MAP alone.
        options: those of :class:`~fpovi.bandits.methods.options.NetworkOptions`.
    """
    shared = NetworkOptions(**options)
    flow_of = lookup(FLOWS, flow, "flow") if isinstance(flow, str) else flow
    adam = optax.adam(shared.learning_rate)

    def algorithm(network: Network) -> Build:
        return lambda numbers: in_weight_space(network, shared.likelihood, flow=flow_of, optimiser=adam)

    return shared.method(algorithm, n_particles)


def greedy(**options: Any) -> Method:
    """Return the choice of what one network, at its MAP, says is best; with a floor, ε-greedy.

    Args:
        options: those of :class:`~fpovi.bandits.methods.options.NetworkOptions`.
    """
    return weight_space(n_particles=1, flow="ensemble", **options)
