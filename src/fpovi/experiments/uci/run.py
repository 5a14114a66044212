# SPDX-License-Identifier: Apache-2.0
"""The UCI tables of Wang et al. (2019) and variants of them: cells, tasks, methods, and how a cell's metrics are made.

Every cell is a method on one split; networks are the same under the same prior, but for those of ``fpovi``. What tells
one table from another is in :mod:`fpovi.experiments.uci.setups`, how each method is trained in
:mod:`fpovi.experiments.uci.paper_learners` (``fpovi``: :mod:`fpovi.experiments.uci.best`), and what the paper prints in
:mod:`fpovi.experiments.uci.published`.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from fpovi._lookup import lookup
from fpovi.baselines import nuts, regressors
from fpovi.baselines.optimisation import as_state
from fpovi.calibration import evaluate, nll
from fpovi.datasets.scaling import Scaled, scale_split
from fpovi.datasets.uci import SPLIT_KINDS, UCI, Split, load_held_out, load_split
from fpovi.experiments.harness.experiment import Options, Watch, grid, silent
from fpovi.experiments.harness.store import Cell, Store
from fpovi.experiments.harness.view import METRICS
from fpovi.experiments.uci import best
from fpovi.experiments.uci.paper_learners import (
    BASELINE_LEARNERS,
    LEARNERS,
    LIKELIHOOD,
    Learner,
    TrainingLength,
    paper_network,
)
from fpovi.experiments.uci.setups import SETUPS, SMALL_SETS_ONLY, Setup
from fpovi.inference.particles import forward
from fpovi.networks import fan_out_scales, mlp
from fpovi.predictive import Predictive, predict
from fpovi.types import Info, Network, State

REPORTS = 20  # in the course of a run; where an epoch is chosen, one every so many epochs instead
EPOCHS_PER_REPORT = 20
CHAINS = {"chains": 4, "warmup": 300, "draws": 200, "target_acceptance": 0.65}  # of NUTS
KEPT_DRAWS = 200  # of all chains, for predictions
FEW_ROWS = 1000
LONG_SETS = ("kin8nm", "power", "naval", "protein")  # those whose cells take longest, most of all the last
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
    def settings(self) -> TrainingLength:
        """Return the run settings for all epochs."""
        steps = self.epochs * self.steps_per_epoch
        between = max(steps // REPORTS, 1) if self.valid is None else EPOCHS_PER_REPORT * self.steps_per_epoch
        return TrainingLength(steps, self.batch_size, between)


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
    predictive = predict(network, LIKELIHOOD, as_state(theta, params), x, *scaled.target)
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


def cells(setup: Setup, options: Options) -> list[Cell]:
    """Return the first splits of every set, by every method that can take so many rows."""
    preset = setup.preset(options.preset)
    splits = lambda dataset: preset.protein_splits if dataset == "protein" else preset.splits  # noqa: E731
    shown = (*preset.methods, *preset.from_paper_preset)
    listed = grid(
        setup.rows_in, options, datasets=preset.datasets, splits=splits, methods=shown,
        known_datasets=UCI, known_methods=setup.methods, known_split_kinds=SPLIT_KINDS,
    )  # fmt: skip
    able = [cell for cell in listed if cell.dataset in SMALL_SETS_ONLY.get(cell.method, (cell.dataset,))]
    missing = [cell for cell in listed if cell not in able and cell.method in options.methods]
    if missing:
        cell = missing[0]
        raise ValueError(
            f"method={cell.method!r} is too slow for {cell.dataset}: only for {', '.join(SMALL_SETS_ONLY[cell.method])}"
        )
    return [replace(cell, preset=preset.row_preset(cell.method, options.preset)) for cell in able]


def length(cell: Cell) -> int:
    """Return a rank of how long a cell takes.

    >>> [length(Cell("uci", "f-svgd", dataset)) for dataset in ("yacht", "naval", "protein")]
    [0, 3, 4]
    """
    return LONG_SETS.index(cell.dataset) + 1 if cell.dataset in LONG_SETS else 0


def batch_size_and_epochs(rows: int, epochs: tuple[int, int]) -> tuple[int, int]:
    """Return the rows of a step, and the first or second of ``epochs``, for a set of few or of many rows in all."""
    many = rows > FEW_ROWS
    return (1000 if many else 100), epochs[many]


def make_task(cell: Cell, split: Split, valid: Rows | None = None) -> TrainingTask:
    """Return the task of a cell with the paper's widths and batches; each split has randomness of its own.

    >>> import numpy as np
    >>> rows = lambda n: (np.zeros((n, 6)), np.zeros(n))
    >>> task = make_task(Cell("uci", "f-svgd", "yacht", preset="paper"), Split(*rows(277), *rows(31)))
    >>> task.hidden, task.batch_size, task.epochs, task.settings.steps
    ((50,), 100, 500, 1500)
    """
    setup = lookup(SETUPS, cell.experiment, "experiment")
    preset = setup.preset(cell.preset)
    rows = sum(map(len, (split.y_train, split.y_test, () if valid is None else valid[1])))
    batch_size, epochs = batch_size_and_epochs(rows, preset.epochs)
    return TrainingTask(
        seed=1000 * cell.seed + cell.split,
        split=split,
        hidden=setup.protein_hidden if cell.dataset == "protein" else setup.hidden,
        batch_size=batch_size,
        epochs=epochs,
        gp_rows=preset.gp_rows,
        valid=valid,
    )


def load_task(cell: Cell) -> TrainingTask:
    """Load the split of a cell, with rows to choose the epoch by where the setup has them."""
    place = cell.dataset, cell.split_kind, cell.split
    if not lookup(SETUPS, cell.experiment, "experiment").held_out:
        return make_task(cell, load_split(*place))
    held = load_held_out(*place)
    return make_task(cell, held.split, (held.x_valid, held.y_valid))


def run_cell(cell: Cell, watch: Watch = silent, store: Store | None = None) -> dict[str, Any]:
    """Return the scores of one method on the test rows of one split, and the method's own metrics."""
    task = load_task(cell)
    answer = lookup(METHODS, cell.method, "method")(task, watch)
    found = evaluate(answer.predictive, task.split.y_test)
    return {name: float(found[name]) for name in METRICS} | answer.metrics
