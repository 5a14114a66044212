# SPDX-License-Identifier: Apache-2.0
"""``adaptation``: unlabelled inputs of the region that will be asked about, as measurement points.

Wang et al. (2019) suggest to draw the measurement set from the inputs of the target domain where that is not the one of
the training rows, and report no experiment on it. Here the training rows (the source) are those at one end of the first
principal component of a UCI set's inputs, and the target is the other end. Half of the target's rows provide their
inputs, without targets, as points at which functions are compared; the other half are the test rows. Each method is run
with these inputs and without, on the same rows.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from fpovi._lookup import lookup
from fpovi.calibration import evaluate
from fpovi.datasets.uci import UCI, Regions, Regression, Split, divide, load_uci
from fpovi.estimators import BNNRegressor
from fpovi.experiments.harness.experiment import Experiment, Options, Watch, grid, label_of_split, silent
from fpovi.experiments.harness.statistics import (
    LEVEL,
    Scores,
    as_record,
    collect,
    difference_record,
    from_record,
    mean_of,
    plus_minus,
)
from fpovi.experiments.harness.store import Cell, Row, Store
from fpovi.experiments.harness.view import METRICS, View, method_chart, name_once
from fpovi.experiments.uci.paper_learners import LEARNERS, PARTICLES, function_space_learner, noisy_centres
from fpovi.experiments.uci.run import (
    TrainingTask,
    batch_size_and_epochs,
    gaussian_process,
    scaled_model,
    train_networks,
)
from fpovi.experiments.uci.setups import SETUPS, SMALL
from fpovi.measurement import halo, points
from fpovi.plots import FUNCTION_SPACE, INK, MUTED
from fpovi.predictive import Predictive
from fpovi.tabular import learn_encoder
from fpovi.types import Key

EXTRA_POINTS = 20  # of each kind in a step of the estimator
TARGET = "-target"  # ends the name of a method that is given the target's inputs
LABELS = {
    "f-svgd": "f-SVGD",
    "f-svgd-target": "f-SVGD, target's inputs",
    "fpovi": "BNNRegressor()",
    "fpovi-target": "BNNRegressor(), target's inputs",
    "ensemble": "deep ensemble",
    "gp": "Gaussian process",
}
HIDDEN = SETUPS["uci"].hidden
Inputs = NDArray[np.float64]


class Preset(NamedTuple):
    """Sets, how many divisions of each into rows, and the epochs of sets with few rows and of others."""

    datasets: tuple[str, ...]
    splits: int
    epochs: tuple[int, int]


PRESETS = {
    "quick": Preset(("boston", "yacht"), 2, epochs=SETUPS["uci"].presets["quick"].epochs),
    "full": Preset((*SMALL, "power"), 10, epochs=SETUPS["uci"].presets["paper"].epochs),
}


def make_task(cell: Cell, data: Regression, regions: Regions) -> TrainingTask:
    """Return a task with the paper's settings; its test rows are those of the target, then those of the source."""
    tested = np.concatenate([regions.target, regions.source])
    batch_size, epochs = batch_size_and_epochs(len(data.y), lookup(PRESETS, cell.preset, "preset").epochs)
    return TrainingTask(
        seed=1000 * cell.seed + cell.split,
        split=Split(data.x[regions.train], data.y[regions.train], data.x[tested], data.y[tested]),
        hidden=HIDDEN,
        batch_size=batch_size,
        epochs=epochs,
    )


def _f_svgd(task: TrainingTask, unlabelled: Inputs, watch: Watch) -> Predictive:
    """Train f-SVGD with the paper's extra points near the target's inputs in place of the training rows."""
    inputs = jnp.asarray(scaled_model(task).scaled.inputs(unlabelled), jnp.float32)
    return train_networks(function_space_learner("svgd", noisy_centres(inputs)), task, watch)


