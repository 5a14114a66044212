# SPDX-License-Identifier: Apache-2.0
"""The ``fpovi`` command: parse arguments, call the library, print what it returns."""

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from fpovi._fast.compile_cache import keep_programs

# name -> (module, help). A module is imported when its command is called, as one that reads tables and fits models
# takes seconds to import.
COMMANDS = {
    "fit": ("fit", "Learn to predict a column of a table, and write the model to a file."),
    "predict": (
        "predict",
        "Predict the rows of a table: its columns, and beside them predictions and how sure they are.",
    ),
    "evaluate": ("evaluate", "Score a model on rows it has not seen: errors, and whether its uncertainty comes true."),
    "show": ("show", "Say what is in a model file: task, columns, settings, networks, noise and versions."),
    "ask": (
        "ask",
        "Rank the rows of a table by what there is to gain from their targets, and name those to ask for next.",
    ),
    "demo": (
        "reproduce",
        "See the point in a minute: a curve with a gap, function space against weight space, and the exact answer.",
    ),
    "reproduce": (
        "reproduce",
        "Run an experiment, show its table and write its figure. What is finished is not run again.",
    ),
    "bench": ("bench", "Time a step against a plain ensemble, the bare pass, the matmul peak and other libraries."),
    "data": ("data", "Data sets of the experiments: list, fetch, verify."),
}


class Commands(TyperGroup):
    """A group of commands that imports the module of a command when it is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name of the command that ``args`` begin with, the command, and its own arguments."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, _load(str(name)), rest


app = typer.Typer(
    name="fpovi",
    cls=Commands,
    help="Bayesian neural networks whose particles are functions.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for name, (_, summary) in COMMANDS.items():
    app.command(name, help=summary)(lambda: None)


def _load(name: str) -> Any:
    module = import_module(f"fpovi.cli.{COMMANDS[name][0]}")
    if hasattr(module, "app"):  # has commands of its own
        return get_command(module.app)
    alone = typer.Typer(add_completion=False)
    alone.command(name)(getattr(module, name))
    return get_command(alone)


def _print_version(wanted: bool) -> bool:
    if wanted:
        from importlib.metadata import version

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


def entry() -> None:
    """Run the ``fpovi`` command."""
    keep_programs()
    app()
