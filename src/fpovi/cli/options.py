# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share, functions that read their values, and the one line that refuses bad ones.

Typer's own ranges are not used: it refuses a value in a box of several lines, where commands answer with one.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from fpovi._lookup import MissingExtraError
from fpovi.persistence import FileError, check_writable

BAD_INPUT, INTERRUPTED = 2, 130  # what a process returns

ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="A model that `fpovi fit` wrote.", show_default=False)]
DataFile = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="A table: .csv, .tsv, .csv.gz or .parquet, with the names of its columns.",
        show_default=False,
    ),
]
RowsFile = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="A table: .csv, .tsv, .csv.gz or .parquet; or arrays: .npy with X, or .npz with X and, to evaluate, y.",
        show_default=False,
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Out = Annotated[Path, typer.Option("--out", help="Folder for the rows and the figure.")]
Names = Annotated[list[str] | None, typer.Option(help="Only these; may be given several times.")]
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


def _kept() -> str:
    return "what was finished is kept, run the same command to go on"


@contextmanager
def one_line_errors(when_stopped: Callable[[], str] = _kept) -> Iterator[None]:
    """Turn errors that a user can cause into one line on standard error; ``when_stopped()`` says what Ctrl-C left."""
    try:
        yield
    except BrokenPipeError:  # the reader of a pipe has seen enough: typer ends quietly
        raise
    except (ValueError, OSError, ArithmeticError, MissingExtraError) as error:
        say(str(error))
        raise typer.Exit(BAD_INPUT) from error
    except KeyboardInterrupt as error:
        say(f"stopped; {when_stopped()}")
        raise typer.Exit(INTERRUPTED) from error


@contextmanager
def about(what: object) -> Iterator[None]:
    """Put ``what`` at the beginning of the message of a ``ValueError``."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from error


def say(message: str) -> None:
    """Print one line on standard error."""
    typer.echo(f"fpovi: {' '.join(message.split())}", err=True)
