# SPDX-License-Identifier: Apache-2.0
"""``convergence``: the NLL of held-out rows in the course of training, as Wang et al. (2019) plot it for concrete.

The setup is that of ``uci-deep``, with a report every 20 epochs. The test rows show how well each method is doing, and
the rows kept for validation which epoch they would choose.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from fpovi._lookup import lookup
from fpovi.calibration import nll
from fpovi.datasets.uci import SPLIT_KINDS, UCI
from fpovi.experiments.harness.experiment import Options, Watch, grid, silent
from fpovi.experiments.harness.statistics import mean_of, plus_minus
from fpovi.experiments.harness.store import Cell, Row, Store
from fpovi.experiments.harness.view import View, name_once
from fpovi.experiments.uci.paper_learners import LEARNERS
from fpovi.experiments.uci.run import load_task, scaled_model
from fpovi.experiments.uci.setups import LABELS
from fpovi.plots import FUNCTION_SPACE, MUTED, STYLE, WEIGHT_SPACE
from fpovi.types import Info, State

SETUP = "uci-deep"
METHODS = ("f-svgd", "f-w-sgld-b", "f-gfsf", "w-svgd", "ensemble")
SPLITS = {"quick": 1, "paper": 5}
COLOURS = {"f-": FUNCTION_SPACE, "w-": WEIGHT_SPACE}
DASHES = ("-", "--", ":", "-.")  # methods of one space


def cells(options: Options) -> list[Cell]:
    """Return the cells of every method on the first splits of concrete, or of other sets."""
    number = lookup(SPLITS, options.preset, "preset")
    return grid(
        "convergence", options, datasets=("concrete",), splits=lambda dataset: number, methods=METHODS,
        known_datasets=UCI, known_methods=LEARNERS, known_split_kinds=SPLIT_KINDS,
    )  # fmt: skip


def run_cell(cell: Cell, watch: Watch = silent, store: Store | None = None) -> dict[str, Any]:
    """Return the ``epochs`` of all reports, and the NLL of test and validation rows in each of them."""
    task = load_task(replace(cell, experiment=SETUP))
    model = scaled_model(task)
    held = {"test_nll": (task.split.x_test, task.split.y_test)}
    if task.valid is not None:
        held["valid_nll"] = task.valid
    curves: dict[str, list[float]] = {"epochs": [], **{name: [] for name in held}}

    def report(state: State, history: Info) -> None:
        watch(int(state.step), task.settings.steps, float(history.log_likelihood[-1]))
        curves["epochs"].append(int(state.step) // task.steps_per_epoch)
        for name, (x, y) in held.items():
            curves[name].append(float(nll(model.predict(state, x), y)))

    learn = lookup(LEARNERS, cell.method, "method")
    learn(jax.random.key(task.seed), model.network, model.scaled.train, task.settings, report)
    return curves


class CurveSummary(NamedTuple):
    """The last and the lowest value of a curve, the epoch of the lowest, and how much its second half changes."""

    last: float
    lowest: float
    epoch: float
    change: float


def summarise(metrics: dict[str, Any]) -> CurveSummary:
    r"""Summarise the test NLL of a cell; ``change`` is the root mean square from report to report.

    >>> summarise({"epochs": [20, 40, 60, 80], "test_nll": [4.0, 2.0, 2.5, 2.5]})
    CurveSummary(last=2.5, lowest=2.0, epoch=40, change=0.353...)
    """
    found = np.asarray(metrics["test_nll"])
    steps = np.diff(found[(len(found) - 1) // 2 :])
    change = float(np.sqrt(np.mean(steps**2))) if len(steps) else 0.0
    return CurveSummary(float(found[-1]), float(found.min()), metrics["epochs"][int(found.argmin())], change)


def chosen_epoch(metrics: dict[str, Any]) -> tuple[int, float]:
    """Return the epoch that the validation rows choose, and the test NLL there."""
    best = int(np.argmin(metrics["valid_nll"]))
    return metrics["epochs"][best], metrics["test_nll"][best]


def view(rows: Sequence[Row]) -> View:
    """Return a table with a line per method: does it settle, and would it have been better to stop?"""
    records, lines = [], []
    for dataset, method in dict.fromkeys((row.cell.dataset, row.cell.method) for row in rows):
        found = [row.metrics for row in rows if (row.cell.dataset, row.cell.method) == (dataset, method)]
        curves = [summarise(metrics) for metrics in found]
        means = {name: mean_of([getattr(curve, name) for curve in curves]) for name in CurveSummary._fields}
        means["rise"] = mean_of([curve.last - curve.lowest for curve in curves])
        means["chosen"] = mean_of([chosen_epoch(metrics)[1] for metrics in found])
        shown = [plus_minus(means[name]) for name in ("last", "chosen", "lowest", "rise", "change")]
        lines.append([dataset, LABELS[method], *shown, f"{means['epoch'].value:.0f}"])
        records.append({"dataset": dataset, "method": method, **{name: m.value for name, m in means.items()}})
    epochs = rows[0].metrics["epochs"]
    return View(
        title="Held-out NLL in the course of training",
        explanation=(
            f"two hidden layers; test rows, every {epochs[0]} of {epochs[-1]:,} epochs; chosen: at the epoch that "
            "validation rows choose",
            "rise: from the lowest to the last; change: root mean square from report to report in the second half",
        ),
        columns=("set", "method", "last", "chosen", "lowest", "rise", "change", "lowest at epoch"),
        lines=name_once(lines),
        records=records,
        keys=2,
    )


def figure(rows: Sequence[Row]) -> Figure:
    """Draw a panel per set and a line per method, the mean over splits; dots are what validation rows choose."""
    datasets = list(dict.fromkeys(row.cell.dataset for row in rows))
    with mpl.rc_context(STYLE):
        drawing = Figure(figsize=(6.2 * len(datasets), 3.8), layout="constrained")
        axes = drawing.subplots(1, len(datasets), squeeze=False)[0]
        for panel, dataset in zip(axes, datasets, strict=True):
            here = [row for row in rows if row.cell.dataset == dataset]
            for method, (colour, dash) in _line_styles(dict.fromkeys(row.cell.method for row in here)).items():
                found = [row.metrics for row in here if row.cell.method == method]
                epochs, curves = found[0]["epochs"], np.asarray([metrics["test_nll"] for metrics in found])
                for curve in curves if len(curves) > 1 else ():
                    panel.plot(epochs, curve, dash, color=colour, alpha=0.2, linewidth=0.8)
                panel.plot(epochs, curves.mean(axis=0), dash, color=colour, linewidth=1.8, label=LABELS[method])
                panel.plot(*np.transpose([chosen_epoch(metrics) for metrics in found]), "o", color=colour, markersize=4)
            panel.set_title(dataset)
            panel.set(xlabel="epochs", ylabel="NLL of test rows")
            panel.grid(axis="y", color=MUTED, alpha=0.2)
            panel.legend(fontsize=9)
    return drawing


def _line_styles(methods: Sequence[str] | dict[str, None]) -> dict[str, tuple[str, str]]:
    """Return the colour, by space, and the dashes of every method."""
    count: dict[str, int] = {}
    styles = {}
    for method in methods:
        colour = COLOURS.get(method[:2], MUTED)
        styles[method] = colour, DASHES[count.get(colour, 0) % len(DASHES)]
        count[colour] = count.get(colour, 0) + 1
    return styles
