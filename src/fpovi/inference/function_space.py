# SPDX-License-Identifier: Apache-2.0
"""Algorithms: one step of the particles, as two pure functions ``init`` and ``step``.

:func:`exact` is :func:`function_space` with a table of values in place of a network;
:func:`fpovi.inference.weight_space` compares weights instead, and :func:`fpovi.inference.run` repeats a step.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from fpovi._fast.threefry import unrolled
from fpovi.flows import svgd
from fpovi.inference.particles import forward as forward_here
from fpovi.inference.score import in_rows, likelihood_score, prior_points, prior_score, score_everywhere
from fpovi.inference.step import (
    ascend,
    at_step,
    begin,
    check_knobs,
    check_targets,
    finish,
    first_step,
    noise_direction,
    over_particles,
    scaled_velocity,
    settle,
    summary,
)
from fpovi.kernels import RepresentationKernel, rbf
from fpovi.measurement import halo
from fpovi.types import (
    Algorithm,
    Batch,
    Flow,
    Forward,
    FunctionPrior,
    Info,
    Kernel,
    Key,
    Likelihood,
    Measurement,
    Network,
    PyTree,
    Schedule,
    State,
    StepContext,
)

Outputs = Callable[[Key, Batch], Int[Array, " c"]]


def function_space(
    network: Network,
    likelihood: Likelihood,
    prior: FunctionPrior,
    *,
    flow: Flow = svgd,
    kernel: Kernel | RepresentationKernel | None = None,
    measurement: Measurement | None = None,
    optimiser: optax.GradientTransformation | None = None,
    noise_optimiser: optax.GradientTransformation | None = None,
    prior_size: int | None = 16,
    outputs: Outputs | None = None,
    prior_weight: Schedule = 1.0,
    temperature: Schedule = 1.0,
    repulsion: Schedule = 1.0,
    forward: Forward = forward_here,
) -> Algorithm:
    r"""Function-space particle optimisation (Wang et al. 2019, Algorithm 1).

    .. math::
        \theta^i \leftarrow \theta^i + \epsilon \Big(\frac{\partial f^i(x)}{\partial\theta^i}\Big)^T \phi[f^i(x)],
        \qquad s = \frac1T\Big(\frac{N}{B'} \nabla_f \log p(y_b \mid f) + \lambda \nabla_f \log p(f)\Big)

    with φ the flow on the values f(x) at this step's measurement set x, and s the score it is given.

    Args:
        network, likelihood, prior: the model.
        flow, kernel: how particles interact; ``svgd`` with ``rbf(median_lengthscale)`` by default.
        measurement: adds points to the labelled ones, where functions are compared too; ``halo(20)`` by default, which
            expects standardised inputs.
        optimiser: any optax transformation; Adam with rate 4e-3 by default. One that takes extra arguments is told what
            happened in the step, ``context=`` a :class:`~fpovi.types.StepContext`.
        noise_optimiser: moves the likelihood's parameters by MAP, after the functions and at the values this step
            has computed; Adam with rate 4e-3 by default.
        prior_size: how many of the measurement points feel the prior in a step, half labelled and half extra, at
            random; None for all of them, which is exact and stiff.
        outputs: ``outputs(key, batch) -> (c,)`` picks the columns of f that enter kernel and prior in a step, a few of
            many classes for example; all of them by default. The likelihood always sees all.
        prior_weight, temperature, repulsion: λ, T, and a factor on the flow's repulsion; numbers or schedules.
        forward: how all particles are evaluated; :func:`fpovi.inference.shard` gives one that uses many devices.
    """
    kernel = rbf() if kernel is None else kernel
    measurement = halo(20) if measurement is None else measurement
    optimiser = optax.adam(4e-3) if optimiser is None else optimiser
    if not jax.tree.leaves(likelihood.init()):
        noise_optimiser = optax.identity()
    noise_optimiser = optax.adam(4e-3) if noise_optimiser is None else noise_optimiser
    if isinstance(kernel, RepresentationKernel):
        raise ValueError(
            "kernel=function_value and activation are for weight_space: f is what is compared here already"
        )
    _check_prior(likelihood, prior, prior_size)
    check_knobs(prior_weight=prior_weight, temperature=temperature, repulsion=repulsion)

    def init(key: Key, n: int, particles: PyTree | None = None) -> State:
        key_particles, key_prior = jax.random.split(key)
        particles, params, network_state = begin(key_particles, network, likelihood, n, particles)
        carry = prior.init(key_prior, particles)
        return State(
            first_step(),
            particles,
            params,
            network_state,
            carry,
            optimiser.init(particles),
            noise_optimiser.init(params),
        )

    def step(key: Key, state: State, batch: Batch) -> tuple[State, Info]:
        key_x, key_points, key_prior, key_outputs = jax.random.split(unrolled(key), 4)
        x = measurement(key_x, batch.x)

        def values(particles: PyTree) -> tuple[Array, PyTree]:
            outputs, network_state = forward(network, particles, state.network_state, x, train=True)
            return likelihood.canonical(outputs), network_state

        f, pullback, network_state = jax.vjp(values, state.particles, has_aux=True)
        log_lik, noise_score, from_data = likelihood_score(likelihood, state.params, f, batch)
        chosen = prior_points(key_points, batch.weight, x.shape[0], prior_size)
        columns = () if outputs is None else (outputs(key_outputs, batch),)
        felt, carry = prior_score(prior, key_prior, state.prior, f[:, chosen], x[chosen], *columns)
        from_prior = at_step(state.step, prior_weight, f.dtype) * felt
        score = score_everywhere(f, from_data, from_prior, chosen) / at_step(state.step, temperature, f.dtype)

        compared = jnp.ones((), f.dtype)
        if columns:
            compared = jnp.zeros(f.shape[1:], f.dtype).at[:, columns[0]].set(1).ravel()
        at_points, factor = in_rows(f) * compared, at_step(state.step, repulsion, f.dtype) * compared
        fixed = settle(kernel, at_points)
        velocity, push = scaled_velocity(flow, at_points, score, fixed, factor)
        (ascent,) = pullback(velocity.reshape(f.shape))

        noise_ascent = noise_direction(likelihood, noise_score, state.params)
        # the next key after the four above
        context = StepContext(jax.random.fold_in(key, 4), batch, state.params, state.network_state)
        particles, optimiser_state = ascend(optimiser, ascent, state.optimiser, state.particles, context=context)
        params, noise_state = ascend(noise_optimiser, noise_ascent, state.noise_optimiser, state.params)
        after = State(state.step, particles, params, network_state, carry, optimiser_state, noise_state)
        after, finite = finish(after, log_lik)
        noise = over_particles(likelihood.noise, state.params, f.shape[0])
        return after, summary(log_lik, from_data, from_prior, push, velocity, fixed, at_points, noise, finite)

    return Algorithm(init, step, partial(check_targets, network, likelihood))


def _check_prior(likelihood: Likelihood, prior: FunctionPrior, prior_size: int | None) -> None:
    """Raise a ``ValueError`` where it is not one of the likelihood's f, or nothing would feel it."""
    if likelihood.classes and not prior.classes:
        raise ValueError(
            "prior is over raw outputs, but f is log-softmax for classes: give moment_matched or ssge "
            "canonical=likelihood.canonical, and nngp, gaussian_process or width_aware centred=True"
        )
    if prior_size is not None and prior_size < 1:
        raise ValueError(f"prior_size={prior_size} must be at least 1 (use prior=flat() for no prior)")


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
        x: the whole input set X. The data are its first rows, in their order; values are looked up by input.
        likelihood, prior: the model.
        start: ``start(key)`` gives one particle's first values.
        options: as in :func:`function_space`.
    """
    known = jnp.asarray(x)

    def row_of(inputs: Float[Array, "B d_x"]) -> Int[Array, " B"]:
        return jnp.argmin(jnp.sum((inputs[:, None] - known.astype(inputs.dtype)) ** 2, axis=-1), axis=1)

    table = Network(
        init=lambda key: (start(key), ()),
        sample_prior=start,
        log_prior=lambda theta: jnp.zeros(()),
        apply=lambda theta, state, inputs, train: (theta[row_of(inputs)], state),
    )
    rest = lambda key, labelled: jnp.concatenate([labelled, x[labelled.shape[0] :]])  # noqa: E731
    return function_space(table, likelihood, prior, measurement=rest, prior_size=None, **options)
