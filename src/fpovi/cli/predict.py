# SPDX-License-Identifier: Apache-2.0
"""``fpovi predict``: predict the rows of a table."""

import json
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fpovi._lookup import lookup
from fpovi.cli.models import OwnNetwork, open_model
from fpovi.cli.options import AsJson, Force, ModelPath, RowsFile, Unknown, about, check_free, one_line_errors
from fpovi.cli.progress import RowProgress
from fpovi.cli.rows import DataRows, open_rows
from fpovi.tabular.encoder import UNKNOWN
from fpovi.tabular.files import TableError, extension
from fpovi.tabular.predictions import prediction_columns
from fpovi.tabular.streams import TableStream
from fpovi.tabular.writing import with_times_as_text, write_chunks

FIRST_ROWS = 10
STDOUT = Path("-")
Predicted = tuple[pd.DataFrame, pd.DataFrame]  # rows of the table, and beside them what is predicted


def predict(
    model: ModelPath,
    data: RowsFile,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The table to write, - for CSV on standard output; without it the first rows are shown.",
            show_default=False,
        ),
    ] = None,
    level: Annotated[float, typer.Option(help="Probability that the interval from lower to upper holds.")] = 0.95,
    unknown: Unknown = "error",
    network: OwnNetwork = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Predict the rows of a table: its columns, and beside them predictions and how sure they are.

    Numbers get mean, std (all uncertainty), epistemic_std (what more data could remove), lower and upper. Classes get
    the most probable one, the probability of each, entropy and mutual_information. Columns are found by name; others
    are kept and not looked at. A table may be larger than memory: it is read twice, some rows at a time.
    """
    with one_line_errors(lambda: "nothing was written"):
        if out is not None and out != STDOUT:
            extension(out)
            check_free(out, force)
        fitted = open_model(model, network)
        rows = open_rows(data, tuple(target_names(fitted)))
        fitted.set_params(unknown=lookup(UNKNOWN, unknown, "unknown"))
        if out is None and not as_json:
            _print_preview(_first_rows(fitted, rows, data, level), rows.stream.rows)
            return
        chunks = _predicted(fitted, rows, data, level, quiet=out in (None, STDOUT) and sys.stdout.isatty())
        if out == STDOUT:
            _print_csv(chunks, rows.stream.sample)
        elif out is None:
            _print_json(chunks)
        else:
            columns = _write(chunks, rows.stream, out, force)
            _print_report(rows.stream.rows, columns, out, as_json)


def _predicted(fitted: Any, rows: DataRows, data: Path, level: float, quiet: bool) -> Iterator[Predicted]:
    """Yield the rows of the table and their predictions, a chunk at a time."""
    chunks = rows.stream.chunks()
    with RowProgress(rows.stream.rows, "predict", quiet) as bar:
        for frame in chunks:
            try:
                columns = _predict_chunk(fitted, rows, frame, level)
                _refuse_same_names(frame, columns)
            except ValueError as error:
                # of several faults, the one that is found first when all rows are looked at together
                fault = rows.fault(chain([frame], chunks), fitted)
                raise ValueError(f"{data}: {fault or error}") from error
            bar.advance(len(frame))
            yield frame, columns


def _first_rows(fitted: Any, rows: DataRows, data: Path, level: float) -> pd.DataFrame:
    """Return the predictions of the first rows, if those of all rows can be made."""
    with about(data):
        if fault := rows.fault(rows.stream.chunks(), fitted):
            raise fault
        frame = pd.DataFrame()
        for chunk in rows.stream.chunks():
            frame = pd.concat([frame, chunk.head(FIRST_ROWS - len(frame))]) if len(frame) else chunk.head(FIRST_ROWS)
            if len(frame) == FIRST_ROWS:
                break
        columns = _predict_chunk(fitted, rows, frame, level)
        _refuse_same_names(frame, columns)
    return columns


def _predict_chunk(fitted: Any, rows: DataRows, frame: pd.DataFrame, level: float) -> pd.DataFrame:
    predictive = fitted.predict_dist(rows.inputs(frame, fitted))
    columns = prediction_columns(predictive, target_names(fitted), level, getattr(fitted, "classes_", None))
    return columns.set_axis(frame.index)


def _write(chunks: Iterator[Predicted], stream: TableStream, out: Path, force: bool) -> pd.DataFrame:
    """Write all chunks into one file, and return the first predictions."""
    first, columns = next(chunks)
    alike = columns.take([0] * len(stream.sample)).set_axis(stream.sample.index)
    frames = (pd.concat(chunk, axis=1) for chunk in chain([(first, columns)], chunks))
    write_chunks(frames, pd.concat([stream.sample, alike], axis=1), out, force, stream.arrow_types)
    return columns


def _print_csv(chunks: Iterator[Predicted], sample: pd.DataFrame) -> None:
    for number, chunk in enumerate(chunks):
        frame = with_times_as_text(pd.concat(chunk, axis=1), sample)
        typer.echo(frame.to_csv(index=False, header=number == 0), nl=False)


def _print_json(chunks: Iterator[Predicted]) -> None:
    for number, (_, columns) in enumerate(chunks):
        typer.echo(("," if number else "[") + columns.to_json(orient="records")[1:-1], nl=False)
    typer.echo("]")


def target_names(fitted: Any) -> list[str]:
    """Return the names of the targets: as they were called in fit, else y, or y1, y2, …"""
    known = getattr(fitted, "target_names_", None)
    if known is not None:
        return list(known)
    count = 1 if hasattr(fitted, "classes_") else fitted.fitted_.target.count
    return ["y"] if count == 1 else [f"y{i + 1}" for i in range(count)]


def _refuse_same_names(frame: pd.DataFrame, columns: pd.DataFrame) -> None:
    taken = [name for name in columns if name in frame.columns]
    if taken:
        raise TableError(f"has a column {taken[0]!r} already, which a prediction would be called: rename it")


def _print_report(rows: int, columns: pd.DataFrame, out: Path, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"rows": rows, "out": str(out), "columns": list(columns)}))
    else:
        typer.echo(f"wrote {out}: {rows} rows with {', '.join(columns)}")


def _print_preview(columns: pd.DataFrame, rows: int) -> None:
    view = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    view.add_column("row", justify="right")
    for name in columns:
        view.add_column(Text(name), justify="right", overflow="fold")
    for row, values in columns.iterrows():
        view.add_row(str(row), *(Text(f"{value:.4g}" if isinstance(value, float) else str(value)) for value in values))
    console = Console(highlight=False)
    console.print(view)
    if rows > len(columns):
        console.print(f"the first {len(columns)} of {rows} rows; --out FILE writes all of them")
