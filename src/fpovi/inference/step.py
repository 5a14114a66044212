# SPDX-License-Identifier: Apache-2.0
"""What the steps of all algorithms are made of: the likelihood's weight, the scaled flow, the one minus sign."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from fpovi.inference.particles import forward, init_particles, num_particles
from fpovi.types import Batch, Flow, Info, Kernel, Key, Likelihood, Network, PyTree, Scalar, Schedule, State


def first_step() -> Int[Array, ""]:
    """Where a run begins."""
    return jnp.zeros((), jnp.int32)


def begin(
    key: Key, network: Network, likelihood: Likelihood, n: int, particles: PyTree | None
) -> tuple[PyTree, PyTree, PyTree]:
    """Particles (drawn, or those given), likelihood parameters and network states, all with a leading axis n."""
    drawn, network_state = init_particles(key, network, n)
    if particles is not None and num_particles(particles) != n:
        raise ValueError(f"particles has {num_particles(particles)} members, but n={n}")
    if particles is not None and jax.tree.map(jnp.shape, particles) != jax.tree.map(jnp.shape, drawn):
        raise ValueError("particles are not those of this network: their arrays have other names or shapes")
    params = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (n, *jnp.shape(leaf))), likelihood.init())
    return drawn if particles is None else particles, params, network_state


def check_knobs(**knobs: Schedule) -> None:
    """Raise a ``ValueError`` for a number no run could use; schedules are left alone."""
    for name, value in knobs.items():
        usable = callable(value) or (math.isfinite(value) and (value > 0 if name == "temperature" else value >= 0))
        if not usable:
            wanted = "positive" if name == "temperature" else "not negative"
            raise ValueError(f"{name}={value} must be finite and {wanted}")


def check_targets(network: Network, likelihood: Likelihood, state: State, data: Batch) -> None:
    """Raise a ``ValueError`` unless the targets are of the kind and number that the network's outputs predict."""
    outputs, _ = jax.eval_shape(partial(forward, network), state.particles, state.network_state, data.x)
    targets, k = data.y.shape[1], outputs.shape[-1]
    if targets != likelihood.targets(k):
        raise ValueError(
            f"y has {targets} targets per row, but the network's {k} outputs predict {likelihood.targets(k)} under "
            f"this likelihood: give the network likelihood.width({targets}) outputs (or one per class)"
        )
    likelihood.check(data.y, k)


def weighted_log_likelihood(
    likelihood: Likelihood, params: PyTree, f: Float[Array, "n B k"], batch: Batch
) -> tuple[Scalar, Scalar]:
    """N/Σw · Σ w log p(y | f), summed over particles, and per datum and particle for the eye."""
    labelled = f[:, : batch.x.shape[0]]
    log_prob = jax.vmap(lambda params, f: likelihood.log_prob(params, f, batch.y), axis_size=f.shape[0])
    seen = jnp.maximum(jnp.sum(batch.weight), jnp.finfo(f.dtype).tiny)
    weight = jnp.broadcast_to(batch.weight, batch.y.shape).ravel()
    mean = jnp.sum(log_prob(params, labelled).reshape(f.shape[0], -1) @ weight) / seen
    return batch.num_data * mean, mean / f.shape[0]


def scaled_velocity(
    flow: Flow, f: Float[Array, "n d"], score: Float[Array, "n d"], kernel: Any, factor: Array
) -> tuple[Float[Array, "n d"], Float[Array, "n d"]]:
    """The flow with its repulsion scaled: flows are affine in the score, and what remains without it is repulsion.

    The drive is the derivative along the score, which shares all products with the flow itself.
    """
    whole, drive = jax.jvp(lambda score: flow(f, score, kernel), (score,), (score,))
    push = whole - drive
    return drive + factor * push, push


def log_density(likelihood: Likelihood, params: PyTree) -> Scalar:
    """The log-prior as a density of ``params`` themselves, as sampling needs it; MAP is of what they stand for."""
    return likelihood.log_prior(params) + likelihood.log_jacobian(params)


