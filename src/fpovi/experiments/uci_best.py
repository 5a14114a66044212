# SPDX-License-Identifier: Apache-2.0
"""The method ``fpovi`` of the preset ``best``: the paper's networks and number of particles, everything else ours.

No one way to learn is best on all sets. The noise of some is Gaussian, of others it has heavy tails or several peaks;
some functions are smooth; and where inputs are nearly copies of one another or have outliers, networks learn from other
coordinates what they never learn from these. So several ways are tried on most training rows, and the one that finds
the rest most probable learns from all of them. These rows also tell how much too narrow or too wide its answers are.
"""

import math
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
from fpovi.calibration import nll, recalibrate, rmse
from fpovi.data.scaling import INPUTS, scale_split
from fpovi.data.uci import Split
from fpovi.experiments import uci_learners as paper
from fpovi.experiments.uci_learners import Plan, Surroundings
from fpovi.flows import gfsf, svgd
from fpovi.inference import function_space
from fpovi.kernels import rbf
from fpovi.likelihoods import gaussian, mixture, student_t
from fpovi.loop import run
from fpovi.networks import fan_out_scales, mlp, num_weights
from fpovi.preconditioning import gauss_newton
from fpovi.predictive import Predictive, predict
from fpovi.priors import nngp
from fpovi.types import Algorithm, DivergedError, Flow, Likelihood, Network, Recipe, Scalar

HELD, ENOUGH_ROWS, MOST_FOLDS = 0.15, 300, 4  # the share of rows to choose by, how many will do, in how many parts
MANY_ROWS = 2000  # of which a trial takes minutes
CLOSE = 1.1  # how many times the least RMSE a way may have
TRIAL_STEPS, MOST_STEPS = 6000, 40_000  # the latter fewer than the paper's on protein alone
CONSTANT, REST = 0.7, 0.02  # the share of steps before the rate falls, and what is left of it in the end
MOST_WEIGHTS = 1000  # that Gauss-Newton steps take on
STRETCHES = 1.06 ** np.arange(-20, 21)  # of answers about their means, from .3 to 3.2
LEAST_FLOOR = 1e-3

Activation = Callable[[Array], Array]
OptimiserMaker = Callable[[Network, Likelihood, optax.Schedule], optax.GradientTransformation]
Told = list[tuple[Predictive, NDArray[np.float64]]]  # of every fold, answers and what came true


@lru_cache
def _mixture(floor: float) -> Likelihood:
    return mixture(floor=floor)


def several_peaks(y: NDArray[np.float64]) -> Likelihood:
    """A mixture, no peak of which is narrower than the rounding of the targets ``y``, if they are rounded.

    Grades of wine are whole numbers: peaks at all of them may be as high as one likes, without a word about which it
    will be. (A single normal is high in one place only, and has to know it.)
    """
    steps = np.diff(np.unique(y))
    rounding = np.min(steps) / np.sqrt(12) / np.std(y) if len(steps) else 0.0
    return _mixture(max(LEAST_FLOOR, float(f"{rounding:.0e}")))  # one digit, so that splits share a program


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
    recipe = Recipe(_recipe(network, likelihood, chosen.flow, chosen.pace.optimiser), dials)
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


def folds(seed: int, split: Split) -> list[Split]:
    """The training rows alone, some of them to be tested on; where those are few, several times, each row once."""
    count = len(split.y_train)
    order, held = np.random.default_rng(seed).permutation(count), max(round(HELD * count), 1)
    parts = [order[i * held : (i + 1) * held] for i in range(int(np.clip(round(ENOUGH_ROWS / held), 1, MOST_FOLDS)))]
    kept = [np.setdiff1d(order, part) for part in parts]
    x, y = split.x_train, split.y_train
    return [Split(x[rest], y[rest], x[part], y[part]) for rest, part in zip(kept, parts, strict=True)]


