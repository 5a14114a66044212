# SPDX-License-Identifier: Apache-2.0
"""``fpovi predict``: what a model says about the rows of a table."""

import json
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fpovi.cli.failure import about, one_line_errors
from fpovi.cli.options import AsJson, DataFile, Force, ModelFile, Unknown, check_free
from fpovi.data.problem import inputs_as_learned
from fpovi.data.tables import TableError, extension, read_table, write_table
from fpovi.estimators import load
from fpovi.predictive import Predictive
from fpovi.preprocessing.encoder import POLICIES
from fpovi.report import prediction_columns
from fpovi.types import lookup

FIRST_ROWS = 10
STDOUT = Path("-")


def predict(
    model: ModelFile,
    data: DataFile,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The table to write, - for CSV on standard output; without it the first rows are shown.",
            show_default=False,
        ),
    ] = None,
    level: Annotated[float, typer.Option(help="Probability that the interval from lower to upper holds.")] = 0.95,
    unknown: Unknown = "error",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Predict the rows of a table: its columns, and beside them predictions and how sure they are.

    Numbers get mean, std (all uncertainty), epistemic_std (what more data could remove), lower and upper. Classes get
    the most probable one, the probability of each, entropy and mutual_information. Columns are found by name; others
    are kept and not looked at.
    """
    with one_line_errors():
        if out is not None and out != STDOUT:
            extension(out)
            check_free(out, force)
        fitted = load(model)
        frame = read_table(data)
        predictive = ask(fitted, frame, data, unknown)
        columns = prediction_columns(predictive, names_of(fitted), level, getattr(fitted, "classes_", None))
        with about(data):
            _refuse_taken(frame, columns)
        whole = pd.concat([frame, columns], axis=1)
        if out == STDOUT:
            typer.echo(whole.to_csv(index=False), nl=False)
        elif out is not None:
            write_table(whole, out, force)
            _report(len(whole), columns, out, as_json)
        elif as_json:
            typer.echo(columns.to_json(orient="records"))
        else:
            _preview(columns)


def ask(fitted: Any, frame: pd.DataFrame, data: Path, unknown: str) -> Predictive:
    """What a model predicts of the rows of the table in the file ``data``, its columns found by name."""
    fitted.set_params(unknown=lookup(POLICIES, unknown, "unknown"))
    with about(data):
        return fitted.predict_dist(inputs_as_learned(frame, fitted.encoder_.columns))


def names_of(fitted: Any) -> list[str]:
    """Of the targets: as they were called in fit, else y, or y1, y2, …"""
    known = getattr(fitted, "target_names_", None)
    if known is not None:
        return list(known)
    count = 1 if hasattr(fitted, "classes_") else len(fitted.target_.shift)
    return ["y"] if count == 1 else [f"y{i + 1}" for i in range(count)]


def _refuse_taken(frame: pd.DataFrame, columns: pd.DataFrame) -> None:
    taken = [name for name in columns if name in frame.columns]
    if taken:
        raise TableError(f"has a column {taken[0]!r} already, which a prediction would be called: rename it")


def _report(rows: int, columns: pd.DataFrame, out: Path, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"rows": rows, "out": str(out), "columns": list(columns)}))
    else:
        typer.echo(f"wrote {out}: {rows} rows with {', '.join(columns)}")


def _preview(columns: pd.DataFrame) -> None:
    view = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    view.add_column("row", justify="right")
    for name in columns:
        view.add_column(Text(name), justify="right", overflow="fold")
    for row, values in columns.head(FIRST_ROWS).iterrows():
        view.add_row(str(row), *(Text(f"{value:.4g}" if isinstance(value, float) else str(value)) for value in values))
    console = Console(highlight=False)
    console.print(view)
    if len(columns) > FIRST_ROWS:
        console.print(f"the first {FIRST_ROWS} of {len(columns)} rows; --out FILE writes all of them")
