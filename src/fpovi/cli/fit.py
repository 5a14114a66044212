# SPDX-License-Identifier: Apache-2.0
"""``fpovi fit``: learn from a table and write a model file."""

import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from fpovi._lookup import lookup
from fpovi.cli.failure import about, one_line_errors, say
from fpovi.cli.options import (
    AsJson,
    DataFile,
    Force,
    check_free,
    number_or_auto,
    one_of,
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
DEFAULTS: dict[str, Any] = BNNRegressor().get_params()  # those of the classifier too
MODEL_PANEL, TRAINING_PANEL = "The model", "Training"


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
    hidden: Annotated[
        str, typer.Option(help="Units of the hidden layers, with commas between.", rich_help_panel=MODEL_PANEL)
    ] = ",".join(map(str, DEFAULTS["hidden_layer_sizes"])),
    activation: Annotated[
        str, one_of(part_names("activation"), "Of hidden units", rich_help_panel=MODEL_PANEL)
    ] = DEFAULTS["activation"],
    particles: Annotated[
        int, typer.Option(help="How many networks stand for the posterior.", rich_help_panel=MODEL_PANEL)
    ] = DEFAULTS["n_particles"],
    likelihood: Annotated[
        str,
        one_of(
            part_names("likelihood"),
            "How targets scatter; auto is gaussian, or categorical for classes",
            rich_help_panel=MODEL_PANEL,
        ),
    ] = "auto",
    prior: Annotated[
        str,
        one_of(
            part_names("prior"),
            "Over functions; auto is nngp with scales that the evidence picks",
            rich_help_panel=MODEL_PANEL,
        ),
    ] = DEFAULTS["prior"],
    flow: Annotated[str, one_of(part_names("flow"), "How the networks move", rich_help_panel=MODEL_PANEL)] = DEFAULTS[
        "flow"
    ],
    space: Annotated[
        str, one_of(part_names("space"), "Where they are compared", rich_help_panel=MODEL_PANEL)
    ] = DEFAULTS["space"],
    kernel: Annotated[
        str, one_of(part_names("kernel"), "By which they are compared; auto is a wide rbf", rich_help_panel=MODEL_PANEL)
    ] = DEFAULTS["kernel"],
    measurement: Annotated[
        str,
        one_of(
            part_names("measurement"),
            "Inputs beside the data where functions are compared; auto is halo",
            rich_help_panel=MODEL_PANEL,
        ),
    ] = DEFAULTS["measurement"],
    max_categories: Annotated[
        int, typer.Option(help="Levels of a column of categories that are told apart.", rich_help_panel=MODEL_PANEL)
    ] = DEFAULTS["max_categories"],
    learning_rate: Annotated[
        str, typer.Option(help="Largest step size of Adam, or auto.", rich_help_panel=TRAINING_PANEL)
    ] = DEFAULTS["learning_rate"],
    batch_size: Annotated[
        str, typer.Option(help="Rows of a step; auto takes all where they are few.", rich_help_panel=TRAINING_PANEL)
    ] = DEFAULTS["batch_size"],
    epochs: Annotated[
        str, typer.Option(help="Passes over the table; auto goes by its size.", rich_help_panel=TRAINING_PANEL)
    ] = DEFAULTS["max_epochs"],
    early_stopping: Annotated[
        bool,
        typer.Option(
            "--early-stopping",
            help="Hold rows out, stop when they are predicted no better, keep the best.",
            rich_help_panel=TRAINING_PANEL,
        ),
    ] = DEFAULTS["early_stopping"],
    validation_fraction: Annotated[
        float, typer.Option(help="Share of rows held out for early stopping.", rich_help_panel=TRAINING_PANEL)
    ] = DEFAULTS["validation_fraction"],
    seed: Annotated[
        int, typer.Option(help="The same seed gives the same model, bit for bit.", rich_help_panel=TRAINING_PANEL)
    ] = 0,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Where progress is kept until the model is written.",
            show_default="MODEL.checkpoint",
            rich_help_panel=TRAINING_PANEL,
        ),
    ] = None,
    devices: Annotated[
        str | None,
        typer.Option(
            help="How many devices share the networks, a number that divides --particles, or all that JAX sees.",
            show_default="not shared",
            rich_help_panel=TRAINING_PANEL,
        ),
    ] = DEFAULTS["devices"],
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
