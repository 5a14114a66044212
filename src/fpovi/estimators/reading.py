# SPDX-License-Identifier: Apache-2.0
"""Fitted estimators from files."""

import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fpovi.diagnostics import Diagnostics
from fpovi.estimators.base import BaseBNN
from fpovi.estimators.classifier import BNNClassifier
from fpovi.estimators.regressor import BNNRegressor
from fpovi.estimators.training import blank_history
from fpovi.estimators.wiring import Dials, start
from fpovi.estimators.writing import KEPT
from fpovi.networks import fan_in_scales
from fpovi.persistence import FileError, read_file, restore_tree
from fpovi.preprocessing import Encoder, plain
from fpovi.types import State, lookup

ESTIMATORS: dict[str, type[BaseBNN]] = {"BNNRegressor": BNNRegressor, "BNNClassifier": BNNClassifier}


def load(path: str | os.PathLike[str], **objects: Any) -> Any:
    """The model in a file, ready to predict; ``objects`` stand for parts that were given as objects and not by name.

    Nothing in the file is run. A file that is damaged, altered or of a newer fpovi gives a ``ValueError`` of one line.
    """
    header, arrays = read_file(path, kind="model")
    try:
        return _restore(header, arrays, objects)
    except (KeyError, TypeError, AttributeError, OverflowError, ValueError) as error:
        if isinstance(error, MissingObject):
            raise
        raise FileError(f"{os.fspath(path)} is a model file, but not a sound one: {error}") from error


class MissingObject(ValueError):
    """A part of the model was an object, which a file cannot hold."""


def _restore(header: dict[str, Any], arrays: dict[str, np.ndarray], objects: dict[str, Any]) -> BaseBNN:
    settings = {name: _part(name, value, objects) for name, value in header["settings"].items()}
    model = lookup(ESTIMATORS, header["estimator"], "estimator")(**settings)
    model.parts_ = {name: _part(name, value, objects) for name, value in header["parts"].items()}
    model.sizes_ = tuple(int(size) for size in header["sizes"])
    if min(model.sizes_) < 1 or max(model.sizes_) > 10**7 or not 1 <= header["n_particles"] <= 10**6:
        raise ValueError("its sizes make no network")
    model.encoder_ = Encoder.from_json(header["encoder"])
    if len(model.encoder_.features) != model.sizes_[0]:
        raise ValueError("its columns and its network do not fit together")
    model._target_from_json(header["target"])
    if header["target_names"] is not None:
        model.target_names_ = plain.distinct_texts(header["target_names"], "target_names")
    model.diagnostics_ = Diagnostics.from_json(header["diagnostics"])
    model.n_features_in_ = int(header["n_features"])
    if header["columns"] is not None:
        model.feature_names_in_ = np.asarray(header["columns"], object)
    dials = Dials(fan_in_scales(model.sizes_), jnp.asarray(0.01), jnp.asarray(1.0))
    key = jax.random.key(0)
    state = jax.eval_shape(lambda: start(model.spec_, int(header["n_particles"]), dials, key))
    steps = int(header["steps"])
    template = {
        "scales": jax.tree.map(np.asarray, dials.scales),
        "state": {name: getattr(state, name) for name in KEPT},
        "history": blank_history(steps),
    }
    found = restore_tree(template, arrays)
    model.scales_ = found["scales"]
    model.state_ = State(jnp.asarray(steps), **found["state"], prior=(), optimiser=(), noise_optimiser=())
    model.history_ = found["history"]
    return model


def _part(name: str, value: Any, objects: dict[str, Any]) -> Any:
    if name in objects:
        return objects[name]
    if isinstance(value, dict):
        if name in ("random_state", "verbose", "checkpoint"):  # nothing that predictions need
            return None
        raise MissingObject(f"the model's {name} was an object, which no file holds: give it, load(path, {name}=…)")
    return tuple(value) if isinstance(value, list) else value
