# SPDX-License-Identifier: Apache-2.0
"""The two phases of a fit: a warm-up in which particles climb alone, and the flow.

Where the evidence has chosen the prior's scales, particles start at hidden layers from the prior and a last layer from
its exact posterior, and first become good MAP fits: from prior draws, with scales as small or large as the evidence
makes them, the flow alone would take far too long. Then the flow makes draws of a posterior of them.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh
from jaxtyping import Array, Float

from fpovi.fitting.parts import Spec
from fpovi.flows import ensemble
from fpovi.inference import function_space, weight_space
from fpovi.inference.particles import forward
from fpovi.inference.sharding import shard
from fpovi.inference.warm_start import posterior_last_layer
from fpovi.likelihoods import Floored
from fpovi.types import Algorithm, Batch, Key, ParametrisedAlgorithm, PyTree, Scalar, Scales, State

RAMP = 0.05  # the share of a phase in which the rate rises
NOISE_RATE, NOISE_REST = 3.0, 0.1  # the noise's peak rate over that of the weights, and what is left of it in the end
MEMORY, NOISE_MEMORY = 0.99, 0.9  # of Adam's second moment: short, as scores shrink by orders of magnitude


class PhaseSettings(NamedTuple):
    """The numbers of a phase: prior scales, the optimiser's peak rate, and over how many steps it decays."""

    scales: Scales
    rate: Scalar
    steps: Scalar


def flow_phase(spec: Spec, settings: PhaseSettings, mesh: Mesh | None = None) -> ParametrisedAlgorithm:
    """Return the algorithm that was asked for, with particles over a mesh of devices, if there is one."""
    return ParametrisedAlgorithm(_flow(spec, mesh), settings)


def warm_up_phase(spec: Spec, settings: PhaseSettings, mesh: Mesh | None = None) -> ParametrisedAlgorithm:
    """Return a MAP ensemble of the same model."""
    return ParametrisedAlgorithm(_warm(spec, mesh), settings)


@lru_cache(maxsize=256)
def _flow(spec: Spec, mesh: Mesh | None) -> Callable[[PhaseSettings], Algorithm]:
    def build(settings: PhaseSettings) -> Algorithm:
        network = spec.build_network(settings.scales)
        parts: dict[str, Any] = {"flow": spec.flow, "kernel": spec.kernel, "measurement": spec.measurement}
        if spec.space == "weight":
            return _over(mesh, weight_space)(network, spec.likelihood, optimiser=_both(settings), **parts)
        prior = spec.build_prior(network)
        optimisers = {"optimiser": _weights(settings), "noise_optimiser": _noise(settings)}
        return _over(mesh, function_space)(network, spec.likelihood, prior, **optimisers, **parts)

    return build


@lru_cache(maxsize=256)
def _warm(spec: Spec, mesh: Mesh | None) -> Callable[[PhaseSettings], Algorithm]:
    def build(settings: PhaseSettings) -> Algorithm:
        network = spec.build_network(settings.scales)
        return _over(mesh, weight_space)(network, spec.likelihood, flow=ensemble, optimiser=_both(settings))

    return build


def _over(mesh: Mesh | None, make: Callable[..., Algorithm]) -> Callable[..., Algorithm]:
    return make if mesh is None else shard(make, mesh)


def _weights(settings: PhaseSettings) -> optax.GradientTransformation:
    return optax.adam(lambda count: settings.rate * ramp_and_cosine(count, settings.steps), b2=MEMORY)


def _noise(settings: PhaseSettings) -> optax.GradientTransformation:
    decay = lambda count: NOISE_REST + (1 - NOISE_REST) * ramp_and_cosine(count, settings.steps)  # noqa: E731
    return optax.adam(lambda count: NOISE_RATE * settings.rate * decay(count), b2=NOISE_MEMORY)


def _both(settings: PhaseSettings) -> optax.GradientTransformation:
    """Return the optimiser of the pair (weights, likelihood parameters)."""
    return optax.multi_transform({"weights": _weights(settings), "noise": _noise(settings)}, ("weights", "noise"))


def ramp_and_cosine(count: Array, steps: Scalar) -> Scalar:
    """Return a rate that rises to 1 over the first steps, then falls to 0 along half a cosine."""
    done = jnp.clip(count.astype(steps.dtype) / steps, 0, 1)
    return jnp.minimum(done / RAMP, 1) * (1 + jnp.cos(jnp.pi * done)) / 2


@partial(jax.jit, static_argnums=(0, 1))
def start(spec: Spec, n: int, settings: PhaseSettings, key: Key) -> State:
    """Return the flow's first state, from the network's own start; a noise's floor is the noise of the scales."""
    state = flow_phase(spec, settings).algorithm.init(key, n)
    if not isinstance(state.params, Floored):
        return state
    return state._replace(params=state.params._replace(floor=jnp.full((n,), settings.scales.noise)))


@partial(jax.jit, static_argnums=0)
def continue_from(spec: Spec, settings: PhaseSettings, key: Key, earlier: State) -> State:
    """Return the flow's first state, from particles that another phase or fit has left."""
    n = jax.tree.leaves(earlier.particles)[0].shape[0]
    state = flow_phase(spec, settings).algorithm.init(key, n, earlier.particles)
    return state._replace(params=earlier.params, network_state=earlier.network_state)


def can_warm_up(spec: Spec) -> bool:
    """Tell whether particles may start at the exact posterior of their last layer."""
    own, likelihood = spec.network is None, spec.likelihood
    real = not likelihood.support.atoms and likelihood.targets(spec.sizes[-1]) == spec.sizes[-1]
    return own and real and len(spec.sizes) > 2 and spec.space == "function"


@partial(jax.jit, static_argnums=(0, 1))
def warm_start(spec: Spec, n: int, settings: PhaseSettings, key: Key, data: Batch) -> State:
    """Return the warm-up's first state; a noise with a floor starts at what each particle leaves unexplained."""
    key_particles, key_state = jax.random.split(key)
    network = spec.build_network(settings.scales)
    noise = settings.scales.noise.astype(data.x.dtype)
    particles = posterior_last_layer(key_particles, network, data.x, data.y, noise, n, data.weight, refits=2)
    state = warm_up_phase(spec, settings).algorithm.init(key_state, n, particles)
    if not isinstance(state.params, Floored):
        return state
    outputs, _ = forward(network, particles, state.network_state, data.x)
    squared = jnp.sum((outputs - data.y) ** 2 * data.weight, axis=(1, 2))
    left = jnp.sqrt(squared / (jnp.sum(data.weight) * (data.y.shape[1] / data.weight.shape[1])))
    return state._replace(params=Floored.at(jnp.maximum(left, noise), noise))


@partial(jax.jit, static_argnums=0)
def outputs_of(
    spec: Spec, scales: Scales, particles: PyTree, network_state: PyTree, x: Float[Array, "B *d_x"]
) -> Float[Array, "n B k"]:
    """Return f of all particles at one block of rows."""
    outputs, _ = forward(spec.build_network(scales), particles, network_state, x)
    return spec.likelihood.canonical(outputs)
