# SPDX-License-Identifier: Apache-2.0
"""``fpovi evaluate``: score a model on a table whose targets are known."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from fpovi import calibration
from fpovi._lookup import lookup
from fpovi.cli.models import OwnNetwork, open_model
from fpovi.cli.options import AsJson, Force, ModelPath, RowsFile, Unknown, about, check_free, one_line_errors
from fpovi.cli.predict import target_names
from fpovi.cli.rows import read_rows
from fpovi.plots import held_out_figures, save
from fpovi.tabular.encoder import UNKNOWN
from fpovi.tabular.files import TableError
from fpovi.tabular.target_columns import observed_targets, row_weights

MEANINGS = {
    "nll": ("NLL", "negative log-likelihood per row, lower is better"),
    "rmse": ("RMSE", "error of the mean, lower is better"),
    "crps": ("CRPS", "error of the whole distribution, lower is better"),
    "coverage_95": ("coverage", "share inside the 95 % interval, should be 0.95"),
    "width_95": ("sharpness", "mean width of that interval, narrow is good if it covers"),
    "accuracy": ("accuracy", "share of right classes, higher is better"),
    "brier": ("Brier", "squared error of probabilities, lower is better"),
    "ece": ("ECE", "expected calibration error, should be 0"),
}


def evaluate(
    model: ModelPath,
    data: RowsFile,
    weight: Annotated[str | None, typer.Option(help="A column of weights of the rows, for the scores.")] = None,
    plots: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Draw pictures of calibration into this folder, PNG and SVG.")
    ] = None,
    unknown: Unknown = "error",
    network: OwnNetwork = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Score a model on rows it has not seen: errors, and whether its uncertainty comes true."""
    with one_line_errors():
        fitted = open_model(model, network)
        names = target_names(fitted)
        rows, frame = read_rows(data, tuple(names))
        with about(data):
            if rows.arrays is not None and not set(names) <= set(frame):
                raise TableError("has no targets: give a .npz file with the arrays X and y")
            y = observed_targets(frame, names, getattr(fitted, "classes_", None))
            weights = None if weight is None else row_weights(frame, weight, names)
        fitted.set_params(unknown=lookup(UNKNOWN, unknown, "unknown"))
        with about(data):
            predictive = fitted.predict_dist(rows.inputs(frame, fitted))
            scores = calibration.evaluate(predictive, y, weights)
        written = []
        if plots is not None:
            drawn = held_out_figures(predictive, y, names)
            plots.mkdir(parents=True, exist_ok=True)
            for name in drawn:
                for extension in (".png", ".svg"):
                    check_free(plots / f"{name}{extension}", force)
            written = [path for name, figure in drawn.items() for path in save(figure, plots / name)]
        if as_json:
            typer.echo(json.dumps({"rows": len(frame), **scores, "plots": list(map(str, written))}))
        else:
            _print_scores(f"{model} on {data}: {len(frame)} rows", scores, written)


def _print_scores(title: str, scores: dict[str, float], written: list[Path]) -> None:
    view = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_header=False)
    view.add_column(no_wrap=True)
    view.add_column(justify="right", no_wrap=True)
    view.add_column(style="dim")
    for name, value in scores.items():
        label, meaning = MEANINGS[name]
        view.add_row(label, f"{value:.4g}", meaning)
    console = Console(highlight=False)
    console.print(title, markup=False)
    console.print(view)
    for path in written:
        console.print(f"wrote {path}", markup=False)
