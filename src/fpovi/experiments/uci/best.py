# SPDX-License-Identifier: Apache-2.0
"""The method ``fpovi`` of the preset ``best``: the paper's networks and number of particles, everything else ours.

No one way to learn is best on all sets. The noise of some is Gaussian, of others it has heavy tails or several peaks;
some functions are smooth; and where inputs are nearly copies of one another or have outliers, networks learn from other
coordinates what they never learn from these. So several ways are tried on most training rows, and the one that finds
the rest most probable learns from all of them. These rows also tell how much too narrow or too wide its answers are.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fpovi.calibration import nll, recalibrate, rmse
from fpovi.datasets.scaling import INPUTS
from fpovi.datasets.uci import Split
from fpovi.experiments.uci.learners import Plan
from fpovi.experiments.uci.ways import WAYS, learn
from fpovi.networks import num_weights
from fpovi.predictive import Predictive
from fpovi.types import DivergedError

HELD, ENOUGH_ROWS, MOST_FOLDS = 0.15, 300, 4  # the share of rows to choose by, how many will do, in how many parts
MANY_ROWS = 2000  # of which a trial takes minutes
CLOSE = 1.1  # how many times the least RMSE a way may have
TRIAL_STEPS, MOST_STEPS = 6000, 40_000  # the latter fewer than the paper's on protein alone
MOST_WEIGHTS = 1000  # that Gauss-Newton steps take on
STRETCHES = 1.06 ** np.arange(-20, 21)  # of answers about their means, from .3 to 3.2

Told = list[tuple[Predictive, NDArray[np.float64]]]  # of every fold, answers and what came true


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
