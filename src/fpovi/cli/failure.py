# SPDX-License-Identifier: Apache-2.0
"""End a command that got bad input with one line and a non-zero exit, never a traceback."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from fpovi._lookup import MissingExtraError

BAD_INPUT, INTERRUPTED = 2, 130


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
