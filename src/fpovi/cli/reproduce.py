# SPDX-License-Identifier: Apache-2.0
"""``fpovi demo`` and ``fpovi reproduce``: run an experiment's missing cells, then show its table and figure."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from fpovi.cli.failure import one_line_errors
from fpovi.cli.progress import CellProgress
from fpovi.experiments import synthetic, synthetic_figure
from fpovi.experiments.store import Cell, Row, Store, sweep
from fpovi.plots import save
from fpovi.types import lookup

EXPERIMENTS = {"synthetic": synthetic}

Out = Annotated[Path, typer.Option("--out", help="Folder for the rows and the figure.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the table as JSON.")]
Seed = Annotated[int, typer.Option("--seed", help="Draws the data, and everything random after it.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Run again what is there already.")]


def demo(out: Out = Path("fpovi-demo"), seed: Seed = 3, as_json: AsJson = False, fresh: Fresh = False) -> None:
    """See the point in a minute: a curve with a gap, function space against weight space, and the exact answer.

    The same as `fpovi reproduce synthetic --preset quick`. Finished methods are kept in the folder and not run twice.
    """
    reproduce("synthetic", "quick", out, seed, as_json, fresh)


def reproduce(
    experiment: Annotated[str, typer.Argument(help="Which experiment: synthetic.")],
    preset: Annotated[str, typer.Option("--preset", help="How thorough: quick.")] = "quick",
    out: Out = Path("results"),
    seed: Seed = 3,
    as_json: AsJson = False,
    fresh: Fresh = False,
) -> None:
    """Run an experiment of the paper, show its table and write its figure. What is finished is not run again."""
    with one_line_errors():
        lookup(EXPERIMENTS, experiment, "experiment")
        cells = synthetic.cells(preset, seed)
        store = Store(out / f"{experiment}.jsonl")
        if fresh:
            store.drop(cells)
        with CellProgress(len(cells), quiet=as_json) as progress:
            rows = sweep(cells, lambda cell: _run(cell, store, progress), store, progress.finished)
        paths = save(synthetic_figure.figure(rows), out / f"{experiment}-seed{seed}")
        if as_json:
            typer.echo(json.dumps({"table": synthetic_figure.table(rows), "rows": [asdict(row.cell) for row in rows]}))
        else:
            _show(rows, [store.path, *paths])


def _run(cell: Cell, store: Store, progress: CellProgress) -> dict[str, Any]:
    progress.started(synthetic.LABELS[cell.method])
    reference = next((row for row in store.rows() if row.cell == synthetic.reference_of(cell)), None)
    return synthetic.run_cell(cell, reference, progress.step)


def _show(rows: list[Row], paths: list[Path]) -> None:
    console = Console()
    console.print("How far from the exact posterior?", style="bold")
    console.print("W2: 2-Wasserstein distance to NUTS per grid point, averaged, in standardised y", highlight=False)
    console.print("spread: standard deviation of f over that of NUTS (data/gap/outside)", highlight=False)
    regions = [region for region in synthetic.REGIONS if region != "all"]
    view = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    view.add_column("method", no_wrap=True)
    for name in ("W2", *regions, "spread", "s"):
        view.add_column(name, justify="right", no_wrap=True)
    best = min(row.metrics["w2"]["all"] for row in rows if row.cell.method in synthetic.ALGORITHMS)
    for line in synthetic_figure.table(rows):
        distances = [_short(line[f"w2_{region}"], 3) for region in synthetic.REGIONS]
        spread = "/".join(_short(line[f"spread_{region}"], 2) for region in regions)
        style = "bold" if line["w2_all"] == best else None
        view.add_row(line["method"], *distances, spread, f"{line['seconds']:.0f}", style=style)
    console.print(view)
    nuts = rows[0].metrics
    console.print(
        f"NUTS: 4 chains, R̂ ≤ {nuts['rhat']:.3f}, at least {nuts['ess']:.0f} effective draws", highlight=False
    )
    for path in paths:
        console.print(f"wrote {path}", highlight=False)


def _short(value: float, digits: int) -> str:
    """0.057 as .057: a column of them reads faster."""
    return f"{value:.{digits}f}".removeprefix("0")
