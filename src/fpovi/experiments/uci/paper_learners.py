# SPDX-License-Identifier: Apache-2.0
r"""The settings of Wang et al. (2019) for UCI sets: how the networks of every method but ``fpovi`` are trained.

Settings that the paper's text leaves open are those of the authors' released code:

- inputs divided by √d_x once standardised; weights and biases N(0, 1/n_out); starts at N(0, 1/(n_in + n_out + 1));
- at every step 100 extra points, training rows plus noise of standard deviation 1/√(N d_x): nearly training inputs;
- a Gaussian of 40 fresh prior networks at 4 of the step's points, eigenvalues at least 1e-3, added with weight 1;
- one noise scale per particle from .5, by MAP with an Adam of its own.

Where we differ, and why it should not show:

- The code takes the first two labelled and the last two extra points for the prior, we two and two at random: the same
  in distribution, as its rows are shuffled.
- The code's extra rows are a slice of the epoch's shuffle: with steps of 100 rows, either the labelled ones or none of
  those. Ours are drawn without regard to them, one of each hundredth of all rows. Any one extra point has the same
  distribution.
- The code's last batch and last slice of an epoch are short. Ours are full: the batch with rows that weigh nothing in
  the likelihood, but are compared.
- The code halves pi-SGLD and divides GFSF by n: a factor that Adam takes out.
- In weight space we count the change of variables from σ to softplus⁻¹(σ), as a density needs; the code does not.

Kernels of functions or activations (k_f, k_a) evaluate networks at the points at which function space compares them.
The paper leaves that open and its code has none; so the two spaces differ in nothing else.

All splits of a set drawn in the same way have as many rows, so they share one compiled program.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from fpovi._fast.threefry import normals
from fpovi.baselines import BASELINES
from fpovi.baselines.optimisation import decaying_adam
from fpovi.experiments.paper_parts import PAPER_FLOWS, PAPER_KERNELS, median_rbf
from fpovi.inference import function_space, weight_space
from fpovi.inference.loop import run
from fpovi.likelihoods import gaussian
from fpovi.networks import fan_out_scales, mlp
from fpovi.priors import moment_matched
from fpovi.types import (
    Algorithm,
    Batch,
    Info,
    Key,
    Likelihood,
    Measurement,
    Network,
    ParametrisedAlgorithm,
    Scalar,
    State,
)

PARTICLES, RATE = 20, 4e-3
EXTRA_POINTS, PRIOR_DRAWS, PRIOR_POINTS, LEAST_EIGENVALUE = 100, 40, 4, 1e-3
NOISE_START = 0.5
LIKELIHOOD = gaussian(start=NOISE_START, shared=False, floor=0.0)


class TrainingLength(NamedTuple):
    """How long to train: steps in all, rows of each, and steps between two reports."""

    steps: int
    batch_size: int
    report_every: int


Report = Callable[[State, Info], bool | None]
Learner = Callable[[Key, Network, Batch, TrainingLength, Report], State]


class NoisyCentres(NamedTuple):
    """Where extra points are drawn: around the rows of ``x``, with noise of standard deviation ``bandwidth``."""

    x: Float[Array, "N d_x"]
    bandwidth: Scalar


def noisy_centres(x: Float[Array, "N d_x"]) -> NoisyCentres:
    r"""Return all rows of ``x``, with noise of :math:`1/\sqrt{N d_x}` in every coordinate."""
    return NoisyCentres(x, jnp.asarray(x.size**-0.5, x.dtype))


def near_centres(size: int, centres: NoisyCentres) -> Measurement:
    """Return a sampler that adds ``size`` different centres (all, if there are fewer) plus noise to the labelled rows.

    One row of each of ``size`` parts of a circle of all rows, cut at random: none need be shuffled or sorted.
    """
    total = centres.x.shape[0]
    cuts = np.arange(min(size, total) + 1) * total // min(size, total)
    first, length = jnp.asarray(cuts[:-1]), jnp.asarray(np.diff(cuts))

    def draw(key: Key, labelled: Float[Array, "B_ d_x"]) -> Float[Array, "B d_x"]:
        key_cut, key_rows, key_noise = jax.random.split(key, 3)
        within = jax.random.randint(key_rows, length.shape, 0, length)
        rows = (jax.random.randint(key_cut, (), 0, total) + first + within) % total
        noise = normals(key_noise, (len(rows), labelled.shape[1]), labelled.dtype)
        return jnp.concatenate([labelled, centres.x[rows] + centres.bandwidth * noise])

    return draw


@lru_cache
def paper_network(inputs: int, hidden: tuple[int, ...]) -> Network:
    """Return the same network object for the same sizes, so that programs made for it are found again."""
    sizes = (inputs, *hidden, 1)
    return mlp(sizes, scales=fan_out_scales(sizes), prior_start=False)


@lru_cache(maxsize=64)
def in_function_space(network: Network, likelihood: Likelihood, flow: str) -> Callable[[NoisyCentres], Algorithm]:
    """Return a function that builds the algorithm of function space for given extra points."""
    return lambda centres: function_space(
        network,
        likelihood,
        moment_matched(network, draws=PRIOR_DRAWS, floor=LEAST_EIGENVALUE),
        flow=PAPER_FLOWS[flow],
        kernel=median_rbf(),
        measurement=near_centres(EXTRA_POINTS, centres),
        optimiser=optax.adam(RATE),
        noise_optimiser=optax.adam(RATE),
        prior_size=PRIOR_POINTS,
        prior_weight=1.0,
    )


@lru_cache(maxsize=64)
def in_weight_space(
    network: Network, likelihood: Likelihood, flow: str, kernel: str
) -> Callable[[NoisyCentres], Algorithm]:
    """Return the same for weight space; with the flow ``ensemble`` members climb independently."""
    return lambda centres: weight_space(
        network,
        likelihood,
        flow=PAPER_FLOWS[flow],
        kernel=PAPER_KERNELS[kernel],
        measurement=near_centres(EXTRA_POINTS, centres),  # where k_f and k_a evaluate networks
        optimiser=optax.adam(RATE),
    )


def function_space_learner(flow: str, centres: NoisyCentres | None = None) -> Learner:
    """Return a learner in function space, with extra points near the training rows or ``centres``."""

    def learn(key: Key, network: Network, data: Batch, settings: TrainingLength, report: Report) -> State:
        near = noisy_centres(data.x) if centres is None else centres
        return _run(
            key, ParametrisedAlgorithm(in_function_space(network, LIKELIHOOD, flow), near), data, settings, report
        )

    return learn


def weight_space_learner(flow: str, kernel: str = "rbf") -> Learner:
    """Return a learner in weight space."""

    def learn(key: Key, network: Network, data: Batch, settings: TrainingLength, report: Report) -> State:
        build = in_weight_space(network, LIKELIHOOD, flow, kernel)
        return _run(key, ParametrisedAlgorithm(build, noisy_centres(data.x)), data, settings, report)

    return learn


def baseline_learner(name: str, learning_rate: float | None = None, **options: Any) -> Learner:
    """Return a baseline as a learner of as many steps; ``learning_rate`` is the first of its Adam, if it has one."""

    def learn(key: Key, network: Network, data: Batch, settings: TrainingLength, report: Report) -> State:
        given = {"num_steps": settings.steps, "n": PARTICLES, "batch_size": settings.batch_size, "watch": report}
        climbs = {} if learning_rate is None else {"optimiser": decaying_adam(settings.steps, learning_rate)}
        return BASELINES[name](key, network, LIKELIHOOD, data, **given, **climbs, **options)

    return learn


def _run(key: Key, algorithm: ParametrisedAlgorithm, data: Batch, settings: TrainingLength, report: Report) -> State:
    key_start, key_run = jax.random.split(key)
    return run(
        key_run, algorithm, algorithm.algorithm.init(key_start, PARTICLES), data, settings.steps,
        batch_size=settings.batch_size, chunk_size=settings.report_every, watch=report,
    ).state  # fmt: skip


# The state in each report of one of these is what the result would be, had it been the last.
LEARNERS: dict[str, Learner] = {
    "f-svgd": function_space_learner("svgd"),
    "f-w-sgld-b": function_space_learner("w_sgld_b"),
    "f-pi-sgld": function_space_learner("pi_sgld"),
    "f-gfsf": function_space_learner("gfsf"),
    "w-svgd": weight_space_learner("svgd"),
    "w-w-sgld-b": weight_space_learner("w_sgld_b"),
    "w-pi-sgld": weight_space_learner("pi_sgld"),
    "w-gfsf": weight_space_learner("gfsf"),
    "w-svgd-kf": weight_space_learner("svgd", "function_value"),
    "w-svgd-ka": weight_space_learner("svgd", "activation"),
    "w-w-sgld-b-kf": weight_space_learner("w_sgld_b", "function_value"),
    "w-w-sgld-b-ka": weight_space_learner("w_sgld_b", "activation"),
    "ensemble": weight_space_learner("ensemble"),
}
BASELINE_LEARNERS: dict[str, Learner] = {
    "mc-dropout": baseline_learner("mc_dropout", learning_rate=4e-3, rate=0.05),
    "bbb": baseline_learner("bayes_by_backprop", learning_rate=1e-2),
    "sghmc": baseline_learner("sghmc", chains=4, step_size=0.3, leapfrogs=10),
}
