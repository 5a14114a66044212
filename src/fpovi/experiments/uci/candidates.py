# SPDX-License-Identifier: Apache-2.0
"""The candidates of ``fpovi``: models of a UCI split with the paper's widths and number of particles, the rest ours.

A candidate is a likelihood, and the flow, the activation and the optimiser that suit it. It may learn from the inputs
as they are or from others made of them (:data:`fpovi.datasets.scaling.INPUTS`).
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array
from numpy.typing import NDArray

from fpovi.datasets.scaling import INPUTS, scale_split
from fpovi.datasets.uci import Split
from fpovi.experiments.paper_parts import PAPER_FLOWS, median_rbf
from fpovi.experiments.uci import paper_learners as paper
from fpovi.experiments.uci.paper_learners import NoisyCentres, TrainingLength
from fpovi.inference import function_space
from fpovi.inference.gauss_newton import gauss_newton
from fpovi.inference.loop import run
from fpovi.likelihoods import gaussian, mixture, student_t
from fpovi.networks import fan_out_scales, mlp
from fpovi.predictive import Predictive, predict
from fpovi.priors import nngp
from fpovi.types import Algorithm, Flow, Likelihood, Network, ParametrisedAlgorithm, Scalar

CONSTANT_SHARE, FINAL_RATE = 0.7, 0.02  # the share of steps before the rate falls, and what is left of it in the end
LEAST_FLOOR = 1e-3

Activation = Callable[[Array], Array]
MakeOptimiser = Callable[[Network, Likelihood, optax.Schedule], optax.GradientTransformation]


@lru_cache
def _mixture(floor: float) -> Likelihood:
    return mixture(components=3, floor=floor)


def mixture_for(y: NDArray[np.float64]) -> Likelihood:
    """Return a mixture whose peaks are at least about as wide as the rounding of the targets ``y``.

    Grades of wine are whole numbers: peaks at all of them may be as high as one likes, without a word about which it
    will be. (A single normal is high in one place only, and has to know it.) The least width has one digit, so that
    splits share a program; a spread factor below 1 narrows peaks further afterwards.
    """
    steps = np.diff(np.unique(y))
    rounding = np.min(steps) / np.sqrt(12) / np.std(y) if len(steps) else 0.0
    return _mixture(max(LEAST_FLOOR, float(f"{rounding:.0e}")))


class OptimiserChoice(NamedTuple):
    """An optimiser, its rate, and Adam's rate for the noise beside it.

    A step of it is worth, and takes about as long as, ``adam_steps`` steps of Adam.
    """

    make: MakeOptimiser
    rate: float
    noise_rate: float
    adam_steps: int = 1


def adam(network: Network, likelihood: Likelihood, rate: optax.Schedule) -> optax.GradientTransformation:
    """Return Adam, whatever the model is."""
    return optax.adam(rate)


SLOW_ADAM, FAST_ADAM = OptimiserChoice(adam, 0.01, 0.01), OptimiserChoice(adam, 0.02, 0.02)
GAUSS_NEWTON = OptimiserChoice(
    partial(gauss_newton, memory=0.8, every=4, damping=3e-5, trust=0.25), 0.5, 0.1, adam_steps=30
)


class Candidate(NamedTuple):
    """A likelihood, made for given targets, and the flow, activation and optimiser that suit it.

    Under a mixture every particle should follow its own score, as under GFSF: SVGD would give it those of others as
    well, whose components come in another order.
    """

    likelihood: Callable[[NDArray[np.float64]], Likelihood]
    flow: Flow
    activation: Activation = jax.nn.relu
    optimiser: OptimiserChoice = SLOW_ADAM


_GAUSSIAN = gaussian(start=paper.NOISE_START, shared=False, floor=0.0)
_HEAVY_TAILS = student_t(df=4.0, start=paper.NOISE_START, shared=False)
_SVGD, _GFSF = PAPER_FLOWS["svgd"], PAPER_FLOWS["gfsf"]
CANDIDATES = {
    "gaussian": Candidate(lambda y: _GAUSSIAN, _GFSF),
    "student_t": Candidate(lambda y: _HEAVY_TAILS, _SVGD),
    "mixture": Candidate(mixture_for, _GFSF, optimiser=FAST_ADAM),
    "smooth": Candidate(lambda y: _GAUSSIAN, _GFSF, jnp.tanh, GAUSS_NEWTON),
    "smooth mixture": Candidate(mixture_for, _GFSF, jnp.tanh, FAST_ADAM),
}


def fit_predict(
    name: str, inputs: str, seed: int, hidden: tuple[int, ...], split: Split, settings: TrainingLength
) -> Predictive:
    """Train a candidate and predict the test rows: the paper's start, with a higher rate that falls in the end.

    At a constant rate particles that see a few rows at a time never settle.
    """
    candidate, split = CANDIDATES[name], INPUTS[inputs](split)
    likelihood = candidate.likelihood(split.y_train)
    network = network_of(split.x_train.shape[1], hidden, likelihood.width(1), candidate.activation)
    settings = fewer_steps(settings, candidate.optimiser.adam_steps)
    scaled = scale_split(split, unit_norm=True)
    key_start, key_run = jax.random.split(jax.random.key(seed))
    numbers = (float(settings.steps), candidate.optimiser.rate, candidate.optimiser.noise_rate)
    traced = TracedSettings(paper.noisy_centres(scaled.train.x), *map(jnp.asarray, numbers))
    build = _function_space(network, likelihood, candidate.flow, candidate.optimiser.make)
    algorithm = ParametrisedAlgorithm(build, traced)
    start = algorithm.algorithm.init(key_start, paper.PARTICLES)
    options: dict[str, Any] = {"batch_size": settings.batch_size, "chunk_size": settings.report_every}
    state = run(key_run, algorithm, start, scaled.train, settings.steps, **options).state
    return predict(network, likelihood, state, scaled.x_test, *scaled.target)


@lru_cache
def network_of(inputs: int, hidden: tuple[int, ...], outputs: int, activation: Activation) -> Network:
    """Return the paper's network, with as many outputs as a likelihood needs under the prior of one."""
    scales = fan_out_scales((inputs, *hidden, 1))
    return mlp((inputs, *hidden, outputs), activation, scales, prior_start=False)


