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
from fpovi.inference.score import ChooseOutputs, Compare, at_step, in_rows, posterior_score
from fpovi.inference.step import (
    apply_flow,
    ascend,
    begin,
    check_schedules,
    check_targets,
    first_step,
    report,
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
    Support,
)


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
    outputs: ChooseOutputs | None = None,
    prior_outputs: ChooseOutputs | None = None,
    compare: Compare | None = None,
    prior_weight: Schedule = 1.0,
    temperature: Schedule = 1.0,
    repulsion: Schedule = 1.0,
    forward: Forward = forward_here,
) -> Algorithm:
    r"""Return function-space particle optimisation (Wang et al. 2019, Algorithm 1).

    .. math::
        \theta^i \leftarrow \theta^i + \epsilon \Big(\frac{\partial f^i(x)}{\partial\theta^i}\Big)^T \phi[f^i(x)],
        \qquad s = \frac1T\Big(\frac{N}{B'} \nabla_f \log p(y_b \mid f) + \lambda \nabla_f \log p(f)\Big)

    with φ the flow on the values f(x) at this step's measurement set x, and s the score it is given.

    Args:
        network, likelihood, prior: the model.
        flow, kernel: how particles interact; ``svgd`` with ``rbf(median_lengthscale)`` by default.
        measurement: adds points to the labelled ones, where functions are compared too; ``halo()`` by default, which
            expects standardised inputs.
        optimiser: any optax transformation; Adam with rate 4e-3 by default. One that takes extra arguments is told what
            happened in the step, ``context=`` a :class:`~fpovi.types.StepContext`.
        noise_optimiser: moves the likelihood's parameters by MAP, after the functions and at the values this step
            has computed; Adam with rate 4e-3 by default.
        prior_size: how many of the measurement points feel the prior in a step, half labelled and half extra, at
            random; None for all of them, which is exact and stiff.
        outputs: ``outputs(key, batch, rows)`` picks the columns of f that enter kernel and prior in a step, at these
            rows of x: ``(c,)`` for all or ``(len(rows), c)`` for each. Some of many classes, by
            :func:`fpovi.inference.some_classes`. All of them by default. The likelihood always sees all.
        prior_outputs: the same for the prior alone, at the points that feel it, in the place of ``outputs``; such as
            :func:`fpovi.inference.shared_classes`.
        compare: ``compare(f, batch)`` returns a factor on each value before the kernel sees it, ``(B, 1)`` or
            ``(B, k)``: 0 for values that are not compared. With :func:`fpovi.inference.only_extra` particles are held
            apart at extra points alone. All values count alike by default.
        prior_weight, temperature, repulsion: λ, T, and a factor on the flow's repulsion; numbers or schedules.
        forward: how all particles are evaluated; :func:`fpovi.inference.shard` gives one that uses many devices.
    """
    kernel = rbf() if kernel is None else kernel
    measurement = halo() if measurement is None else measurement
    optimiser = optax.adam(4e-3) if optimiser is None else optimiser
    if not jax.tree.leaves(likelihood.init()):
        noise_optimiser = optax.identity()
    noise_optimiser = optax.adam(4e-3) if noise_optimiser is None else noise_optimiser
    if isinstance(kernel, RepresentationKernel):
        raise ValueError(
            "kernel=function_value and activation are for weight_space: f is what is compared here already"
        )
    _check_prior(likelihood, prior, prior_size)
    check_schedules(prior_weight=prior_weight, temperature=temperature, repulsion=repulsion)
    score_of = posterior_score(
        likelihood, prior, prior_size, outputs, prior_weight, temperature, compare, prior_outputs
    )

    def init(key: Key, n: int, particles: PyTree | None = None) -> State:
        key_particles, key_prior = jax.random.split(key)
        particles, params, network_state = begin(key_particles, network, likelihood, n, particles)
        carry, of_noise = prior.init(key_prior, particles), noise_optimiser.init(params)
        return State(first_step(), particles, params, network_state, carry, optimiser.init(particles), of_noise)

    def values(network_state: PyTree, x: Array, rows: int, particles: PyTree) -> tuple[Float[Array, "n B k"], PyTree]:
        outputs, network_state = forward(network, particles, network_state, x, train=rows)
        return likelihood.canonical(outputs), network_state

    def step(key: Key, state: State, batch: Batch) -> tuple[State, Info]:
        key_x, *keys = jax.random.split(unrolled(key), 4)
        x = measurement(key_x, batch.x)
        all_values = partial(values, state.network_state, x, batch.x.shape[0])
        f, pullback, network_state = jax.vjp(all_values, state.particles, has_aux=True)
        score = score_of(keys, state, f, x, batch)  # (N/B' ∇log p(y|f) + prior_weight · ∇log p(f)) / temperature
        strength = at_step(state.step, repulsion, f.dtype) * score.compared
        # the kernel sees what is compared; the score drives all values
        moved = apply_flow(flow, kernel, in_rows(f) * score.compared, score.total, strength)
        (ascent,) = pullback(moved.velocity.reshape(f.shape))
        # the next key after the four above
        context = StepContext(jax.random.fold_in(key, 4), batch, state.params, state.network_state)
        particles, optimiser_state = ascend(optimiser, ascent, state.optimiser, state.particles, context=context)
        params, noise_state = ascend(noise_optimiser, score.noise, state.noise_optimiser, state.params)
        after = State(state.step, particles, params, network_state, score.prior_carry, optimiser_state, noise_state)
        return report(likelihood, state, after, moved, score.log_likelihood, score.likelihood, score.prior)

    return Algorithm(init, step, partial(check_targets, network, likelihood))


def _check_prior(likelihood: Likelihood, prior: FunctionPrior, prior_size: int | None) -> None:
    """Raise a ``ValueError`` where the prior is not one of the likelihood's f, or nothing would feel it."""
    if likelihood.support is Support.CLASSES and not prior.for_classes:
        raise ValueError(
            "prior is over raw outputs, but f is log-softmax for classes: give the prior the likelihood too, as in "
            "nngp(network, likelihood)"
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
    r"""Return function-space particle optimisation on a finite input set, f(X) itself the parameter (eq. 2).

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
