# SPDX-License-Identifier: Apache-2.0
"""Fitted estimators from files."""

import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fpovi.diagnostics import Diagnostics
from fpovi.estimators.base import PARTS, BaseBNN
from fpovi.estimators.classifier import BNNClassifier
from fpovi.estimators.regressor import BNNRegressor
from fpovi.estimators.writing import KEPT
from fpovi.fitting.phases import Dials, start
from fpovi.fitting.training import blank_history
from fpovi.networks import fan_in_scales
from fpovi.persistence import FileError, plain, read_file, restore_tree
from fpovi.tabular import Encoder
from fpovi.types import State, lookup

ESTIMATORS: dict[str, type[BaseBNN]] = {"BNNRegressor": BNNRegressor, "BNNClassifier": BNNClassifier}
MOST, MOST_LAYERS = 10**7, 1000  # what no model exceeds, so that a forged header costs nothing


def load(path: str | os.PathLike[str], **objects: Any) -> Any:
    """The model in a file, ready to predict; ``objects`` stand for parts that were given as objects and not by name.

    Nothing in the file is run. A file that is damaged, altered or of a newer fpovi gives a ``ValueError`` of one line.
    """
    header, arrays = read_file(path, kind="model")
    unknown = sorted(objects.keys() - set(PARTS))
    if unknown:
        raise ValueError(f"load takes parts by keyword, but {unknown[0]} is none of {', '.join(PARTS)}")
    try:
        return _restore(header, arrays, objects)
    except MissingObject:
        raise
    # whatever a forged header leads to, down to what JAX says of shapes that no array can have
    except Exception as error:
        reason = " ".join(str(error).split())
        raise FileError(f"{os.fspath(path)} is a model file, but not a sound one: {reason:.200}") from error


class MissingObject(ValueError):
    """A part of the model was an object, which a file cannot hold."""


def _restore(header: dict[str, Any], arrays: dict[str, np.ndarray], objects: dict[str, Any]) -> BaseBNN:
    settings = {name: _part(name, value, objects) for name, value in header["settings"].items()}
    model = lookup(ESTIMATORS, header["estimator"], "estimator")(**settings)
    model.parts_ = {name: _part(name, value, objects) for name, value in header["parts"].items()}
    n, steps, model.n_features_in_ = (_count(header[name], name) for name in ("n_particles", "steps", "n_features"))
    model.sizes_ = tuple(_count(size, "size of a layer") for size in header["sizes"])
    if not 2 <= len(model.sizes_) <= MOST_LAYERS:
        raise ValueError(f"it has {len(model.sizes_)} layers")
    model.encoder_ = Encoder.from_json(header["encoder"])
    if len(model.encoder_.features) != model.sizes_[0] or len(model.encoder_.learned) != model.n_features_in_:
        raise ValueError("its columns and its network do not fit together")
    if model.spec_.likelihood.classes != isinstance(model, BNNClassifier):
        raise ValueError(f"its likelihood is not one of a {type(model).__name__}")
    model._target_from_json(header["target"])
    if header["target_names"] is not None:
        model.target_names_ = plain.distinct_texts(header["target_names"], "target_names")
    model.diagnostics_ = Diagnostics.from_json(header["diagnostics"])
    if header["columns"] is not None:
        names = plain.distinct_texts(header["columns"], "columns")
        if len(names) != model.n_features_in_ or model.encoder_.names not in (None, names):
            raise ValueError("the names of its columns contradict each other")
        model.feature_names_in_ = np.asarray(names, object)
    dials = Dials(fan_in_scales(model.sizes_), jnp.asarray(0.01), jnp.asarray(1.0))
    key = jax.random.key(0)
    state = jax.eval_shape(lambda: start(model.spec_, n, dials, key))
    template = {
        "scales": jax.tree.map(np.asarray, dials.scales),
        "state": {name: getattr(state, name) for name in KEPT},
        "history": jax.eval_shape(lambda: blank_history(steps)),
    }
    found = restore_tree(template, {_present_name(name): array for name, array in arrays.items()})
    model.scales_ = found["scales"]
    model.state_ = State(jnp.asarray(steps), **found["state"], prior=(), optimiser=(), noise_optimiser=())
    model.history_ = found["history"]
    return model


# what arrays were called in files written before version 0.2, by the start of their names
FORMER_NAMES = {
    "['scales'].weight": "['scales'].weight_variance",
    "['scales'].bias": "['scales'].bias_variance",
    "['state']['model']": "['state']['network_state']",
}


def _present_name(name: str) -> str:
    for former, present in FORMER_NAMES.items():
        if name.startswith(former) and not name.startswith(present):
            return present + name.removeprefix(former)
    return name


def _count(value: Any, name: str) -> int:
    if type(value) is not int or not 1 <= value <= MOST:
        raise ValueError(f"its {name} is {value!r:.40}")
    return value


def _part(name: str, value: Any, objects: dict[str, Any]) -> Any:
    if name in objects:
        return objects[name]
    if isinstance(value, dict):
        if name in ("random_state", "verbose", "checkpoint"):  # nothing that predictions need
            return None
        raise MissingObject(f"the model's {name} was an object, which no file holds: give it, load(path, {name}=…)")
    return tuple(value) if isinstance(value, list) else value
