# SPDX-License-Identifier: Apache-2.0
"""Algorithms: one step of the particles, as two pure functions ``init`` and ``step``.

:func:`function_space` and :func:`weight_space` differ in what a particle is to the flow, its values f(x) or its
weights θ; :func:`exact` is the former with a table of values in place of a network. :func:`fpovi.loop.run` repeats
a step.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from fpovi.flows import svgd
from fpovi.kernels import RepresentationKernel, StationaryKernel, rbf
from fpovi.measurement import train_only
from fpovi.particles import forward, init_particles, num_particles, ravel
from fpovi.types import (
    Batch,
    Flow,
    FunctionPrior,
    Key,
    Likelihood,
    Measurement,
    Network,
    PyTree,
    Scalar,
    Schedule,
)


class State(NamedTuple):
    """What the next step needs.

    ``params`` are the likelihood's, ``model`` the networks' states, both with a leading axis n; ``prior`` is what the
    function prior carries from step to step.
    """

    step: Int[Array, ""]
    particles: PyTree
    params: PyTree
    model: PyTree
    prior: PyTree
    optimiser: PyTree
    noise_optimiser: PyTree


class Info(NamedTuple):
    """What a person wants to see of a step; norms are root mean squares over particles and coordinates."""

    log_likelihood: Scalar
    likelihood_norm: Scalar
    prior_norm: Scalar
    repulsion_norm: Scalar
    velocity_norm: Scalar
    similarity: Scalar
    lengthscale: Scalar
    noise: Scalar
    finite: Bool[Array, ""]


class Algorithm(NamedTuple):
    """``init(key, n, particles=None) -> State`` and ``step(key, state, batch) -> (State, Info)``."""

    init: Callable[..., State]
    step: Callable[[Key, State, Batch], tuple[State, Info]]


def function_space(
    network: Network,
    likelihood: Likelihood,
    prior: FunctionPrior,
    *,
    flow: Flow = svgd,
    kernel: StationaryKernel | None = None,
    measurement: Measurement | None = None,
    optimiser: optax.GradientTransformation | None = None,
    noise_optimiser: optax.GradientTransformation | None = None,
    prior_size: int | None = None,
    prior_weight: Schedule = 1.0,
    temperature: Schedule = 1.0,
    repulsion: Schedule = 1.0,
) -> Algorithm:
    r"""Function-space particle optimisation (Wang et al. 2019, Algorithm 1).

    .. math::
        \theta^i \leftarrow \theta^i + \epsilon \Big(\frac{\partial f^i(x)}{\partial\theta^i}\Big)^T \phi[f^i(x)],
        \qquad s = \frac1T\Big(\frac{N}{B'} \nabla_f \log p(y_b \mid f) + \lambda \nabla_f \log p(f)\Big)

    with φ the flow on the values f(x) at this step's measurement set x, and s the score it is given.

    Args:
        network, likelihood, prior: the model.
        flow, kernel: how particles interact; ``svgd`` with ``rbf(median_lengthscale)`` by default.
        measurement: adds points to the labelled ones; none by default.
        optimiser: any optax transformation; Adam with rate 4e-3 by default.
        noise_optimiser: moves the likelihood's parameters by MAP, after the functions and at the values this step
            has computed; like ``optimiser`` by default.
        prior_size: how many of the measurement points feel the prior in a step, half labelled and half extra, at
            random; all of them by default.
        prior_weight, temperature, repulsion: λ, T, and a factor on the flow's repulsion; numbers or schedules.
    """
    kernel = rbf() if kernel is None else kernel
    measurement = train_only() if measurement is None else measurement
    optimiser = optax.adam(4e-3) if optimiser is None else optimiser
    noise_optimiser = optimiser if noise_optimiser is None else noise_optimiser
    if prior_size is not None and prior_size < 1:
        raise ValueError(f"prior_size={prior_size} must be at least 1 (use prior=flat() for no prior)")

    def init(key: Key, n: int, particles: PyTree | None = None) -> State:
        key_particles, key_prior = jax.random.split(key)
        particles, params, model = _start(key_particles, network, likelihood, n, particles)
        carry = prior.init(key_prior, n)
        return State(_zero(), particles, params, model, carry, optimiser.init(particles), noise_optimiser.init(params))

    def step(key: Key, state: State, batch: Batch) -> tuple[State, Info]:
        key_x, key_points, key_prior = jax.random.split(key, 3)
        x = measurement(key_x, batch.x)

        def values(particles: PyTree) -> tuple[Array, PyTree]:
            outputs, model = forward(network, particles, state.model, x, train=True)
            return likelihood.canonical(outputs), model

        f, pullback, model = jax.vjp(values, state.particles, has_aux=True)
        (_, log_lik), (noise_score, likelihood_score) = jax.value_and_grad(
            _log_likelihood, argnums=(1, 2), has_aux=True
        )(likelihood, state.params, f, batch)
        chosen = _prior_points(key_points, batch.x.shape[0], x.shape[0], prior_size)
        felt, carry = _prior_score(prior, key_prior, state.prior, f[:, chosen], x[chosen])
        prior_score = _at(state.step, prior_weight, f.dtype) * jnp.zeros_like(f).at[:, chosen].set(felt)
        score = (likelihood_score + prior_score) / _at(state.step, temperature, f.dtype)

        fixed = kernel.at(_flat(f))
        velocity, push = _velocity(flow, _flat(f), _flat(score), fixed, _at(state.step, repulsion, f.dtype))
        (ascent,) = pullback(velocity.reshape(f.shape))

        noise_ascent = _noise_ascent(likelihood, noise_score, state.params)
        finite = _all_finite((ascent, noise_ascent))
        particles, optimiser_state = _ascend(optimiser, ascent, state.optimiser, state.particles, finite)
        params, noise_state = _ascend(noise_optimiser, noise_ascent, state.noise_optimiser, state.params, finite)
        noise = _over_particles(likelihood.noise, state.params, f.shape[0])
        info = _info(log_lik, likelihood_score, prior_score, push, velocity, fixed, _flat(f), noise, finite)
        return State(state.step + 1, particles, params, model, carry, optimiser_state, noise_state), info

    return Algorithm(init, step)


def exact(
    x: Float[Array, "M d_x"],
    likelihood: Likelihood,
    prior: FunctionPrior,
    *,
    start: Callable[[Key], Float[Array, "M k"]],
    **options: Any,
) -> Algorithm:
    r"""Function-space particle optimisation on a finite input set, f(X) itself the parameter (Wang et al. 2019, eq. 2).

    .. math:: f^i(X) \leftarrow f^i(X) + \epsilon\, \phi[f^i(X)]

    Args:
        x: the whole input set X. A batch holds its first rows, in their order.
        likelihood, prior: the model.
        start: ``start(key)`` gives one particle's first values.
        options: as in :func:`function_space`.
    """
    table = Network(
        init=lambda key: (start(key), ()),
        sample_prior=start,
        log_prior=lambda theta: jnp.zeros(()),
        apply=lambda theta, state, x, train: (theta, state),
    )
    rest = lambda key, labelled: jnp.concatenate([labelled, x[labelled.shape[0] :]])  # noqa: E731
    return function_space(table, likelihood, prior, measurement=rest, **options)


def weight_space(
    network: Network,
    likelihood: Likelihood,
    *,
    flow: Flow = svgd,
    kernel: StationaryKernel | RepresentationKernel | None = None,
    measurement: Measurement | None = None,
    optimiser: optax.GradientTransformation | None = None,
    temperature: Schedule = 1.0,
    repulsion: Schedule = 1.0,
) -> Algorithm:
    r"""Particle optimisation of the weights: the same flows on ravelled θ, under the network's own weight prior.

    .. math::
        \theta^i \leftarrow \theta^i + \epsilon\, \phi[\theta^i], \qquad
        s = \frac1T\Big(\frac{N}{B'} \nabla_\theta \log p(y_b \mid f_\theta) + \nabla_\theta \log p(\theta)\Big)

    A learned noise scale is one more coordinate of the particle. With ``flow=ensemble`` this is a MAP ensemble.

    Args:
        network, likelihood: the model.
        flow, kernel: how particles interact; ``kernel`` may also be ``function_value()`` or ``activation()``, which
            look at what the networks say on this step's measurement set.
        measurement, optimiser, temperature, repulsion: as in :func:`function_space`.
    """
    kernel = rbf() if kernel is None else kernel
    measurement = train_only() if measurement is None else measurement
    optimiser = optax.adam(4e-3) if optimiser is None else optimiser

    def init(key: Key, n: int, particles: PyTree | None = None) -> State:
        particles, params, model = _start(key, network, likelihood, n, particles)
        return State(_zero(), particles, params, model, (), optimiser.init((particles, params)), ())

    def log_likelihood(
        particles: tuple[PyTree, PyTree], state: State, batch: Batch
    ) -> tuple[Array, tuple[Array, PyTree]]:
        theta, params = particles
        outputs, model = forward(network, theta, state.model, batch.x, train=True)
        total, mean = _log_likelihood(likelihood, params, likelihood.canonical(outputs), batch)
        return total, (mean, model)

    def log_prior(particles: tuple[PyTree, PyTree]) -> Array:
        theta, params = particles
        n = num_particles(theta)
        return jnp.sum(jax.vmap(network.log_prior)(theta)) + jnp.sum(_over_particles(likelihood.log_prior, params, n))

    def on_weights(key: Key, state: State, batch: Batch, unravel: Callable[[Array], PyTree]) -> Any:
        """The kernel as a function of ravelled weights; where it looks at functions, at this step's inputs."""
        if not isinstance(kernel, RepresentationKernel):
            return kernel
        x, say = measurement(key, batch.x), kernel.forward(network)
        one_model = jax.tree.map(lambda leaf: leaf[0], state.model)
        return kernel.on(lambda row: say(unravel(row)[0], one_model, x, True)[0].ravel())

    def step(key: Key, state: State, batch: Batch) -> tuple[State, Info]:
        together = (state.particles, state.params)
        rows, unravel = ravel(together)
        (_, (log_lik, model)), likelihood_score = jax.value_and_grad(log_likelihood, has_aux=True)(
            together, state, batch
        )
        likelihood_score, _ = ravel(likelihood_score)
        prior_score, _ = ravel(jax.grad(log_prior)(together))
        score = (likelihood_score + prior_score) / _at(state.step, temperature, rows.dtype)

        fixed = on_weights(key, state, batch, unravel).at(rows)
        velocity, push = _velocity(flow, rows, score, fixed, _at(state.step, repulsion, rows.dtype))
        ascent, noise_ascent = jax.vmap(unravel)(velocity)
        if likelihood.shared:
            noise_ascent = jax.tree.map(_common, noise_ascent)

        finite = _all_finite(velocity)
        (particles, params), optimiser_state = _ascend(
            optimiser, (ascent, noise_ascent), state.optimiser, together, finite
        )
        noise = _over_particles(likelihood.noise, state.params, rows.shape[0])
        info = _info(log_lik, likelihood_score, prior_score, push, velocity, fixed, rows, noise, finite)
        return State(state.step + 1, particles, params, model, (), optimiser_state, ()), info

    return Algorithm(init, step)


def _zero() -> Int[Array, ""]:
    return jnp.zeros((), jnp.int32)


def _start(
    key: Key, network: Network, likelihood: Likelihood, n: int, particles: PyTree | None
) -> tuple[PyTree, PyTree, PyTree]:
    """Particles (drawn, or those given), likelihood parameters and network states, all with a leading axis n."""
    drawn, model = init_particles(key, network, n)
    if particles is not None and num_particles(particles) != n:
        raise ValueError(f"particles has {num_particles(particles)} members, but n={n}")
    params = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (n, *jnp.shape(leaf))), likelihood.init())
    return drawn if particles is None else particles, params, model


def _log_likelihood(
    likelihood: Likelihood, params: PyTree, f: Float[Array, "n B k"], batch: Batch
) -> tuple[Scalar, Scalar]:
    """N/Σw · Σ w log p(y | f), summed over particles, and per datum and particle for the eye."""
    labelled = f[:, : batch.x.shape[0]]
    log_prob = jax.vmap(lambda params, f: likelihood.log_prob(params, f, batch.y), axis_size=f.shape[0])
    seen = jnp.maximum(jnp.sum(batch.weight), jnp.finfo(f.dtype).tiny)
    mean = jnp.sum(log_prob(params, labelled) * batch.weight) / seen
    return batch.num_data * mean, mean / f.shape[0]


def _prior_points(key: Key, labelled: int, total: int, size: int | None) -> Int[Array, " size"]:
    """Which measurement points feel the prior: half labelled, half extra, without repetition."""
    if size is None or size >= total:
        return jnp.arange(total)
    from_extra = min(size - size // 2, total - labelled)
    key_labelled, key_extra = jax.random.split(key)
    first = jax.random.permutation(key_labelled, labelled)[: size - from_extra]
    second = labelled + jax.random.permutation(key_extra, total - labelled)[:from_extra]
    return jnp.concatenate([first, second])


def _prior_score(
    prior: FunctionPrior, key: Key, carry: PyTree, f: Float[Array, "n B k"], x: Float[Array, "B *d_x"]
) -> tuple[Float[Array, "n B k"], PyTree]:
    if prior.advance is None:
        return prior.score(key, f, x), carry
    return prior.advance(key, carry, f, x)


def _velocity(
    flow: Flow, f: Float[Array, "n d"], score: Float[Array, "n d"], kernel: Any, factor: Array
) -> tuple[Float[Array, "n d"], Float[Array, "n d"]]:
    """The flow with its repulsion scaled: flows are affine in the score, and what remains at score 0 is repulsion."""
    push = flow(f, jnp.zeros_like(score), kernel)
    return flow(f, score, kernel) + (factor - 1) * push, push


def _noise_ascent(likelihood: Likelihood, likelihood_score: PyTree, params: PyTree) -> PyTree:
    """∂/∂params of log-likelihood plus log-prior; one common direction where the parameters are shared."""
    prior_score = jax.grad(lambda params: jnp.sum(_over_particles(likelihood.log_prior, params, 1)))
    if not jax.tree.leaves(params):
        return params
    ascent = jax.tree.map(jnp.add, likelihood_score, prior_score(params))
    return jax.tree.map(_common, ascent) if likelihood.shared else ascent


def _over_particles(function: Callable[[PyTree], Array], params: PyTree, n: int) -> Float[Array, " n"]:
    """``function`` of every particle's params, also where there are none."""
    size = None if jax.tree.leaves(params) else n
    return jax.vmap(lambda params: function(params), axis_size=size)(params)


def _common(leaf: Array) -> Array:
    return jnp.broadcast_to(jnp.mean(leaf, axis=0, keepdims=True), leaf.shape)


def _ascend(
    optimiser: optax.GradientTransformation, ascent: PyTree, state: PyTree, target: PyTree, finite: Array
) -> tuple[PyTree, PyTree]:
    """One optax step uphill (its only minus sign); ``target`` stays where it is if the step is not finite."""
    updates, state = optimiser.update(jax.tree.map(jnp.negative, ascent), state, target)
    return jax.tree.map(lambda t, u: t + jnp.where(finite, u, 0).astype(t.dtype), target, updates), state


def _all_finite(tree: PyTree) -> Bool[Array, ""]:
    return jnp.all(jnp.asarray([jnp.isfinite(jnp.sum(leaf)) for leaf in jax.tree.leaves(tree)]))


def _flat(f: Float[Array, "n B k"]) -> Float[Array, "n d"]:
    return f.reshape(f.shape[0], -1)


def _at(step: Array, knob: Schedule, dtype: jnp.dtype) -> Array:
    return jnp.asarray(knob(step) if callable(knob) else knob, dtype)


def _info(
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
    rms = lambda a: jnp.sqrt(jnp.mean(a**2))  # noqa: E731
    n = f.shape[0]
    gram = kernel(f, f)
    return Info(
        log_likelihood=log_lik,
        likelihood_norm=rms(likelihood_score),
        prior_norm=rms(prior_score),
        repulsion_norm=rms(push),
        velocity_norm=rms(velocity),
        similarity=(jnp.sum(gram) - jnp.trace(gram)) / max(n * (n - 1), 1),
        lengthscale=jnp.asarray(kernel.lengthscale, f.dtype),
        noise=jnp.mean(noise),
        finite=finite,
    )
