# SPDX-License-Identifier: Apache-2.0
"""The methods of the UCI tables: from a split of a set to predictions for its test rows."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from fpovi.baselines import nuts, regressors
from fpovi.calibration import nll
from fpovi.datasets.scaling import Scaled, scale_split
from fpovi.datasets.uci import Split
from fpovi.experiments.harness.experiment import Watch
from fpovi.experiments.uci import best
from fpovi.experiments.uci.paper_learners import (
    BASELINE_LEARNERS,
    LEARNERS,
    LIKELIHOOD,
    Learner,
    RunSettings,
    paper_network,
)
from fpovi.inference.particles import forward
from fpovi.inference.step import first_step
from fpovi.networks import fan_out_scales, mlp
from fpovi.predictive import Predictive, predict
from fpovi.types import Info, Network, State

REPORTS = 20  # in the course of a run; where an epoch is chosen, one every so many epochs instead
EPOCHS_PER_REPORT = 20
CHAINS = {"chains": 4, "warmup": 300, "draws": 200, "target_acceptance": 0.65}  # of NUTS
KEPT_DRAWS = 200  # of all chains, for predictions
Rows = tuple[NDArray[np.float64], NDArray[np.float64]]


class TrainingTask(NamedTuple):
    """A split to learn, with which hidden layers, rows per step and epochs; a Gaussian process sees ``gp_rows``.

    ``valid`` are inputs and targets kept from training, by which the last epoch is chosen, if there are any.
    """

    seed: int
    split: Split
    hidden: tuple[int, ...]
    batch_size: int
    epochs: int
    gp_rows: int = 2000
    valid: Rows | None = None

    @property
    def steps_per_epoch(self) -> int:
        """Return the number of steps of an epoch; the last may be on fewer rows."""
        return -(-len(self.split.y_train) // self.batch_size)

    @property
    def settings(self) -> RunSettings:
        """Return the run settings for all epochs."""
        steps = self.epochs * self.steps_per_epoch
        between = max(steps // REPORTS, 1) if self.valid is None else EPOCHS_PER_REPORT * self.steps_per_epoch
        return RunSettings(steps, self.batch_size, between)


class Answer(NamedTuple):
    """Predictions for the test rows, and metrics of how they were reached."""

    predictive: Predictive
    metrics: dict[str, Any] = {}  # noqa: RUF012


Method = Callable[[TrainingTask, Watch], Answer]


class ScaledModel(NamedTuple):
    """A network, and a split in the units it learns in."""

    network: Network
    scaled: Scaled

    def predict(self, state: State, x: NDArray[np.float64]) -> Predictive:
        """Return what the particles of ``state`` predict for inputs ``x``; inputs and targets in their own units."""
        inputs = self.scaled.inputs(x).astype(np.float32)
        return predict(self.network, LIKELIHOOD, state, inputs, *self.scaled.target)


def scaled_model(task: TrainingTask) -> ScaledModel:
    """Return the task's network under the paper's prior, and its split with inputs of unit norm."""
    return ScaledModel(paper_network(task.split.x_train.shape[1], task.hidden), scale_split(task.split, unit_norm=True))


def train_networks(learn: Learner, task: TrainingTask, watch: Watch) -> Predictive:
    """Return predictions of the networks after the last step, or in the report where ``valid`` was most probable."""
    model, settings = scaled_model(task), task.settings
    best: tuple[float, State] | None = None

    def report(state: State, history: Info) -> None:
        nonlocal best
        watch(int(state.step), settings.steps, float(history.log_likelihood[-1]))
        if task.valid is not None:
            x, y = task.valid
            found = nll(model.predict(state, x), y)
            best = (found, state) if best is None or found < best[0] else best

    last = learn(jax.random.key(task.seed), model.network, model.scaled.train, settings, report)
    return model.predict(last if best is None else best[1], task.split.x_test)


def gaussian_process(task: TrainingTask, watch: Watch) -> Predictive:
    """Return the predictions of scikit-learn's Gaussian process."""
    method = partial(regressors.gaussian_process, most_rows=task.gp_rows)
    return regressors.predict_dist(method, task.seed, task.split.x_train, task.split.y_train, task.split.x_test)


def sample_with_nuts(task: TrainingTask, watch: Watch) -> Answer:
    """Return the predictions of NUTS on weights and noise, under the same prior; R̂ is of f, over the test rows.

    The chains are short, and their predictions count whatever R̂ is: it is kept as a metric.
    """
    scaled, sizes = scale_split(task.split, unit_norm=True), (task.split.x_train.shape[1], *task.hidden, 1)
    network = mlp(sizes, scales=fan_out_scales(sizes), unit_weights=True)
    found = nuts(jax.random.key(task.seed), network, LIKELIHOOD, scaled.train, **CHAINS)  # type: ignore[arg-type]
    x = jnp.asarray(scaled.x_test)
    rhat = blackjax.rhat(jax.lax.map(lambda theta: forward(network, theta, (), x)[0][..., 0], found.theta))
    kept = np.linspace(0, found.divergent.size - 1, KEPT_DRAWS).astype(int)
    theta, params = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[kept], (found.theta, found.params))
    predictive = predict(network, LIKELIHOOD, State(first_step(), theta, params, (), (), (), ()), x, *scaled.target)
    metrics = {"rhat_median": float(jnp.median(rhat)), "rhat_most": float(jnp.max(rhat))}
    return Answer(predictive, {**metrics, "divergent": int(jnp.sum(found.divergent))})


def best_candidate(task: TrainingTask, watch: Watch) -> Answer:
    """Return the predictions of the candidate that held-out training rows choose."""
    choice = best.choose(task.seed, task.hidden, task.split, task.settings)
    predictive = best.predict_with(choice, task.seed, task.hidden, task.split, task.settings)
    return Answer(predictive, choice.metrics())


def _without_metrics(predictions: Callable[[TrainingTask, Watch], Predictive]) -> Method:
    return lambda task, watch: Answer(predictions(task, watch))


METHODS: dict[str, Method] = {
    "fpovi": best_candidate,
    **{
        name: _without_metrics(partial(train_networks, learn)) for name, learn in (LEARNERS | BASELINE_LEARNERS).items()
    },
    "gp": _without_metrics(gaussian_process),
    "nuts": sample_with_nuts,
}
