# SPDX-License-Identifier: Apache-2.0
"""``defaults``: the estimator with its default settings on the UCI sets, beside other methods.

Nothing is tuned per set: every method gets the training rows of a split and predicts its test rows.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from fpovi._lookup import lookup
from fpovi.baselines import regressors
from fpovi.calibration import evaluate
from fpovi.datasets.uci import SPLIT_KINDS, UCI, Split, load_split
from fpovi.estimators import BNNRegressor
from fpovi.experiments.harness.experiment import Experiment, Options, Watch, grid, label_of_split, silent
from fpovi.experiments.harness.store import Cell, Row, Store
from fpovi.experiments.harness.view import METRICS, View, compare
from fpovi.experiments.uci.setups import SMALL
from fpovi.likelihoods import gaussian
from fpovi.predictive import Predictive

Method = Callable[[int, Split], Predictive]
SHOWN = {name: METRICS[name] for name in ("nll", "crps", "coverage_95", "rmse")}


def _estimator(**settings: Any) -> Method:
    return lambda seed, split: (
        BNNRegressor(random_state=seed, **settings).fit(split.x_train, split.y_train).predict_dist(split.x_test)
    )


def _other_library(method: Callable[..., regressors.Gaussians]) -> Method:
    return lambda seed, split: regressors.predict_dist(method, seed, split.x_train, split.y_train, split.x_test)


METHODS: dict[str, Method] = {
    "fpovi": _estimator(),
    "fpovi_fixed": _estimator(prior="nngp"),
    "ensemble": _estimator(prior="nngp", space="weight", flow="ensemble", likelihood=gaussian(start=0.5, floor=0.0)),
    "gp": _other_library(partial(regressors.gaussian_process, most_rows=2000)),
    "ngboost": _other_library(regressors.ngboost),
}
LABELS = {
    "fpovi": "BNNRegressor()",
    "fpovi_fixed": "fixed prior scales",
    "ensemble": "deep ensemble",
    "gp": "scikit-learn GP",
    "ngboost": "NGBoost",
}
PRESETS = {"quick": (SMALL, 1), "full": (tuple(UCI), 5)}


def cells(options: Options) -> list[Cell]:
    """Return the cells of every method on every set and split."""
    datasets, splits = lookup(PRESETS, options.preset, "preset")
    return grid(
        "defaults", options, datasets=datasets, splits=lambda dataset: splits, methods=tuple(METHODS),
        known_datasets=UCI, known_methods=METHODS, known_split_kinds=SPLIT_KINDS,
    )  # fmt: skip


def run_cell(cell: Cell, watch: Watch = silent, store: Store | None = None) -> dict[str, Any]:
    """Return the scores of one method on the test rows of one split."""
    split = load_split(cell.dataset, cell.split_kind, cell.split)
    predictive = lookup(METHODS, cell.method, "method")(cell.seed, split)
    return {name: float(value) for name, value in evaluate(predictive, split.y_test).items()}


def view(rows: Sequence[Row]) -> View:
    """Return a table with a line per set and score, the significantly best in bold."""
    return compare(rows, LABELS, "The estimator as it comes, and what one would use instead", SHOWN)


EXPERIMENTS = {"defaults": Experiment(cells=cells, run=run_cell, label=label_of_split(LABELS), view=view)}