def _fpovi(task: TrainingTask, unlabelled: Inputs | None) -> Predictive:
    """Fit the estimator; to its points around the training rows come as many of the target's inputs."""
    model = BNNRegressor(hidden_layer_sizes=task.hidden, n_particles=PARTICLES, random_state=task.seed)
    split = task.split
    if unlabelled is not None:
        near = halo(EXTRA_POINTS, reach=2.0, scale=1.0)
        there = points(learn_encoder(split.x_train)(unlabelled), EXTRA_POINTS)

        def both(key: Key, labelled: Float[Array, "B_ d_x"]) -> Float[Array, "B d_x"]:
            key_near, key_there = jax.random.split(key)
            return there(key_there, near(key_near, labelled))

        model.set_params(measurement=both)
    return model.fit(split.x_train, split.y_train).predict_dist(split.x_test)


METHODS: dict[str, Callable[[TrainingTask, Inputs, Watch], Predictive]] = {
    "f-svgd": lambda task, unlabelled, watch: train_networks(LEARNERS["f-svgd"], task, watch),
    "f-svgd-target": _f_svgd,
    "fpovi": lambda task, unlabelled, watch: _fpovi(task, None),
    "fpovi-target": lambda task, unlabelled, watch: _fpovi(task, unlabelled),
    "ensemble": lambda task, unlabelled, watch: train_networks(LEARNERS["ensemble"], task, watch),
    "gp": lambda task, unlabelled, watch: gaussian_process(task, watch),
}


def cells(options: Options) -> list[Cell]:
    """Return the cells of every method on every division of every set; ``split_kind`` is ignored."""
    preset = lookup(PRESETS, options.preset, "preset")
    return grid(
        "adaptation", options._replace(split_kind="standard"),
        datasets=preset.datasets, splits=lambda dataset: preset.splits, methods=tuple(METHODS),
        known_datasets=UCI, known_methods=METHODS,
    )  # fmt: skip


def run_cell(cell: Cell, watch: Watch = silent, store: Store | None = None) -> dict[str, Any]:
    """Return the scores on the target's test rows, and as ``source_…`` those on the source's."""
    data = load_uci(cell.dataset)
    regions = divide(data.x, cell.split)
    task = make_task(cell, data, regions)
    answer = lookup(METHODS, cell.method, "method")(task, data.x[regions.unlabelled], watch)
    in_target = np.arange(len(task.split.y_test)) < len(regions.target)
    rows_of = {"": in_target, "source_": ~in_target}
    found = {prefix: evaluate(answer, task.split.y_test, rows.astype(float)) for prefix, rows in rows_of.items()}
    return {f"{prefix}{name}": float(scores[name]) for prefix, scores in found.items() for name in METRICS}


COLUMNS = (
    "set", "method", "NLL", "with inputs", "difference", "CRPS", "with inputs", "difference", "95 % coverage",
    "with inputs", "NLL at home", "difference",
)  # fmt: skip
PAIRED = ("nll", "crps", "coverage_95", "source_nll")
COLOURS = {"f-svgd": FUNCTION_SPACE, "fpovi": INK}
Record = dict[str, Any]


def view(rows: Sequence[Row]) -> View:
    """Return a table with a line per set and method; bold differences are significant improvements (paired t-test)."""
    records = _records(rows)
    lines = [
        [
            record["dataset"], LABELS[record["method"]], *_texts(record["nll"]), *_texts(record["crps"]),
            *_texts(record["coverage_95"])[:2], *_texts(record["source_nll"])[::2],
        ]
        for record in records
    ]  # fmt: skip
    return View(
        title="Another region of the inputs: does it help to know its inputs without targets?",
        explanation=(
            "trained below the quantile .7 of the first principal component of the inputs, asked above it",
            "with inputs: half of the rows there, without their targets, are measurement points; the other half test",
            "at home: on rows like the training rows; lower is better, coverage should be .95",
            "mean ± standard error over divisions, differences on the same ones; bold where the inputs help (paired "
            "t-test, p < .05)",
        ),
        columns=COLUMNS,
        lines=name_once(lines),
        notes=_summary(records),
        records=records,
        keys=2,
    )


