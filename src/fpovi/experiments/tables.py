# SPDX-License-Identifier: Apache-2.0
"""``tables``: the classifier with its default settings on ten mixed tables, beside other libraries' defaults.

Nothing is tuned per table: every method gets the training rows of a split as a data frame, and predicts its test rows.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from fpovi._lookup import lookup
from fpovi.baselines.classifiers import Classifier, catboost, logistic_regression, random_forest
from fpovi.calibration import ece_range, evaluate
from fpovi.datasets.tables import CLASSIFICATION, load_table_split
from fpovi.estimators import BNNClassifier
from fpovi.experiments.harness.experiment import Experiment, Options, Watch, grid, label_of_split, silent
from fpovi.experiments.harness.store import Cell, Row, Store
from fpovi.experiments.harness.view import Metric, View, compare, short
from fpovi.predictive import of_classes

TINY = 1e-7  # a forest's votes may be 0, which no log loss survives
METRICS = {
    "nll": Metric("log loss"),
    "brier": Metric("Brier"),
    "ece": Metric("ECE (low–high)"),
    "seconds": Metric("seconds"),
}
PRESETS = {"quick": (("olive", "orange_juice", "chile"), 1), "full": (tuple(CLASSIFICATION), 3)}


def _ours(seed: int, x: Any, y: Any, x_new: Any) -> Any:
    return BNNClassifier(random_state=seed).fit(x, y).predict_proba(x_new)


METHODS: dict[str, Classifier] = {
    "fpovi": _ours,
    "catboost": catboost,
    "random_forest": random_forest,
    "logistic": logistic_regression,
}
LABELS = {
    "fpovi": "BNNClassifier()",
    "catboost": "CatBoost",
    "random_forest": "random forest",
    "logistic": "logistic regression",
}


def cells(options: Options) -> list[Cell]:
    """Return the cells of every method on every table and split."""
    datasets, splits = lookup(PRESETS, options.preset, "preset")
    return grid(
        "tables", options, datasets=datasets, splits=lambda dataset: splits, methods=tuple(METHODS),
        known_datasets=CLASSIFICATION, known_methods=METHODS,
    )  # fmt: skip


def run_cell(cell: Cell, watch: Watch = silent, store: Store | None = None) -> dict[str, Any]:
    """Return the scores of one method on the test rows of one split, and the range its ECE has if it is calibrated."""
    split = load_table_split(cell.dataset, cell.split)
    classes, y = np.unique(split.y_train.astype(str), return_inverse=True)
    probs = lookup(METHODS, cell.method, "method")(cell.seed, split.x_train, classes[y], split.x_test)
    predictive = of_classes(jax.nn.log_softmax(np.log(np.maximum(probs, TINY))[None].astype(np.float32)))
    known = _places(split.y_test.astype(str).to_numpy(), classes)
    scores = evaluate(predictive, known)
    low, high = ece_range(predictive, jax.random.key(cell.seed))
    return {**scores, "ece_low": low, "ece_high": high}


def _places(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    """Return the places of labels among sorted classes, or raise a ``ValueError`` for one that is not there."""
    strange = np.setdiff1d(labels, classes)
    if strange.size:
        raise ValueError(f"the test rows have the class {strange[0]!r}, which no training row has")
    return np.searchsorted(classes, labels)


def view(rows: Sequence[Row]) -> View:
    """Return a table with a line per set and score, the significantly best in bold."""
    timed = [replace(row, metrics={**row.metrics, "seconds": row.seconds}) for row in rows]
    shown = compare(timed, LABELS, "Classifiers as they come on ten mixed tables", METRICS)
    note = (
        "ECE (low–high): beside it, the range of 95 % of the values that a calibrated model of these probabilities has"
    )
    return shown._replace(lines=_with_ranges(shown, timed), notes=(note,))


def _with_ranges(shown: View, rows: Sequence[Row]) -> list[list[str]]:
    """Return the lines of a table with the mean ends of ECE's range beside each ECE."""
    lines, dataset = [], ""
    for line in shown.lines:
        dataset = line[0] or dataset
        lines.append(list(line))
        if line[1] == METRICS["ece"].label:
            lines[-1][2:] = [
                text and f"{text} ({_end('low', rows, dataset, label)}–{_end('high', rows, dataset, label)})"
                for text, label in zip(line[2:], shown.columns[2:], strict=True)
            ]
    return lines


def _end(end: str, rows: Sequence[Row], dataset: str, label: str) -> str:
    method = next(name for name, shown in LABELS.items() if shown == label)
    cells = (row for row in rows if (row.cell.dataset, row.cell.method) == (dataset, method))
    return short(float(np.mean([row.metrics[f"ece_{end}"] for row in cells])), 3)


EXPERIMENTS = {"tables": Experiment(cells=cells, run=run_cell, label=label_of_split(LABELS), view=view)}
