# SPDX-License-Identifier: Apache-2.0
"""``fpovi demo`` and ``fpovi reproduce``: run an experiment's missing cells, or some again to verify their rows."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fpovi._lookup import lookup
from fpovi.cli.options import AsJson, Names, Out, one_line_errors, one_of
from fpovi.cli.progress import CellProgress
from fpovi.datasets.uci import SPLIT_KINDS
from fpovi.experiments.harness.experiment import Options, silent
from fpovi.experiments.harness.store import Cell, Row, Store
from fpovi.experiments.harness.sweep import sweep
from fpovi.experiments.harness.verify import Verified, run_again, view_of_verified
from fpovi.experiments.harness.view import View, column_groups
from fpovi.experiments.harness.workers import BACKENDS
from fpovi.experiments.registry import EXPERIMENTS, run_cell
from fpovi.plots import save

Seed = Annotated[int | None, typer.Option("--seed", help="Of the data and all that follows; or of --verify's choice.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Run again what is there already.")]
VERIFY = "Run so many finished cells again and compare; 1 is returned if one differs."
MISMATCH = 1  # what the process returns


def demo(out: Out = Path("fpovi-demo"), seed: Seed = None, as_json: AsJson = False, fresh: Fresh = False) -> None:
    """See the point in a minute: a curve with a gap, function space against weight space, and the exact answer.

    The same as `fpovi reproduce synthetic --preset quick`. Finished methods are kept in the folder and not run twice.
    """
    reproduce("synthetic", "quick", out, seed, as_json=as_json, fresh=fresh)


def reproduce(
    experiment: Annotated[str, typer.Argument(help=f"Which experiment: {', '.join(EXPERIMENTS)}.")],
    preset: Annotated[
        str, typer.Option("--preset", help="Quick, paper, full or best; not every experiment has all.")
    ] = "quick",
    out: Out = Path("results"),
    seed: Seed = None,
    datasets: Names = None,
    splits: Annotated[int | None, typer.Option("--splits", help="How many splits.")] = None,
    methods: Names = None,
    split_kind: Annotated[str, one_of(SPLIT_KINDS, "How data sets are split")] = "standard",
    jobs: Annotated[int, typer.Option("--jobs", help="How many cells at once, each in a process of its own.")] = 1,
    backend: Annotated[str, one_of(BACKENDS, "Where these processes are, this machine or a Ray cluster")] = "loky",
    as_json: AsJson = False,
    fresh: Fresh = False,
    verify: Annotated[int | None, typer.Option("--verify", help=VERIFY)] = None,
) -> None:
    """Run an experiment, show its table and write its figure. What is finished is not run again.

    With --verify N nothing is written: N random cells that have a row run again, and each number is shown beside that
    of the row, with a tolerance. On the libraries, processor and number of cores that the row names this is one part in
    a million; elsewhere, where rounding differs and training amplifies it, 1.5 standard deviations over the rows of the
    same method on the same data. The command ends with 1 if a number is out of its tolerance.
    """
    with one_line_errors():
        if verify is not None and fresh:
            raise ValueError("--verify compares with rows and --fresh drops them: choose one")
        chosen = lookup(EXPERIMENTS, experiment, "experiment")
        own_seed = seed if verify is None else None
        cells = chosen.cells(Options(preset, own_seed, tuple(datasets or ()), splits, tuple(methods or ()), split_kind))
        store = Store(out / f"{cells[0].experiment}.jsonl")
        if fresh:
            store.drop(cells)
        with CellProgress(min(len(cells), verify or len(cells)), chosen.label, quiet=as_json) as progress:
            run = partial(run_cell, experiment, store, progress.step if jobs == 1 else silent)
            how: dict[str, Any] = {
                "on_row": progress.finished, "on_start": progress.started, "on_failure": progress.failed,
                "length": chosen.length, "jobs": jobs, "backend": backend,
            }  # fmt: skip
            if verify is not None:
                found = run_again(cells, run, store, verify, seed=seed or 0, tolerance=chosen.tolerance, **how)
            else:
                rows = sweep(cells, run, store, needs=chosen.needs, **how)
        if verify is not None:
            _show_verified(found, chosen.label, as_json)
        else:
            _show_rows(rows, experiment, store, out / f"{experiment}-{preset}-seed{cells[0].seed}", as_json)


def _show_rows(rows: Sequence[Row], experiment: str, store: Store, stem: Path, as_json: bool) -> None:
    """Show the table of an experiment and write its figure."""
    chosen = EXPERIMENTS[experiment]
    view = chosen.view(rows)
    figures = [] if chosen.figure is None else save(chosen.figure(rows), stem)
    if as_json:
        typer.echo(json.dumps({"table": view.records, "rows": [asdict(row.cell) for row in rows]}))
    else:
        show_view(view, [store.path, *figures])


def _show_verified(found: Sequence[Verified], label: Callable[[Cell], str], as_json: bool) -> None:
    """Show what agrees, and end with 1 if something does not."""
    view, agree = view_of_verified(found, label), all(one.agrees for one in found)
    if as_json:
        typer.echo(json.dumps({"agree": agree, "cells": view.records}))
    else:
        show_view(view, [])
    if not agree:
        raise typer.Exit(MISMATCH)


def show_view(view: View, paths: list[Path]) -> None:
    """Print a table, in several parts where the terminal is too narrow, and the paths of written files."""
    console = Console()
    console.print(view.title, style="bold")
    for line in view.explanation:
        console.print(line, highlight=False)
    for columns in column_groups(view, console.width):
        console.print(_table(view, columns))
    for note in view.notes:
        console.print(note, highlight=False)
    for path in paths:
        console.print(f"wrote {path}", highlight=False)


def _table(view: View, columns: list[int]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for i in columns:
        table.add_column(view.columns[i], justify="left" if i < view.keys else "right", no_wrap=True)
    for number, cells in enumerate(view.lines):
        table.add_row(*(_styled(cells[i]) for i in columns), style="bold" if number in view.bold else None)
    return table


def _styled(cell: str) -> Text:
    """Return text in bold where Markdown has two stars around it."""
    bold = cell.startswith("**") and cell.endswith("**")
    return Text(cell.strip("*") if bold else cell, style="bold" if bold else "")
