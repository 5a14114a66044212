# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share, and functions that read their values.

Typer's own ranges are not used: it refuses a value in a box of several lines, where commands answer with one.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from fpovi.persistence import FileError, check_writable

ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A model that `fpovi fit` wrote.", show_default=False)]
DataFile = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="A table: .csv, .tsv, .csv.gz or .parquet, with the names of its columns.",
        show_default=False,
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Unknown = Annotated[
    str,
    typer.Option(
        help="A category that was not in the training table: error, or missing to take it for a missing value.",
        autocompletion=lambda: ["error", "missing"],
    ),
]


def one_of(names: Iterable[str], text: str, **options: Any) -> Any:
    """Make an option that takes one of ``names``; help and completion list them, the called function checks them."""
    known = sorted(set(names), key=lambda name: (name != "auto", name))
    return typer.Option(help=f"{text}: {', '.join(known)}.", autocompletion=lambda: known, **options)


def whole_or(word: str, text: str, option: str) -> int | str:
    """Read a positive whole number, or a word such as "auto"."""
    if text == word:
        return text
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{option} {text}: must be a positive whole number, or {word}")
    return int(text)


def number_or_auto(text: str, option: str) -> float | str:
    """Read a positive number, or "auto"."""
    if text == "auto":
        return text
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 < number < float("inf"):
        raise ValueError(f"{option} {text}: must be a positive number, or auto")
    return number


def whole_numbers(text: str, option: str) -> tuple[int, ...]:
    """Read positive whole numbers with commas between."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) >= 1 for part in parts):
        raise ValueError(f"{option} {text}: must be positive whole numbers with commas between, such as 50,50")
    return tuple(map(int, parts))


def check_free(path: Path, force: bool) -> None:
    """Raise a ``FileError`` unless a file may be written to ``path``: called before any work is done."""
    check_writable(path)
    if os.path.lexists(path) and not force:
        raise FileError(f"{path} exists already: choose another name, or --force to replace it")
