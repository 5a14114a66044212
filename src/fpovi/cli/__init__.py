# SPDX-License-Identifier: Apache-2.0
"""The ``fpovi`` command: parse, call, print."""

from importlib.metadata import version
from typing import Annotated

import typer

from fpovi.cli.bench import bench
from fpovi.cli.evaluate import evaluate
from fpovi.cli.fit import fit
from fpovi.cli.predict import predict
from fpovi.cli.reproduce import demo, reproduce
from fpovi.cli.show import show

app = typer.Typer(
    name="fpovi",
    help="Bayesian neural networks whose particles are functions.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (fit, predict, evaluate, show, demo, reproduce, bench):
    app.command()(command)


def _print_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"fpovi {version('fpovi')}")
        raise typer.Exit
    return wanted


@app.callback()
def main(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Bayesian neural networks whose particles are functions."""
