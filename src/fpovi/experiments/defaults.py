# SPDX-License-Identifier: Apache-2.0
"""``defaults``: the estimator as it comes, on the UCI sets, beside what one would use instead.

Nothing is tuned per set: every method gets the training rows of a standard split and answers for its test rows.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fpovi.baselines import normal
from fpovi.calibration import evaluate
from fpovi.data.uci import UCI, Split, load_uci, standard_split
from fpovi.estimators import BNNRegressor
from fpovi.experiments.store import Cell, Row
from fpovi.experiments.view import View
from fpovi.likelihoods import gaussian
from fpovi.predictive import Predictive
from fpovi.types import lookup

Method = Callable[[int, Split], Predictive]
METRICS = {"nll": "NLL", "crps": "CRPS", "rmse": "RMSE", "coverage_95": "95 % coverage"}


def _estimator(**settings: Any) -> Method:
    return lambda seed, split: (
        BNNRegressor(random_state=seed, **settings).fit(split.x_train, split.y_train).predict_dist(split.x_test)
    )


def _peer(method: Callable[..., normal.Answer]) -> Method:
    return lambda seed, split: normal.answer(method, seed, split.x_train, split.y_train, split.x_test)


METHODS: dict[str, Method] = {
    "fpovi": _estimator(),
    "fpovi_fixed": _estimator(prior="nngp"),
    "ensemble": _estimator(prior="nngp", space="weight", flow="ensemble", likelihood=gaussian()),
    "gp": _peer(normal.gaussian_process),
    "ngboost": _peer(normal.ngboost),
}
LABELS = {
    "fpovi": "BNNRegressor()",
    "fpovi_fixed": "fixed prior scales",
    "ensemble": "deep ensemble",
    "gp": "scikit-learn GP",
    "ngboost": "NGBoost",
}
SMALL = ("boston", "concrete", "energy", "wine-red", "yacht")
PRESETS = {"quick": (SMALL, 1), "full": (tuple(UCI), 5)}


def cells(
    preset: str, datasets: Sequence[str] = (), splits: int | None = None, methods: Sequence[str] = ()
) -> list[Cell]:
    """Every method on every set and split."""
    named, number = lookup(PRESETS, preset, "preset")
    for dataset in datasets:
        lookup(UCI, dataset, "dataset")
    return [
        Cell("defaults", method, dataset, split, seed=0, preset=preset)
        for dataset in (datasets or named)
        for split in range(splits or number)
        for method in (methods or METHODS)
    ]


def run_cell(cell: Cell) -> dict[str, Any]:
    """The scores of one method on the test rows of one split."""
    split = standard_split(load_uci(cell.dataset), cell.split)
    predictive = lookup(METHODS, cell.method, "method")(cell.seed, split)
    return {name: float(value) for name, value in evaluate(predictive, split.y_test).items()}


def view(rows: Sequence[Row]) -> View:
    """Mean over splits, a line per set and metric; the best in bold."""
    methods = [name for name in METHODS if any(row.cell.method == name for row in rows)]
    lines = []
    records: list[dict[str, Any]] = []
    for dataset in dict.fromkeys(row.cell.dataset for row in rows):
        for metric, label in METRICS.items():
            found = {
                name: [row.metrics[metric] for row in rows if (row.cell.dataset, row.cell.method) == (dataset, name)]
                for name in methods
            }
            means = {name: float(np.mean(values)) for name, values in found.items() if values}
            best = min(means, key=lambda name: abs(means[name] - 0.95) if metric == "coverage_95" else means[name])
            shown = [_cell_text(name, means, best) for name in methods]
            lines.append([dataset if metric == "nll" else "", label, *shown])
            records.append({"dataset": dataset, "metric": metric, **means, "splits": max(map(len, found.values()))})
    return View(
        title="The estimator as it comes, and what one would use instead",
        explanation=("means over standard test splits; lower is better, coverage should be .95",),
        columns=("set", "score", *(LABELS[name] for name in methods)),
        lines=lines,
        records=records,
    )


def _cell_text(name: str, means: dict[str, float], best: str) -> str:
    if name not in means:
        return ""
    text = f"{means[name]:.3g}"
    return f"**{text}**" if name == best else text
