# SPDX-License-Identifier: Apache-2.0
"""``fpovi demo`` and ``fpovi reproduce``: run an experiment's missing cells, then show its table and figure."""

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fpovi.cli.failure import one_line_errors
from fpovi.cli.options import one_of
from fpovi.cli.progress import CellProgress
from fpovi.datasets.splits import SPLIT_KINDS
from fpovi.experiments.harness.experiment import Options, silent
from fpovi.experiments.harness.store import Store
from fpovi.experiments.harness.sweep import sweep
from fpovi.experiments.harness.view import View, parts
from fpovi.experiments.harness.workers import BACKENDS
from fpovi.experiments.registry import EXPERIMENTS, run_cell
from fpovi.plots import save
from fpovi.types import lookup

Out = Annotated[Path, typer.Option("--out", help="Folder for the rows and the figure.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the table as JSON.")]
Seed = Annotated[int | None, typer.Option("--seed", help="Draws the data, and everything random after it.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Run again what is there already.")]
Names = Annotated[list[str] | None, typer.Option(help="Only these; may be given several times.")]


def demo(out: Out = Path("fpovi-demo"), seed: Seed = None, as_json: AsJson = False, fresh: Fresh = False) -> None:
    """See the point in a minute: a curve with a gap, function space against weight space, and the exact answer.

    The same as `fpovi reproduce synthetic --preset quick`. Finished methods are kept in the folder and not run twice.
    """
    reproduce("synthetic", "quick", out, seed, as_json=as_json, fresh=fresh)


def reproduce(
    experiment: Annotated[str, typer.Argument(help=f"Which experiment: {', '.join(EXPERIMENTS)}.")],
    preset: Annotated[str, typer.Option("--preset", help="Quick, paper, full or best, as there are.")] = "quick",
    out: Out = Path("results"),
    seed: Seed = None,
    datasets: Names = None,
    splits: Annotated[int | None, typer.Option("--splits", help="How many splits.")] = None,
    methods: Names = None,
    split_kind: Annotated[str, one_of(SPLIT_KINDS, "How data sets are split")] = "standard",
    jobs: Annotated[int, typer.Option("--jobs", help="How many cells at once, each in a process on its own core.")] = 1,
    backend: Annotated[str, one_of(BACKENDS, "Where these processes are, this machine or a Ray cluster")] = "loky",
    as_json: AsJson = False,
    fresh: Fresh = False,
) -> None:
    """Run an experiment, show its table and write its figure. What is finished is not run again."""
    with one_line_errors():
        chosen = lookup(EXPERIMENTS, experiment, "experiment")
        cells = chosen.cells(Options(preset, seed, tuple(datasets or ()), splits, tuple(methods or ()), split_kind))
        store = Store(out / f"{cells[0].experiment}.jsonl")
        if fresh:
            store.drop(cells)
        with CellProgress(len(cells), chosen.label, quiet=as_json) as progress:
            run = partial(run_cell, experiment, store, progress.step if jobs == 1 else silent)
            rows = sweep(
                cells, run, store, progress.finished, on_start=progress.started, on_failure=progress.failed,
                needs=chosen.needs, length=chosen.length, jobs=jobs, backend=backend,
            )  # fmt: skip
        view = chosen.view(rows)
        stem = out / f"{experiment}-{preset}-seed{cells[0].seed}"
        figures = [] if chosen.figure is None else save(chosen.figure(rows), stem)
        if as_json:
            typer.echo(json.dumps({"table": view.records, "rows": [asdict(row.cell) for row in rows]}))
        else:
            show_view(view, [store.path, *figures])


def show_view(view: View, paths: list[Path]) -> None:
    """A table on the terminal, in several parts where it is too wide, and what was written."""
    console = Console()
    console.print(view.title, style="bold")
    for line in view.explanation:
        console.print(line, highlight=False)
    for columns in parts(view, console.width):
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
    """Bold where Markdown would be."""
    bold = cell.startswith("**") and cell.endswith("**")
    return Text(cell.strip("*") if bold else cell, style="bold" if bold else "")
