# SPDX-License-Identifier: Apache-2.0
"""``fpovi show``: print what is in a model file."""

import json
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from fpovi.cli.options import AsJson, ModelPath, one_line_errors
from fpovi.fitting.model_file import describe

MOST_COLUMNS = 30


def show(model: ModelPath, as_json: AsJson = False) -> None:
    """Say what is in a model file: task, columns, settings, networks, noise and versions."""
    with one_line_errors():
        facts = describe(model)
        if as_json:
            typer.echo(json.dumps(facts))
            return
        print_facts(
            {
                "model": f"{facts['file']} ({facts['bytes'] / 1000:.0f} kB)",
                "task": task_of(facts),
                "classes": None if facts["classes"] is None else ", ".join(map(str, facts["classes"])),
                "columns": _columns(facts["columns"]) if facts["shape"] is None else None,
                "rows": None if facts["shape"] is None else f"arrays of shape {_written(facts['shape'], ' × ')}",
                "networks": networks_of(facts),
                "steps": str(facts["steps"]),
                "noise": facts["noise"],
                "soundness": soundness_of(facts),
                "settings": _settings(facts["settings"]),
                "versions": ", ".join(f"{name} {number}" for name, number in facts["versions"].items()),
            }
        )


def task_of(facts: dict[str, Any]) -> str:
    """Return the task and target of a described model."""
    return facts["task"] if facts["target"] is None else f"{facts['task']} of {', '.join(facts['target'])}"


def networks_of(facts: dict[str, Any]) -> str:
    """Return how many networks a described model has, and how large they are."""
    if facts["network"] is None:
        return f"{facts['n_particles']} of your own; commands need to know where it is: --network module:name"
    return f"{facts['n_particles']} of {_written(facts['network'])} units"


def soundness_of(facts: dict[str, Any]) -> str:
    """Return what the diagnosis of a described model's fit found."""
    return "\n".join(facts["complaints"]) or "nothing to complain of"


def print_facts(facts: dict[str, Any]) -> None:
    """Print names and facts; leave out those that are None, write numbers short."""
    console = Console(highlight=False)
    width = max(map(len, facts)) + 2
    for name, fact in facts.items():
        if isinstance(fact, list):
            fact = ", ".join(f"{number:.4g}" for number in fact)
        if fact is not None:
            indented = fact.replace("\n", "\n" + " " * width)
            console.print(Text.assemble((name.ljust(width), "bold"), indented), soft_wrap=True)


def _columns(kinds: dict[str, str]) -> str:
    lines = [f"{name}: {kind}" for name, kind in list(kinds.items())[:MOST_COLUMNS]]
    return "\n".join(lines + [f"and {len(kinds) - MOST_COLUMNS} more"] * (len(kinds) > MOST_COLUMNS))


def _settings(settings: dict[str, Any]) -> str:
    return "\n".join(f"{name} {_written(value)}" for name, value in settings.items() if value is not None)


def _written(value: Any, between: str = "-") -> str:
    if isinstance(value, list) and any(isinstance(part, list) for part in value):  # the pairs of a dictionary
        return ", ".join(f"{key}: {each:g}" for key, each in value)
    return between.join(map(str, value)) if isinstance(value, list) else str(value)
