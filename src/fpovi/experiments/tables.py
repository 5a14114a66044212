# SPDX-License-Identifier: Apache-2.0
"""``tables``: the classifier with its default settings on ten mixed tables, beside other libraries' defaults.

Nothing is tuned per table: every method gets the training rows of a split as a data frame, and predicts its test rows.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fpovi._lookup import lookup
from fpovi.baselines.classifiers import Classifier, catboost, logistic_regression, random_forest
from fpovi.calibration import ece_range, evaluate
from fpovi.datasets.tables import CLASSIFICATION, load_table_split
from fpovi.estimators import BNNClassifier
from fpovi.experiments.harness.experiment import Experiment, Options, Watch, grid, label_of_split, silent
from fpovi.experiments.harness.store import Cell, Row, Store
from fpovi.experiments.harness.view import Metric, View, compare
from fpovi.likelihoods import categorical
from fpovi.predictive import Predictive

TINY = 1e-7  # a forest's votes may be 0, which no log loss survives
METRICS = {
    "nll": Metric("log loss"),
    "brier": Metric("Brier"),
    "ece": Metric("ECE"),
    "beyond": Metric("ECE beyond its range"),
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
    known = np.searchsorted(classes, split.y_test.astype(str))
    logits = jnp.asarray(np.log(np.maximum(probs, TINY)), jnp.float32)[None]
    predictive = Predictive(categorical(), jax.nn.log_softmax(logits), (), jnp.zeros(()), jnp.ones(()))
    scores = evaluate(predictive, known)
    low, high = ece_range(predictive, jax.random.key(cell.seed))
    return {**scores, "ece_low": low, "ece_high": high, "beyond": max(scores["ece"] - high, 0.0)}


def view(rows: Sequence[Row]) -> View:
    """Return a table with a line per set and score, the significantly best in bold."""
    timed = [replace(row, metrics={**row.metrics, "seconds": row.seconds}) for row in rows]
    shown = compare(timed, LABELS, "Classifiers as they come on ten mixed tables", METRICS)
    note = "ECE beyond its range: what is above 97.5 % of the values that a calibrated model of these probabilities has"
    return shown._replace(notes=(note,))


EXPERIMENTS = {"tables": Experiment(cells=cells, run=run_cell, label=label_of_split(LABELS), view=view)}
