# SPDX-License-Identifier: Apache-2.0
"""Fitted estimators to files: settings, what was learned of the table, and the particles."""

import os
from typing import Any

import jax
import numpy as np

from fpovi.persistence import flatten_tree, write_file

OBJECT = "(an object)"  # in the place of a part that has no name
KEPT = ("particles", "params", "network_state")  # of a state: all that predictions need


def write_model(model: Any, path: str | os.PathLike[str], force: bool = True) -> None:
    """Write a fitted model to one file: settings, what was learned of the table, and the particles; not the data.

    ``target_names_``, where the caller has set it, is kept.
    """
    settings = {name: value for name, value in model.get_params(deep=False).items() if name != "devices"}
    header = {
        "estimator": type(model).__name__,
        "settings": {name: _plain(value) for name, value in settings.items()},
        "parts": {name: _plain(value) for name, value in model.parts_.items()},
        "sizes": list(model.sizes_),
        "n_particles": int(jax.tree.leaves(model.state_.particles)[0].shape[0]),
        "steps": len(model.history_.noise),
        "encoder": model.encoder_.to_json(),
        "target": model._target_to_json(),
        "target_names": list(model.target_names_) if hasattr(model, "target_names_") else None,
        "columns": None if not hasattr(model, "feature_names_in_") else list(map(str, model.feature_names_in_)),
        "diagnostics": model.diagnostics_.to_json(),
        "n_features": int(model.n_features_in_),
    }
    write_file(path, header, flatten_tree(_arrays(model)), kind="model", force=force)


def _arrays(model: Any) -> dict[str, Any]:
    kept = {name: getattr(model.state_, name) for name in KEPT}
    return {"scales": model.scales_, "state": kept, "history": model.history_}


def _plain(value: Any) -> Any:
    """A setting in JSON types; what has no such form is named only."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, np.integer | np.floating):
        return value.item()
    if isinstance(value, tuple | list | np.ndarray) and all(isinstance(item, int | np.integer) for item in value):
        return [int(item) for item in value]
    return value if value is None or isinstance(value, str | bool | int | float) else {OBJECT: type(value).__name__}
