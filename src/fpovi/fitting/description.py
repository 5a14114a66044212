# SPDX-License-Identifier: Apache-2.0
"""What a model file says of itself."""

import os
from typing import Any

import numpy as np

from fpovi.diagnostics import Diagnostics
from fpovi.persistence import FileError, read_file, read_versions
from fpovi.tabular import Encoder

TASKS = {"BNNRegressor": "regression", "BNNClassifier": "classification"}


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Task, target, columns, network, settings and origin of the model in a file, in plain JSON types.

    ``noise`` is the standard deviation, or the scale, of what the model takes for noise in each target's own units;
    None where noise differs from row to row or targets are whole numbers. ``complaints`` are what the diagnosis of the
    fit found wrong. Parts that were objects are named only.
    """
    header, arrays = read_file(path, kind="model")
    try:
        return {
            "file": os.fspath(path),
            "bytes": os.path.getsize(path),
            **_told(header),
            "noise": _noise(header, arrays["['history'].noise"]),
            "complaints": _complaints(header["diagnostics"]),
            "settings": {name: _named(value) for name, value in header["settings"].items()},
            "versions": read_versions(path, kind="model"),
        }
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise FileError(f"{os.fspath(path)} is a model file, but not a sound one: {error}") from error


def _told(header: dict[str, Any]) -> dict[str, Any]:
    columns = Encoder.from_json(header["encoder"]).columns
    names = columns.names or [f"column {i}" for i in range(len(columns.kinds))]
    return {
        "task": TASKS[header["estimator"]],
        "target": header["target_names"],
        "classes": header["target"].get("classes"),
        "columns": dict(zip(names, columns.kinds, strict=True)),
        "network": header["sizes"],
        "n_particles": header["n_particles"],
        "steps": header["steps"],
    }


def _noise(header: dict[str, Any], history: np.ndarray) -> list[float] | None:
    if "scale" not in header["target"] or not history[-1] > 0:
        return None
    return [float(history[-1]) * scale for scale in header["target"]["scale"]]


def _complaints(diagnostics: Any) -> list[str]:
    """What the fit itself found wrong, and what to turn."""
    found = Diagnostics.from_json(diagnostics).complaints
    return [f"{one.verdict}; try {one.remedy}" if one.remedy else one.verdict for one in found]


def _named(value: Any) -> Any:
    """A setting, or in the place of an object the name of its type."""
    return next(iter(value.values())) if isinstance(value, dict) else value
