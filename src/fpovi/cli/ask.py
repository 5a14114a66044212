# SPDX-License-Identifier: Apache-2.0
"""``fpovi ask``: which rows of a table to ask for next."""

import json
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
from fpovi.cli.options import AsJson, Force, ModelPath, RowsFile, Unknown, about, check_free, one_line_errors, one_of
from fpovi.cli.predict import STDOUT, target_names
from fpovi.cli.rows import read_rows
from fpovi.tabular.encoder import UNKNOWN
from fpovi.tabular.files import TableError, extension
from fpovi.tabular.writing import with_times_as_text, write_table

# a test compares them with those of fpovi.acquisition, which takes a second to import
KNOWN = (
    "bald", "entropy", "expected_improvement", "margin", "probability_of_improvement", "thompson",
    "upper_confidence_bound", "variance",
)  # fmt: skip
RANDOM = ("bald", "thompson")  # those that draw random numbers
ADDED = ("row", "score")
SHOWN = 6  # columns of the table that are printed


def ask(
    model: ModelPath,
    data: RowsFile,
    what: Annotated[
        str,
        one_of(
            KNOWN,
            "What makes a row worth asking for; bald, what its target would tell about the function, is for classes "
            "and for numbers. entropy and margin are for classes only, the improvements, thompson and "
            "upper_confidence_bound for numbers only",
        ),
    ] = "bald",
    number: Annotated[int, typer.Option("-n", "--number", help="How many rows to ask for together.")] = 10,
    best: Annotated[
        float | None,
        typer.Option(help="For the improvements: the best target seen so far, in its own unit.", show_default=False),
    ] = None,
    beta: Annotated[
        float | None,
        typer.Option(help="For upper_confidence_bound: how many standard deviations doubt counts; 2 without it."),
    ] = None,
    minimise: Annotated[bool, typer.Option("--minimise", help="Small targets are wanted, not large ones.")] = False,
    seed: Annotated[int, typer.Option(help="For what is drawn at random: the same seed asks for the same rows.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The table to write, - for CSV on standard output; without it the rows are shown.", show_default=False
        ),
    ] = None,
    unknown: Unknown = "error",
    network: OwnNetwork = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Rank the rows of a table by what there is to gain from their targets, and name those to ask for next.

    Rows are chosen together, each for what it adds to those above it. Each gets its number in the table, from 0, and
    as its score what it was worth when it was chosen: nats for bald and entropy, the target's unit for improvements and
    bounds, its square for variance.
    """
    with one_line_errors(lambda: "nothing was written"):
        if out is not None and out != STDOUT:
            extension(out)
            check_free(out, force)
        lookup(dict.fromkeys(KNOWN), what, "--what")
        fitted = open_model(model, network)
        rows, frame = read_rows(data, tuple(target_names(fitted)))
        fitted.set_params(unknown=lookup(UNKNOWN, unknown, "unknown"))
        options: dict[str, Any] = {"random_state": seed} if what in RANDOM else {}
        options |= {name: value for name, value in {"best": best, "beta": beta}.items() if value is not None}
        options |= {"minimise": True} if minimise else {}
        with about(data):
            chosen = _ask(fitted, rows.inputs(frame, fitted), frame, what, number, options)
        if out == STDOUT:
            typer.echo(with_times_as_text(chosen, chosen).to_csv(index=False), nl=False)
        elif out is not None:
            write_table(chosen, out, force)
            _print_report(chosen, len(frame), out, as_json)
        elif as_json:
            typer.echo(chosen.to_json(orient="records", date_format="iso"))
        else:
            _print_rows(chosen, len(frame), what)


def _ask(
    fitted: Any, inputs: Any, frame: pd.DataFrame, what: str, number: int, options: dict[str, Any]
) -> pd.DataFrame:
    """Return the rows to ask for: their numbers, their scores and their columns."""
    from fpovi.acquisition import choose

    taken = [name for name in ADDED if name in frame.columns]
    if taken:
        raise TableError(f"has a column {taken[0]!r} already, which is added to the rows: rename it")
    found = choose(fitted, inputs, what, number, **options)
    beside = frame.iloc[found.rows].reset_index(drop=True)
    return pd.concat([pd.DataFrame({"row": found.rows, "score": found.scores}), beside], axis=1)


def _print_report(chosen: pd.DataFrame, rows: int, out: Path, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"rows": rows, "asked": len(chosen), "out": str(out), "columns": list(chosen)}))
    else:
        typer.echo(f"wrote {out}: {len(chosen)} of {rows} rows with {', '.join(ADDED)}")


def _print_rows(chosen: pd.DataFrame, rows: int, what: str) -> None:
    shown = list(chosen)[: len(ADDED) + SHOWN]
    view = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in shown:
        view.add_column(Text(str(name)), justify="right", overflow="fold")
    for _, row in chosen[shown].iterrows():
        view.add_row(*(Text(_short(value)) for value in row.tolist()))
    console = Console(highlight=False)
    console.print(view)
    hidden = len(chosen.columns) - len(shown)
    more = f"; {hidden} more columns with --out FILE" if hidden else ""
    console.print(f"{len(chosen)} of {rows} rows to ask for next, by {what}{more}", markup=False)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
