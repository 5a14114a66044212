# SPDX-License-Identifier: Apache-2.0
"""Bad input ends a command with one line and a non-zero exit, never a traceback."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

INTERRUPTED = 130


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn the errors a user can cause into one line on standard error."""
    try:
        yield
    except (ValueError, OSError, ArithmeticError) as error:
        typer.echo(f"fpovi: {error}", err=True)
        raise typer.Exit(2) from error
    except KeyboardInterrupt as error:
        typer.echo("fpovi: stopped; what was finished is kept, run the same command to go on", err=True)
        raise typer.Exit(INTERRUPTED) from error
