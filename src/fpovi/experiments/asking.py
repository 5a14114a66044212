# SPDX-License-Identifier: Apache-2.0
"""``asking``: rows chosen by an acquisition function against rows chosen at random.

Digits: a classifier starts with 20 labelled images and asks for 10 more of a pool, ten times over. Test functions: a
regressor starts with random points and asks for 5 among 2000 fresh random ones at a time, in search of the minimum. All
methods start from the same rows, and the model is fitted anew to all rows each time.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from fpovi._lookup import lookup
from fpovi.acquisition import choose
from fpovi.estimators import BNNClassifier, BNNRegressor
from fpovi.experiments.harness.experiment import Experiment, Options, Watch, grid, label_of_split, silent
from fpovi.experiments.harness.statistics import (
    LEVEL,
    as_record,
    collect,
    difference_record,
    from_record,
    mean_of,
    plus_minus,
)
from fpovi.experiments.harness.store import Cell, Row, Store
from fpovi.experiments.harness.view import View, name_once
from fpovi.plots import FUNCTION_SPACE, INK, MUTED, STYLE, WEIGHT_SPACE

POOL, CANDIDATES = 1200, 2000
RANDOM = "random"
LABELS = {
    RANDOM: "random",
    "bald": "bald",
    "variance": "variance",
    "margin": "margin",
    "expected_improvement": "expected improvement",
    "thompson": "Thompson",
    "upper_confidence_bound": "upper confidence bound",
}


class Task(NamedTuple):
    """How many rows a run starts with, how many it asks for at a time and how often; and what may choose them."""

    run: Callable[..., list[float]]
    start: int
    batch: int
    rounds: int
    methods: tuple[str, ...]


class Function(NamedTuple):
    """A function on the unit cube: its dimension, its minimum, and its values at rows."""

    dimension: int
    minimum: float
    values: Callable[[NDArray[np.float64]], NDArray[np.float64]]


def branin(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Branin function of rows ``(N, 2)`` in the unit square; it has three minima."""
    u, v = 15 * x[:, 0] - 5, 15 * x[:, 1]
    valley = v - 5.1 / (4 * np.pi**2) * u**2 + 5 / np.pi * u - 6
    return valley**2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(u) + 10


HEIGHTS = np.array([1.0, 1.2, 3.0, 3.2])
STEEPNESS = np.array([
    [10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14],
])  # fmt: skip
WELLS = np.array([
    [0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886], [0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991],
    [0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650], [0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381],
])  # fmt: skip