def _records(rows: Sequence[Row]) -> list[Record]:
    found = {metric: collect(rows, metric) for metric in PAIRED}
    return [
        {"dataset": dataset, "method": method,
         **{metric: _pair(found[metric][dataset], method) for metric in PAIRED}}
        for dataset in dict.fromkeys(row.cell.dataset for row in rows)
        for method in LABELS
        if not method.endswith(TARGET) and method in found["nll"][dataset]
    ]  # fmt: skip


def _pair(scores: Mapping[str, Scores], method: str) -> Record:
    """Return the means of a method without the target's inputs and with them, and their paired difference."""
    without, given = scores[method], scores.get(method + TARGET, {})
    record = {"without": as_record(mean_of(list(without.values())))}
    if given:
        record["with"] = as_record(mean_of(list(given.values())))
    if difference := difference_record(given, without):
        record["difference"] = difference
    return record


def _texts(score: Record) -> list[str]:
    """Return the score without the inputs, with them, and the difference; empty texts for what is missing."""
    texts = [plus_minus(from_record(score[name])) if name in score else "" for name in ("without", "with")]
    if "difference" not in score:
        return [*texts, ""]
    text = plus_minus(from_record(score["difference"]), signed=True)
    return [*texts, f"**{text}**" if _helps(score["difference"]) else text]


def _helps(difference: Record) -> bool:
    return difference["mean"] < 0 and difference["p"] < LEVEL


def _summary(records: Sequence[Record]) -> tuple[str, ...]:
    """Count the sets on which the inputs help, by method; nothing where no set has two divisions."""
    notes = []
    for method in dict.fromkeys(record["method"] for record in records):
        pairs = [record["nll"]["difference"] for record in records if record["method"] == method
                 and record["nll"].get("difference", {"splits": 0})["splits"] > 1]  # fmt: skip
        if pairs:
            helps = sum(map(_helps, pairs))
            harms = sum(pair["mean"] > 0 and pair["p"] < LEVEL for pair in pairs)
            notes.append(
                f"{LABELS[method]}: the inputs lower the NLL on {helps} of {len(pairs)} sets, raise it on {harms}"
            )
    return tuple(notes)


def figure(rows: Sequence[Row]) -> Figure:
    """Draw NLL above coverage, a panel per set: hollow without the inputs, filled with them."""
    records = _records(rows)
    datasets = list(dict.fromkeys(record["dataset"] for record in records))
    methods = [name for name in LABELS if any(record["method"] == name for record in records)]

    def draw(panel: Axes, dataset: str, metric: str) -> None:
        for record in records:
            if record["dataset"] == dataset:
                _draw(panel, methods.index(record["method"]), record["method"], record[metric])
        if metric == "coverage_95":
            panel.axvline(0.95, color=MUTED, linewidth=1, linestyle=":")

    return method_chart(
        datasets,
        [LABELS[name] for name in methods],
        {metric: METRICS[metric].label for metric in ("nll", "coverage_95")},
        draw,
        (1.4 + 2 * len(datasets), 2 + 0.6 * len(methods)),
        "target region; hollow: without its inputs, filled: with them as measurement points",
    )


def _draw(panel: Axes, place: int, method: str, score: Record) -> None:
    colour = COLOURS.get(method, MUTED)
    ends = {name: from_record(score[name]) for name in ("without", "with") if name in score}
    panel.plot([end.value for end in ends.values()], [place] * len(ends), color=colour, linewidth=1, alpha=0.6)
    for name, end in ends.items():
        hollow = {"mfc": "white"} if name == "without" else {}
        error = end.error if end.splits > 1 else None
        panel.errorbar(end.value, place, xerr=error, fmt="o", color=colour, **hollow)  # type: ignore[arg-type]


EXPERIMENTS = {
    "adaptation": Experiment(cells=cells, run=run_cell, label=label_of_split(LABELS), view=view, figure=figure)
}
