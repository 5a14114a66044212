# SPDX-License-Identifier: Apache-2.0
"""The method ``fpovi`` of the preset ``best``: the paper's networks and number of particles, everything else ours.

No one model is best on all sets. The noise of some is Gaussian, of others it has heavy tails or several peaks; some
functions are smooth; and where inputs are nearly copies of one another or have outliers, networks learn from other
coordinates what they never learn from these. So several candidates are tried on most training rows, and the one that
finds the rest most probable learns from all of them. These rows also show how much too narrow or too wide its
predictions are.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fpovi.calibration import nll, recalibrate, rmse
from fpovi.datasets.scaling import INPUTS
from fpovi.datasets.uci import Split
from fpovi.experiments.uci.candidates import CANDIDATES, fit_predict
from fpovi.experiments.uci.paper_learners import TrainingLength
from fpovi.networks import num_weights
from fpovi.predictive import Predictive
from fpovi.types import DivergedError

# the share of rows to choose by, how many of them are enough, and the most folds to reach that
HELD_OUT_SHARE, ENOUGH_HELD_OUT, MAX_FOLDS = 0.15, 300, 4
MANY_ROWS = 2000  # of which a trial takes minutes
MAX_RMSE_RATIO = 1.1  # of a candidate's RMSE to the least
TRIAL_STEPS, MAX_STEPS = 6000, 40_000  # the latter fewer than the paper's on protein alone
MAX_WEIGHTS = 1000  # for Gauss-Newton steps
SPREAD_FACTORS = 1.06 ** np.arange(-20, 21)  # from .3 to 3.2

HeldOutPredictions = list[tuple[Predictive, NDArray[np.float64]]]  # of every fold, with the targets


def held_out_folds(seed: int, split: Split) -> list[Split]:
    """Return splits of the training rows alone; where those are few, several, with each row tested at most once."""
    count = len(split.y_train)
    order, held = np.random.default_rng(seed).permutation(count), max(round(HELD_OUT_SHARE * count), 1)
    folds = int(np.clip(round(ENOUGH_HELD_OUT / held), 1, MAX_FOLDS))
    parts = [order[i * held : (i + 1) * held] for i in range(folds)]
    kept = [np.setdiff1d(order, part) for part in parts]
    x, y = split.x_train, split.y_train
    return [Split(x[rest], y[rest], x[part], y[part]) for rest, part in zip(kept, parts, strict=True)]


class Choice(NamedTuple):
    """A candidate, its inputs and number of steps, and the factor on the spread of its predictions."""

    candidate: str
    inputs: str
    steps: int
    spread_factor: float

    def metrics(self) -> dict[str, Any]:
        """Return the choice as it is kept in rows."""
        return {"way": self.candidate, "inputs": self.inputs, "steps": self.steps, "stretch": self.spread_factor}


class Trial(NamedTuple):
    """The NLL and RMSE of a choice on held-out training rows."""

    choice: Choice
    nll: float
    rmse: float


def choose(seed: int, hidden: tuple[int, ...], split: Split, settings: TrainingLength) -> Choice:
    """Return the candidate that, its spread corrected, finds held-out training rows most probable.

    Test rows have no part in it. Gaussian noise decides which inputs are the best, and the other candidates get those.
    Where the paper takes fewer steps than a trial may, all are tried with both numbers: some sets want more, some less.

    A candidate whose mean is much further off than that of another is not taken: where the noise may depend on the
    inputs, networks can call hard rows noisy and leave them at that. Spread factor and candidate are chosen by the same
    rows: one number among hundreds of rows makes candidates look better by less than .01. After a trial of few steps,
    each worth many, the noise is still on its way down, so the spread factor is that of a whole run.
    """
    folds = held_out_folds(seed, split)

    def trial(name: str, inputs: str, steps: int) -> Trial:
        longer = settings._replace(steps=steps)
        try:
            held_out = [(fit_predict(name, inputs, seed, hidden, fold, longer), fold.y_test) for fold in folds]
        except DivergedError:
            return Trial(Choice(name, inputs, steps, 1.0), math.inf, math.inf)
        factor, loss = best_spread_factor(held_out)
        return Trial(Choice(name, inputs, steps, factor), loss, float(np.mean([rmse(*pair) for pair in held_out])))

    first = min(settings.steps, TRIAL_STEPS)
    trials = [trial("gaussian", inputs, first) for inputs in INPUTS]
    inputs = min(trials, key=lambda trial: trial.nll).choice.inputs
    others = candidates_beside_gaussian(hidden, split)
    trials += [trial(name, inputs, first) for name in others]
    if first < TRIAL_STEPS:
        trials += [trial(name, inputs, TRIAL_STEPS) for name in ("gaussian", *others)]
    least = min(trial.rmse for trial in trials)
    chosen = min(
        (trial for trial in trials if trial.rmse <= MAX_RMSE_RATIO * least), key=lambda trial: trial.nll
    ).choice
    steps = max(chosen.steps, min(settings.steps, MAX_STEPS))
    if CANDIDATES[chosen.candidate].optimiser.adam_steps > 1 and steps > chosen.steps:
        return trial(chosen.candidate, chosen.inputs, steps).choice
    return chosen._replace(steps=steps)


def candidates_beside_gaussian(hidden: tuple[int, ...], split: Split) -> tuple[str, ...]:
    """Return the names of candidates that are tried beside Gaussian noise.

    Where rows are many a trial is long, and heavy tails are not tried: a mixture can have any. Smooth units are. (For
    few rows they did worse.) Under Gaussian noise they learn by Gauss-Newton steps, if weights are not too many.
    """
    if len(split.y_train) <= MANY_ROWS:
        return ("mixture", "student_t")
    few_weights = num_weights((split.x_train.shape[1], *hidden, 1)) <= MAX_WEIGHTS
    return ("mixture", "smooth mixture", *(("smooth",) if few_weights else ()))


def best_spread_factor(held_out: HeldOutPredictions) -> tuple[float, float]:
    """Return the factor on the spread of all predictions with the least NLL, the mean over folds, and that NLL."""
    losses = {
        factor: float(np.mean([nll(recalibrate(predictive, factor), y) for predictive, y in held_out]))
        for factor in SPREAD_FACTORS.tolist()
    }
    factor = min(losses, key=losses.__getitem__)
    return factor, losses[factor]


def predict_with(
    choice: Choice, seed: int, hidden: tuple[int, ...], split: Split, settings: TrainingLength
) -> Predictive:
    """Train the chosen candidate on all training rows and predict the test rows."""
    whole = settings._replace(steps=choice.steps)
    found = fit_predict(choice.candidate, choice.inputs, seed, hidden, split, whole)
    return recalibrate(found, choice.spread_factor)
