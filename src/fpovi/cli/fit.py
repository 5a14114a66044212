# SPDX-License-Identifier: Apache-2.0
"""``fpovi fit``: learn from a table and write a model file."""

import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from fpovi._lookup import lookup
from fpovi.cli.options import (
    AsJson,
    DataFile,
    Force,
    about,
    check_free,
    number_or_auto,
    one_line_errors,
    one_of,
    say,
    whole_numbers,
    whole_or,
)
from fpovi.cli.show import networks_of, print_facts, soundness_of, task_of
from fpovi.estimators import BNNClassifier, BNNRegressor
from fpovi.fitting.model_file import describe
from fpovi.fitting.parts import part_names
from fpovi.persistence import FileError
from fpovi.tabular.files import read_table
from fpovi.tabular.roles import TASKS, TableRoles, assign_roles

ESTIMATORS: dict[str, Any] = {"regression": BNNRegressor, "classification": BNNClassifier}
USUAL: Any = BNNRegressor()  # its settings are the defaults, those of the classifier too
HIDDEN = ",".join(map(str, USUAL.hidden_layer_sizes))
model_option = partial(typer.Option, rich_help_panel="The model")
training_option = partial(typer.Option, rich_help_panel="Training")


def _part(name: str, text: str) -> Any:
    """Make an option that takes one of the parts of a kind, such as a flow, by name."""
    return one_of(part_names(name), text, rich_help_panel="The model")


def fit(
    data: DataFile,
    target: Annotated[
        list[str],
        typer.Option(help="The column to predict; several times for several columns of numbers.", show_default=False),
    ],
    model: Annotated[Path, typer.Option(help="The file to write the model to.", show_default=False)],
    task: Annotated[str, one_of(TASKS, "What the target is; auto looks at its values")] = "auto",
    weight: Annotated[str | None, typer.Option(help="A column: a row of weight 2 counts like that row twice.")] = None,
    drop: Annotated[list[str] | None, typer.Option(help="A column to leave out; may be said several times.")] = None,
    force: Force = False,
    hidden: Annotated[str, model_option(help="Units of the hidden layers, with commas between.")] = HIDDEN,
    activation: Annotated[str, _part("activation", "Of hidden units")] = USUAL.activation,
    particles: Annotated[int, model_option(help="How many networks stand for the posterior.")] = USUAL.n_particles,
    likelihood: Annotated[
        str, _part("likelihood", "How targets scatter; auto is gaussian, or categorical for classes")
    ] = "auto",
    prior: Annotated[
        str, _part("prior", "Over functions; auto is nngp with scales that the evidence picks")
    ] = USUAL.prior,
    flow: Annotated[str, _part("flow", "How the networks move")] = USUAL.flow,
    space: Annotated[str, _part("space", "Where they are compared")] = USUAL.space,
    kernel: Annotated[str, _part("kernel", "By which they are compared; auto is a wide rbf")] = USUAL.kernel,
    measurement: Annotated[
        str, _part("measurement", "Inputs beside the data where functions are compared; auto is halo")
    ] = USUAL.measurement,
    max_categories: Annotated[
        int, model_option(help="Levels of a column of categories that are told apart.")
    ] = USUAL.max_categories,
    learning_rate: Annotated[str, training_option(help="Largest step size of Adam, or auto.")] = USUAL.learning_rate,
    batch_size: Annotated[
        str, training_option(help="Rows of a step; auto takes all where they are few.")
    ] = USUAL.batch_size,
    epochs: Annotated[str, training_option(help="Passes over the table; auto goes by its size.")] = USUAL.max_epochs,
    early_stopping: Annotated[
        bool,
        training_option(
            "--early-stopping", help="Hold rows out, stop when they are predicted no better, keep the best."
        ),
    ] = USUAL.early_stopping,
    validation_fraction: Annotated[
        float, training_option(help="Share of rows held out for early stopping.")
    ] = USUAL.validation_fraction,
    seed: Annotated[int, training_option(help="The same seed gives the same model, bit for bit.")] = 0,
    checkpoint: Annotated[
        Path | None,
        training_option(help="Where progress is kept until the model is written.", show_default="MODEL.checkpoint"),
    ] = None,
    devices: Annotated[
        str | None,
        training_option(
            help="How many devices share the networks, a number that divides --particles, or all that JAX sees.",
            show_default="not shared",
        ),
    ] = USUAL.devices,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress and no summary.")] = False,
) -> None:
    """Learn to predict a column of a table, and write the model to a file.

    Numbers, categories, dates and missing values are all understood. A fit that was stopped, by Ctrl-C or a power cut,
    goes on where it was when the same command is run again.
    """
    checkpoint = checkpoint or model.with_name(model.name + ".checkpoint")
    settings: dict[str, Any] = {
        "activation": activation,
        "flow": flow,
        "space": space,
        "kernel": kernel,
        "prior": prior,
        "measurement": measurement,
        "likelihood": likelihood,
        "max_categories": max_categories,
        "early_stopping": early_stopping,
        "random_state": seed,
    }
    with one_line_errors(lambda: _progress_kept(checkpoint)):
        lookup(TASKS, task, "task")
        settings |= {
            "hidden_layer_sizes": whole_numbers(hidden, "--hidden"),
            "learning_rate": number_or_auto(learning_rate, "--learning-rate"),
            "batch_size": whole_or("auto", batch_size, "--batch-size"),
            "max_epochs": whole_or("auto", epochs, "--epochs"),
            "devices": None if devices is None else whole_or("all", devices, "--devices"),
            "n_particles": _positive(particles, "--particles"),
            "validation_fraction": _fraction(validation_fraction, "--validation-fraction"),
        }
        check_free(model, force)
        check_free(checkpoint, force=True)
        frame = read_table(data)
        with about(data):
            roles = assign_roles(frame, target, weight=weight, drop=drop or [], task=task)
        if not quiet:
            _announce(data, roles, target, task)
        verbose = not (quiet or as_json)
        began = time.monotonic()
        fitted = ESTIMATORS[roles.task](**settings, verbose=verbose, checkpoint=checkpoint)
        fitted.fit(roles.inputs, roles.target, roles.weight)
        _save(fitted, target, model, checkpoint, force)
        facts = {"rows": len(frame), "seconds": time.monotonic() - began, **describe(model)}
        if as_json:
            typer.echo(json.dumps(facts))
        elif not quiet:
            _print_summary(facts)


