# SPDX-License-Identifier: Apache-2.0
"""Open model files, with the user's own network where a model has one."""

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from fpovi.estimators import load
from fpovi.fitting.model_file import MissingObject

OwnNetwork = Annotated[
    str | None,
    typer.Option(
        "--network",
        metavar="MODULE:NAME",
        help="Where your own network is, if the model was fitted with one: it is imported, from this folder too.",
        show_default=False,
    ),
]


def open_model(path: Path, network: str | None) -> Any:
    """Return the model in a file.

    Args:
        path: the file. Nothing in it is run.
        network: ``module:name`` of the network that it was fitted with, if that is the user's own.
    """
    if network is not None:
        return load(path, network=import_network(network))
    try:
        return load(path)
    except MissingObject as error:
        if error.part == "network":
            raise ValueError(
                f"{path}: the model's network is one of your own, which no file holds: give --network module:name"
            ) from error
        raise ValueError(f"{path}: {error}") from error


def import_network(place: str) -> Any:
    """Return what is called ``name`` in ``module``, from ``"module:name"``; modules may lie in the current folder."""
    module, colon, name = place.partition(":")
    if not (colon and module and name):
        raise ValueError(f"--network {place}: must be module:name, such as nets:make for make in nets.py")
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found = import_module(module)
    except Exception as error:  # whatever the user's module does
        raise ValueError(f"--network {place}: cannot be imported: {type(error).__name__}: {error}") from error
    if not hasattr(found, name):
        raise ValueError(f"--network {place}: {module} has no {name}")
    return getattr(found, name)