class Choice(NamedTuple):
    """A way to learn, from which inputs, in how many steps, and how far its answers are stretched."""

    way: str
    inputs: str
    steps: int
    stretch: float


class Trial(NamedTuple):
    """What became of a choice on held-out training rows: NLL, and RMSE."""

    choice: Choice
    nll: float
    rmse: float


def choose(seed: int, hidden: tuple[int, ...], split: Split, plan: Plan) -> Choice:
    """The way that, well stretched, finds held-out training rows most probable; test rows are not looked at.

    Gaussian noise tells which inputs are the best, and the other ways get those. Where the paper takes fewer steps
    than a trial may, all are tried with both numbers: some sets want more, some less.

    A way whose mean is much further off than that of another is not taken: where the noise may depend on the inputs,
    networks can call hard rows noisy and leave them at that. Stretch and way are chosen by the same rows: one number
    among hundreds of rows makes ways look better by less than .01. After a trial of few steps, each worth many, the
    noise is still on its way down, so the stretch is that of a whole run.
    """
    inner = folds(seed, split)

    def tried(way: str, inputs: str, steps: int) -> Trial:
        try:
            said = [(learn(way, inputs, seed, hidden, fold, plan._replace(steps=steps)), fold.y_test) for fold in inner]
        except DivergedError:
            return Trial(Choice(way, inputs, steps, 1.0), math.inf, math.inf)
        stretch, loss = best_stretch(said)
        return Trial(Choice(way, inputs, steps, stretch), loss, float(np.mean([rmse(*pair) for pair in said])))

    first = min(plan.steps, TRIAL_STEPS)
    trials = [tried("gaussian", inputs, first) for inputs in INPUTS]
    inputs = min(trials, key=lambda trial: trial.nll).choice.inputs
    others = ways_beside(hidden, split)
    trials += [tried(way, inputs, first) for way in others]
    if first < TRIAL_STEPS:
        trials += [tried(way, inputs, TRIAL_STEPS) for way in ("gaussian", *others)]
    least = min(trial.rmse for trial in trials)
    chosen = min((trial for trial in trials if trial.rmse <= CLOSE * least), key=lambda trial: trial.nll).choice
    steps = max(chosen.steps, min(plan.steps, MOST_STEPS))
    if WAYS[chosen.way].pace.worth > 1 and steps > chosen.steps:
        return tried(chosen.way, chosen.inputs, steps).choice
    return chosen._replace(steps=steps)


def ways_beside(hidden: tuple[int, ...], split: Split) -> tuple[str, ...]:
    """What is tried beside Gaussian noise.

    Where rows are many a trial is long, and heavy tails are not tried: a mixture has any it likes. Smooth units are.
    (They did not do for few rows.) Under Gaussian noise they learn by Gauss-Newton steps, if weights are not too many.
    """
    if len(split.y_train) <= MANY_ROWS:
        return ("mixture", "student_t")
    few_weights = num_weights((split.x_train.shape[1], *hidden, 1)) <= MOST_WEIGHTS
    return ("mixture", "smooth mixture", *(("smooth",) if few_weights else ()))


def best_stretch(said: Told) -> tuple[float, float]:
    """The factor by which all answers are best stretched about their means, and the NLL then."""
    losses = {c: stretched_nll(said, c) for c in STRETCHES.tolist()}
    stretch = min(losses, key=losses.__getitem__)
    return stretch, losses[stretch]


def stretched_nll(said: Told, stretch: float) -> float:
    """The mean over folds."""
    return float(np.mean([nll(recalibrate(told, stretch), y) for told, y in said]))


def answer(choice: Choice, seed: int, hidden: tuple[int, ...], split: Split, plan: Plan) -> Predictive:
    """What the chosen way, having learned from all training rows, says of the test rows."""
    whole = plan._replace(steps=choice.steps)
    return recalibrate(learn(choice.way, choice.inputs, seed, hidden, split, whole), choice.stretch)
