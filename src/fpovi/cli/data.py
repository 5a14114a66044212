# SPDX-License-Identifier: Apache-2.0
"""``fpovi data``: list the data sets of the experiments, fetch them, verify them."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from fpovi._lookup import lookup
from fpovi._progress import progress_bar
from fpovi.cli.options import AsJson, one_line_errors
from fpovi.datasets.catalogue import DATASETS, DataFile
from fpovi.datasets.folder import Condition, condition, data_folder, fetch

Folder = Annotated[
    Path | None, typer.Option("--data-dir", help="The folder; by default what FPOVI_DATA names, else the user's cache.")
]
Names = Annotated[
    list[str] | None, typer.Argument(metavar="[NAME]...", help="Data sets.", autocompletion=lambda: list(DATASETS))
]

app = typer.Typer(name="data", help="Data sets of the experiments: list, fetch, verify.", no_args_is_help=True)


@app.command(name="list")
def list_sets(data_dir: Folder = None, as_json: AsJson = False) -> None:
    """List all data sets, and which of them are in the folder; their content is not checked."""
    folder = data_folder(data_dir)
    there = {name: all((folder / file.path).is_file() for file in known.files) for name, known in DATASETS.items()}
    if as_json:
        records = [
            {
                "name": name,
                "about": known.about,
                "there": there[name],
                "files": {file.path: {"from": file.addresses, "sha256": file.sha256} for file in known.files},
            }
            for name, known in DATASETS.items()
        ]
        typer.echo(json.dumps({"folder": str(folder), "datasets": records}))
        return
    table = Table("name", "", "data", box=box.SIMPLE_HEAD, pad_edge=False)
    for name, known in DATASETS.items():
        table.add_row(name, "there" if there[name] else "", known.about)
    console = Console()
    console.print(table)
    console.print(f"folder: {folder}", highlight=False, soft_wrap=True)


@app.command(name="fetch")
def fetch_sets(
    names: Names = None,
    everything: Annotated[bool, typer.Option("--all", help="Every data set.")] = False,
    data_dir: Folder = None,
) -> None:
    """Download data sets from their public origins into the folder. What is there and right is left alone."""
    with one_line_errors(lambda: "files that were finished are kept, and no others"):
        if bool(names) == everything:
            raise ValueError("name data sets to fetch, or --all; `fpovi data list` shows them")
        chosen = {name: lookup(DATASETS, name, "NAME") for name in names or DATASETS}
        folder = data_folder(data_dir)
        for name, known in chosen.items():
            with progress_bar() as bar:
                task = bar.add_task(name, total=1, note="")

                def watch(file: DataFile, part: int, parts: int, done: int, total: int) -> None:
                    share = part + (done / total if total else 0)
                    bar.update(task, total=parts, completed=share, note=file.path)  # noqa: B023

                written = fetch(known, folder, watch)
            for path in written:
                typer.echo(f"wrote {path}")
            if not written:
                typer.echo(f"{name} is there already")


@app.command()
def verify(names: Names = None, data_dir: Folder = None, as_json: AsJson = False) -> None:
    """Compare files with the checksums of those we measured with; without names, all files that are there."""
    with one_line_errors():
        chosen = {name: lookup(DATASETS, name, "NAME") for name in names or DATASETS}
        folder = data_folder(data_dir)
        found = {file.path: condition(file, folder) for known in chosen.values() for file in known.files}
        if not names:
            found = {path: state for path, state in found.items() if state is not Condition.MISSING}
        if as_json:
            typer.echo(json.dumps({"folder": str(folder), "files": found}))
        else:
            for path, state in found.items():
                typer.echo(f"{state:13s} {path}")
        bad = [path for path, state in found.items() if state is not Condition.GOOD]
        if bad:
            raise ValueError(f"{len(bad)} of {len(found)} files in {folder} are not as they should be, {bad[0]} first")
        if not found:
            raise ValueError(f"{folder} holds none of the files we know: `fpovi data fetch` gets them")
