# SPDX-License-Identifier: Apache-2.0
"""Ways to learn a UCI split with the paper's networks and number of particles, everything else ours.

A way is how targets scatter about a network's values, and the flow, the units and the steps that suit that. It may
learn from the inputs as they are or from others made of them (:data:`fpovi.datasets.scaling.INPUTS`).
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

from fpovi.baselines.reuse import made_once
from fpovi.datasets.scaling import INPUTS, scale_split
from fpovi.datasets.uci import Split
from fpovi.experiments.uci import learners as paper
from fpovi.experiments.uci.learners import Plan, Surroundings
from fpovi.flows import gfsf, svgd
from fpovi.inference import function_space
from fpovi.inference.gauss_newton import gauss_newton
from fpovi.inference.loop import run
from fpovi.kernels import rbf
from fpovi.likelihoods import gaussian, mixture, student_t
from fpovi.networks import fan_out_scales, mlp
from fpovi.predictive import Predictive, predict
from fpovi.priors import nngp
from fpovi.types import Algorithm, Flow, Likelihood, Network, ParametrisedAlgorithm, Scalar

CONSTANT, REST = 0.7, 0.02  # the share of steps before the rate falls, and what is left of it in the end
LEAST_FLOOR = 1e-3

Activation = Callable[[Array], Array]
OptimiserMaker = Callable[[Network, Likelihood, optax.Schedule], optax.GradientTransformation]


@lru_cache
def _mixture(floor: float) -> Likelihood:
    return mixture(floor=floor)


def several_peaks(y: NDArray[np.float64]) -> Likelihood:
    """A mixture, no peak of which is narrower than about the rounding of the targets ``y``, if they are rounded.

    Grades of wine are whole numbers: peaks at all of them may be as high as one likes, without a word about which it
    will be. (A single normal is high in one place only, and has to know it.) The least width has one digit, so that
    splits share a program; answers that are stretched by less than 1 afterwards have narrower peaks.
    """
    steps = np.diff(np.unique(y))
    rounding = np.min(steps) / np.sqrt(12) / np.std(y) if len(steps) else 0.0
    return _mixture(max(LEAST_FLOOR, float(f"{rounding:.0e}")))


class Pace(NamedTuple):
    """What makes steps of directions, at which rate, and Adam's rate for the noise beside it.

    ``worth`` is how many steps of Adam one of them stands for.
    """

    optimiser: OptimiserMaker
    rate: float
    noise_rate: float
    worth: int = 1


def adam(network: Network, likelihood: Likelihood, rate: optax.Schedule) -> optax.GradientTransformation:
    """For any model."""
    return optax.adam(rate)


SLOWER, FASTER = Pace(adam, 0.01, 0.01), Pace(adam, 0.02, 0.02)
NEWTON = Pace(gauss_newton, 0.5, 0.1, worth=30)


class Way(NamedTuple):
    """How targets scatter given a network's values, and the flow, the activation and the pace that suit that.

    Under a mixture every particle should follow its own score, as under GFSF: SVGD would give it those of others as
    well, whose components come in another order.
    """

    likelihood: Callable[[NDArray[np.float64]], Likelihood]
    flow: Flow
    activation: Activation = jax.nn.relu
    pace: Pace = SLOWER


_GAUSSIAN, _HEAVY_TAILS = gaussian(start=paper.NOISE_START), student_t(start=paper.NOISE_START)
WAYS = {
    "gaussian": Way(lambda y: _GAUSSIAN, gfsf),
    "student_t": Way(lambda y: _HEAVY_TAILS, svgd),
    "mixture": Way(several_peaks, gfsf, pace=FASTER),
    "smooth": Way(lambda y: _GAUSSIAN, gfsf, jnp.tanh, NEWTON),
    "smooth mixture": Way(several_peaks, gfsf, jnp.tanh, FASTER),
}


def learn(way: str, inputs: str, seed: int, hidden: tuple[int, ...], split: Split, plan: Plan) -> Predictive:
    """What the particles of a way say of the test rows: the paper's start, with a higher rate that falls in the end.

    At a constant rate particles that see a few rows at a time never settle.
    """
    chosen, split = WAYS[way], INPUTS[inputs](split)
    likelihood = chosen.likelihood(split.y_train)
    network = network_of(split.x_train.shape[1], hidden, likelihood.width(1), chosen.activation)
    plan = shorter(plan, chosen.pace.worth)
    scaled = scale_split(split, unit_norm=True)
    key_start, key_run = jax.random.split(jax.random.key(seed))
    numbers = (float(plan.steps), chosen.pace.rate, chosen.pace.noise_rate)
    dials = Dials(paper.surroundings(scaled.train.x), *map(jnp.asarray, numbers))
    recipe = ParametrisedAlgorithm(_recipe(network, likelihood, chosen.flow, chosen.pace.optimiser), dials)
    start = recipe.algorithm.init(key_start, paper.PARTICLES)
    options: dict[str, Any] = {"batch_size": plan.batch_size, "chunk_size": plan.between}
    state = run(key_run, recipe, start, scaled.train, plan.steps, **options).state
    return predict(network, likelihood, state, scaled.x_test, *scaled.target)


@lru_cache
def network_of(inputs: int, hidden: tuple[int, ...], outputs: int, activation: Activation) -> Network:
    """The paper's network, with as many outputs as a likelihood needs under the prior of one."""
    scales = fan_out_scales((inputs, *hidden, 1))
    return mlp((inputs, *hidden, outputs), activation, scales, prior_start=False)


class Dials(NamedTuple):
    """What may differ between runs of one program: where extra points are, how many steps there are, and the rates."""

    around: Surroundings
    steps: Scalar
    rate: Scalar
    noise_rate: Scalar


def shorter(plan: Plan, worth: int) -> Plan:
    """As long in steps each of which stands for ``worth`` of Adam's."""
    return plan._replace(steps=max(plan.steps // worth, 1), between=max(plan.between // worth, 1))


@made_once
def _recipe(
    network: Network, likelihood: Likelihood, flow: Flow, optimiser: OptimiserMaker
) -> Callable[[Dials], Algorithm]:
    def build(dials: Dials) -> Algorithm:
        return function_space(
            network,
            likelihood,
            nngp(network, jitter=paper.FLOOR),
            flow=flow,
            kernel=rbf(),
            measurement=paper.near_rows(paper.EXTRA, dials.around),
            optimiser=optimiser(network, likelihood, partial(rate_at, dials.rate, dials.steps)),
            noise_optimiser=optax.adam(partial(rate_at, dials.noise_rate, dials.steps)),
            prior_size=paper.PRIOR_POINTS,
        )

    return build


def rate_at(rate: Scalar, steps: Scalar, count: Array) -> Scalar:
    """The whole rate for most of all ``steps``, then straight down to the rest of it."""
    left = jnp.clip((1 - count.astype(steps.dtype) / steps) / (1 - CONSTANT), 0, 1)
    return rate * (REST + (1 - REST) * left)