class TracedSettings(NamedTuple):
    """The arguments of a compiled program: where extra points are, how many steps there are, and the rates."""

    centres: NoisyCentres
    steps: Scalar
    rate: Scalar
    noise_rate: Scalar


def fewer_steps(settings: TrainingLength, adam_steps: int) -> TrainingLength:
    """Return settings of the same length in steps each of which is worth ``adam_steps`` of Adam's."""
    return settings._replace(
        steps=max(settings.steps // adam_steps, 1), report_every=max(settings.report_every // adam_steps, 1)
    )


@lru_cache(maxsize=64)
def _function_space(
    network: Network, likelihood: Likelihood, flow: Flow, make_optimiser: MakeOptimiser
) -> Callable[[TracedSettings], Algorithm]:
    def build(traced: TracedSettings) -> Algorithm:
        return function_space(
            network,
            likelihood,
            nngp(network, jitter=paper.LEAST_EIGENVALUE),
            flow=flow,
            kernel=median_rbf(),
            measurement=paper.near_centres(paper.EXTRA_POINTS, traced.centres),
            optimiser=make_optimiser(network, likelihood, partial(rate_at, traced.rate, traced.steps)),
            noise_optimiser=optax.adam(partial(rate_at, traced.noise_rate, traced.steps)),
            prior_size=paper.PRIOR_POINTS,
            prior_weight=1.0,
        )

    return build


def rate_at(rate: Scalar, steps: Scalar, count: Array) -> Scalar:
    """Return the whole rate for most of all ``steps``, then less along a straight line down to the final one."""
    left = jnp.clip((1 - count.astype(steps.dtype) / steps) / (1 - CONSTANT_SHARE), 0, 1)
    return rate * (FINAL_RATE + (1 - FINAL_RATE) * left)