def noise_direction(likelihood: Likelihood, likelihood_score: PyTree, params: PyTree) -> PyTree:
    """∂/∂params of log-likelihood plus log-prior; one common direction where the parameters are shared."""
    prior_score = jax.grad(lambda params: jnp.sum(over_particles(likelihood.log_prior, params, 1)))
    if not jax.tree.leaves(params):
        return params
    ascent = jax.tree.map(jnp.add, likelihood_score, prior_score(params))
    return jax.tree.map(shared_direction, ascent) if likelihood.shared else ascent


def over_particles(function: Callable[[PyTree], Array], params: PyTree, n: int) -> Float[Array, " n"]:
    """``function`` of every particle's params, also where there are none."""
    size = None if jax.tree.leaves(params) else n
    return jax.vmap(lambda params: function(params), axis_size=size)(params)


def shared_direction(leaf: Array) -> Array:
    """The mean over particles, for each of them."""
    return jnp.broadcast_to(jnp.mean(leaf, axis=0, keepdims=True), leaf.shape)


def ascend(
    optimiser: optax.GradientTransformation, ascent: PyTree, state: PyTree, target: PyTree, **beside: Any
) -> tuple[PyTree, PyTree]:
    """One optax step uphill: the only minus sign. ``beside`` is for optimisers that know what to do with it."""
    downhill = jax.tree.map(jnp.negative, ascent)
    updates, state = optax.with_extra_args_support(optimiser).update(downhill, state, target, **beside)
    return optax.apply_updates(target, updates), state


def finish(after: State, log_lik: Scalar) -> tuple[State, Bool[Array, ""]]:
    """``after`` as one step further, and whether all it holds for the next one is finite."""
    finite = all_finite((after.particles, after.params, after.network_state, after.prior, log_lik))
    return after._replace(step=after.step + 1), finite


def settle(kernel: Kernel, f: Float[Array, "n d"]) -> Kernel:
    """The kernel with its lengthscale fixed for this step, where it has one to fix."""
    return kernel.at(f) if hasattr(kernel, "at") else kernel


def all_finite(tree: PyTree) -> Bool[Array, ""]:
    """Whether every array of floating-point numbers has a finite sum: cheaper than to look at each number.

    >>> bool(all_finite({"w": jnp.ones((2, 3)), "count": jnp.asarray(7)})), bool(all_finite(jnp.asarray([1, jnp.nan])))
    (True, False)
    """
    numbers = [leaf for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.inexact)]
    return jnp.all(jnp.asarray([jnp.isfinite(_total(leaf)) for leaf in numbers]))


def _total(a: Array) -> Array:
    """The sum of all numbers, as a product with a vector.

    On a CPU 13,000 numbers take 9 µs where a loop over them takes 14, and millions about as long either way.
    """
    if a.ndim < 2 or a.size == 0:
        return jnp.sum(a)
    flat = a.reshape(a.shape[0], -1)
    return jnp.sum(flat @ jnp.ones(flat.shape[1], a.dtype))


def at_step(step: Array, knob: Schedule, dtype: jnp.dtype) -> Array:
    """The value of a knob, which may be a schedule, at this step."""
    return jnp.asarray(knob(step) if callable(knob) else knob, dtype)


def summary(
    log_lik: Array,
    likelihood_score: Array,
    prior_score: Array,
    push: Array,
    velocity: Array,
    kernel: Any,
    f: Array,
    noise: Array,
    finite: Array,
) -> Info:
    """The Info of a step. Scores may leave out values where they are zero: norms are per value of f."""
    n, gram = f.shape[0], kernel(f, f)

    def rms(a: Array) -> Array:
        return jnp.sqrt(_total(a**2) / f.size)

    return Info(
        log_likelihood=log_lik,
        likelihood_norm=rms(likelihood_score),
        prior_norm=rms(prior_score),
        repulsion_norm=rms(push),
        velocity_norm=rms(velocity),
        similarity=(jnp.sum(gram) - jnp.trace(gram)) / max(n * (n - 1), 1),
        lengthscale=jnp.asarray(getattr(kernel, "lengthscale", jnp.nan), f.dtype),
        noise=jnp.mean(noise),
        finite=finite,
    )