def hartmann(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Hartmann function of rows ``(N, 6)`` in the unit cube: minus four bumps."""
    return -np.exp(-np.sum(STEEPNESS * (x[:, None] - WELLS) ** 2, axis=2)) @ HEIGHTS


FUNCTIONS = {"branin": Function(2, 0.397887, branin), "hartmann": Function(6, -3.322368, hartmann)}


def run_digits(task: Task, method: str, seed: int, watch: Watch) -> list[float]:
    """Return the share of wrong labels on test images before every round and after the last."""
    x, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    pool, test = np.split(rng.permutation(len(y)), [POOL])
    known, rest = np.split(pool, [task.start])
    errors = []
    for done in range(task.rounds + 1):
        model = BNNClassifier(max_epochs=200, scaling="whole", random_state=seed)
        model.partial_fit(x[known], y[known], classes=np.arange(10))
        errors.append(1 - model.score(x[test], y[test]))
        watch(done, task.rounds, errors[-1])
        if done < task.rounds:
            options = {"random_state": seed} if method == "bald" else {}
            rows = _rows(method, rng, task.batch, len(rest), model, x[rest], options)
            known, rest = np.append(known, rest[rows]), np.delete(rest, rows)
    return errors


def run_function(function: Function, task: Task, method: str, seed: int, watch: Watch) -> list[float]:
    """Return how far above the minimum the best point is before every round and after the last."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(task.start, function.dimension))
    y = function.values(x)
    regrets = [float(y.min() - function.minimum)]
    for done in range(task.rounds):
        candidates = rng.uniform(size=(CANDIDATES, function.dimension))
        model = BNNRegressor(activation="erf", max_epochs=500, random_state=seed)
        if method != RANDOM:
            model.fit(x, y)
        options: dict[str, Any] = {"minimise": True}
        options |= {"best": y.min()} if method == "expected_improvement" else {}
        options |= {"random_state": seed + done} if method == "thompson" else {}
        rows = _rows(method, rng, task.batch, CANDIDATES, model, candidates, options)
        x = np.concatenate([x, candidates[rows]])
        y = function.values(x)
        regrets.append(float(y.min() - function.minimum))
        watch(done + 1, task.rounds, regrets[-1])
    return regrets


def _rows(
    method: str, rng: np.random.Generator, batch: int, count: int, model: Any, x: NDArray[Any], options: dict[str, Any]
) -> NDArray[np.int64]:
    """Return the rows to ask for; the generator moves on alike for all methods."""
    at_random = rng.permutation(count)[:batch]
    return at_random if method == RANDOM else choose(model, x, method, batch, **options).rows


OPTIMISERS = (RANDOM, "expected_improvement", "thompson", "upper_confidence_bound")
TASKS = {
    "digits": Task(run_digits, 20, 10, 10, (RANDOM, "bald", "variance", "margin")),
    **{
        name: Task(lambda *args, function=function: run_function(function, *args), start, 5, 8, OPTIMISERS)
        for (name, function), start in zip(FUNCTIONS.items(), (10, 20), strict=True)
    },
}
# seeds, and how many methods of each task
PRESETS: dict[str, tuple[int, int | None]] = {"quick": (3, 2), "full": (10, None)}


def cells(options: Options) -> list[Cell]:
    """Return the cells of every task, method and seed; a seed is the number of a split."""
    seeds, methods = lookup(PRESETS, options.preset, "preset")
    return [
        cell
        for task in (options.datasets or TASKS)
        for cell in grid(
            "asking", options._replace(datasets=(task,), split_kind="standard"),
            datasets=(), splits=lambda task: seeds, methods=lookup(TASKS, task, "dataset").methods[:methods],
            known_datasets=TASKS, known_methods=LABELS,
        )
    ]  # fmt: skip


def run_cell(cell: Cell, watch: Watch = silent, store: Store | None = None) -> dict[str, Any]:
    """Return the error or regret at the end, its mean over all rounds, and the whole of it."""
    task = lookup(TASKS, cell.dataset, "dataset")
    trace = task.run(task, cell.method, 1000 * cell.seed + cell.split, watch)
    return {"end": trace[-1], "mean": float(np.mean(trace)), "trace": trace}


def view(rows: Sequence[Row]) -> View:
    """Return a table with a line per task and method; bold differences to random are significant (paired t-test)."""
    lines: list[list[str]] = []
    records: list[dict[str, Any]] = []
    found = {metric: collect(rows, metric) for metric in ("end", "mean")}
    for task, of_task in found["end"].items():
        for method in (name for name in LABELS if name in of_task):
            scores = {metric: found[metric][task][method] for metric in found}
            differences = {
                metric: None if method == RANDOM else difference_record(scores[metric], found[metric][task][RANDOM])
                for metric in found
            }
            reached = rows_until_as_good_as_random(rows, task, method)
            means = {metric: mean_of(list(scores[metric].values())) for metric in found}
            texts = [[plus_minus(means[metric]), _signed(differences[metric])] for metric in found]
            lines.append([task, LABELS[method], *texts[0], *texts[1], "" if reached is None else str(reached)])
            records.append({"task": task, "method": method, **{
                metric: {**as_record(means[metric]), "difference": differences[metric]} for metric in found
            }, "rows": reached})  # fmt: skip
    return View(
        title="Rows that were asked for against rows at random",
        explanation=(
            "digits: share of wrong labels; functions: how far the best point is above the minimum; lower is better",
            "mean ± standard error over seeds; differences to random on the same seeds, bold where p < .05",
            "rows: how many until the mean is as low as that of random rows at the end",
        ),
        columns=("task", "chosen by", "at the end", "minus random's", "mean on the way", "minus random's", "rows"),
        lines=name_once(lines),
        records=records,
        keys=2,
    )


def rows_until_as_good_as_random(rows: Sequence[Row], task: str, method: str) -> int | None:
    """Return after how many rows the mean trace of a method is as low as that of random rows at the end, if ever."""
    counts, traces = TASKS[task].start + TASKS[task].batch * np.arange(TASKS[task].rounds + 1), _traces(rows, task)
    as_good = np.flatnonzero(np.mean(traces[method], axis=0) <= np.mean(traces[RANDOM], axis=0)[-1])
    return int(counts[as_good[0]]) if len(as_good) else None


def _traces(rows: Sequence[Row], task: str) -> dict[str, NDArray[np.float64]]:
    """Return the traces of each method ``(seeds, rounds + 1)``."""
    of_task = [row for row in rows if row.cell.dataset == task]
    methods = dict.fromkeys(row.cell.method for row in of_task)
    return {name: np.array([row.metrics["trace"] for row in of_task if row.cell.method == name]) for name in methods}


def _signed(difference: dict[str, Any] | None) -> str:
    if difference is None:
        return ""
    text = plus_minus(from_record(difference), signed=True)
    return f"**{text}**" if difference["mean"] < 0 and difference["p"] < LEVEL else text


COLOURS = {RANDOM: MUTED, "bald": FUNCTION_SPACE, "variance": WEIGHT_SPACE, "margin": INK,
           "expected_improvement": FUNCTION_SPACE, "thompson": WEIGHT_SPACE, "upper_confidence_bound": INK}  # fmt: skip


def figure(rows: Sequence[Row]) -> Figure:
    """Draw error or regret against rows, a panel per task: means over seeds, bands of one standard error."""
    tasks = [name for name in TASKS if any(row.cell.dataset == name for row in rows)]
    with mpl.rc_context(STYLE):
        drawing = Figure(figsize=(4.2 * len(tasks), 3.4), layout="constrained")
        for panel, name in zip(drawing.subplots(1, len(tasks), squeeze=False)[0], tasks, strict=True):
            task = TASKS[name]
            counts = task.start + task.batch * np.arange(task.rounds + 1)
            for method, traces in _traces(rows, name).items():
                mean, error = traces.mean(axis=0), traces.std(axis=0, ddof=1) / np.sqrt(len(traces))
                panel.plot(counts, mean, color=COLOURS[method], label=LABELS[method])
                panel.fill_between(counts, mean - error, mean + error, color=COLOURS[method], alpha=0.15, linewidth=0)
            panel.set_title(name)
            panel.set_xlabel("rows with a known target")
            panel.set_ylabel("share of wrong labels" if name == "digits" else "above the minimum")
            panel.set_yscale("linear" if name == "digits" else "log")
            panel.legend(fontsize=8)
    return drawing


EXPERIMENTS = {"asking": Experiment(cells=cells, run=run_cell, label=label_of_split(LABELS), view=view, figure=figure)}