def _positive(number: int, option: str) -> int:
    if number < 1:
        raise ValueError(f"{option} {number}: must be at least 1")
    return number


def _fraction(number: float, option: str) -> float:
    if not 0 < number < 1:
        raise ValueError(f"{option} {number}: must lie strictly between 0 and 1")
    return number


def _announce(data: Path, roles: TableRoles, target: list[str], task: str) -> None:
    for note in roles.notes:
        say(f"note: {note}")
    if sys.stderr.isatty():
        rows, columns = roles.inputs.shape
        why = "" if task != "auto" else ", by its values"
        say(f"{data}: {rows} rows, {columns} columns; {roles.task} of {', '.join(target)}{why}")


def _save(fitted: Any, target: list[str], model: Path, checkpoint: Path, force: bool) -> None:
    """Write the model, then remove the checkpoint, so that one of them exists at any time."""
    fitted.target_names_ = target
    fitted.set_params(verbose=False, checkpoint=None)  # of this run, not of the model
    try:
        fitted.save(model, force=force)
    except FileError as error:
        kept = f"; the fit is kept in {checkpoint}: mend this and run the same command" if checkpoint.exists() else ""
        raise FileError(f"{error}{kept}") from error
    checkpoint.unlink(missing_ok=True)


def _progress_kept(checkpoint: Path) -> str:
    if not checkpoint.exists():
        return "nothing was written"
    return f"progress is kept in {checkpoint}: run the same command to go on from there"


def _print_summary(facts: dict[str, Any]) -> None:
    kinds = list(facts["columns"].values())
    used = ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds)))
    print_facts(
        {
            "task": task_of(facts),
            "learned from": f"{facts['rows']} rows, {len(kinds)} columns ({used})",
            "noise": facts["noise"],
            "networks": f"{networks_of(facts)}, {facts['steps']} steps",
            "soundness": soundness_of(facts),
            "time": f"{facts['seconds']:.1f} s",
            "model": f"{facts['file']} ({facts['bytes'] / 1000:.0f} kB)",
        }
    )
