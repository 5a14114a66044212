# SPDX-License-Identifier: Apache-2.0
"""Fitted models in files: settings, what was learned of the table, and the particles; not the data, and no code."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fpovi._lookup import lookup
from fpovi.diagnostics import Diagnostics
from fpovi.fitting.fit import phase_settings
from fpovi.fitting.parts import STAND_INS, MissingPart, make_spec_to_predict
from fpovi.fitting.phases import start
from fpovi.fitting.record import KEPT, Fitted
from fpovi.fitting.training import blank_history
from fpovi.networks import fan_in_scales
from fpovi.persistence import FileError, flatten_tree, plain, read_file, read_versions, restore_tree, write_file
from fpovi.tabular import ArrayEncoder, Encoder
from fpovi.tabular.target import ClassTarget, RealTarget, Target
from fpovi.types import State, Support

PARTS = ("activation", "network", "space", "flow", "kernel", "prior", "measurement", "likelihood")
TARGETS: dict[str, type[RealTarget] | type[ClassTarget]] = {kind.estimator: kind for kind in (RealTarget, ClassTarget)}
TASKS = {"BNNRegressor": "regression", "BNNClassifier": "classification"}
OBJECT = "(an object)"  # in the place of a part that has no name
PAIRS = "(a dictionary)"  # beside the pairs of a setting that is one
MOST, MOST_LAYERS = 10**7, 1000  # what no model exceeds, so that a forged header costs nothing
# what arrays were called in files written before version 0.2, by the start of their names
FORMER_NAMES = {
    "['scales'].weight": "['scales'].weight_variance",
    "['scales'].bias": "['scales'].bias_variance",
    "['state']['model']": "['state']['network_state']",
}


@dataclass(frozen=True)
class ModelFile:
    """What a file holds: the fitted record, and what an estimator remembers beside it."""

    fitted: Fitted
    estimator: str
    settings: Mapping[str, Any]
    n_features: int
    columns: Sequence[str] | None
    target_names: Sequence[str] | None


class MissingObject(ValueError):
    """A part that predictions need was an object, which a file cannot hold; ``part`` is the name of its setting."""

    def __init__(self, part: str):
        super().__init__(f"the model's {part} was an object, which no file holds: give it, load(path, {part}=…)")
        self.part = part


def write_model(model: ModelFile, path: str | os.PathLike[str], force: bool = True) -> None:
    """Write a fitted model to one file.

    Args:
        model: what to write.
        path: the file, replaced as a whole or left as it was.
        force: whether a file that exists may be replaced.
    """
    fitted = model.fitted
    header = {
        "estimator": model.estimator,
        "settings": {name: _plain(value) for name, value in model.settings.items() if name != "devices"},
        "parts": {name: _plain(value) for name, value in fitted.parts.items()},
        "sizes": list(fitted.spec.sizes),
        "n_particles": fitted.n_particles,
        "steps": len(fitted.history.noise),
        "encoder": fitted.encoder.to_json(),
        "target": fitted.target.to_json(),
        "target_names": None if model.target_names is None else list(model.target_names),
        "columns": None if model.columns is None else list(model.columns),
        "diagnostics": fitted.diagnostics.to_json(),
        "n_features": int(model.n_features),
    }
    kept = {name: getattr(fitted.state, name) for name in KEPT}
    arrays = {"scales": fitted.scales, "state": kept, "history": fitted.history}
    write_file(path, header, flatten_tree(arrays), kind="model", force=force)


def read_model(path: str | os.PathLike[str], objects: Mapping[str, Any]) -> ModelFile:
    """Return the model in a file. Nothing in the file is run.

    Args:
        path: the file.
        objects: parts that were given as objects and not by name, by the name of their setting.

    Raises:
        FileError: for a file that is damaged, altered or of a newer fpovi.
        MissingObject: where a part that predictions need was an object and is not among ``objects``.
        ValueError: where one of ``objects`` is another than that of the fit.
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
        if objects:
            given = " and ".join(sorted(objects))
            raise ValueError(f"{os.fspath(path)} does not fit together with this {given}: {reason:.300}") from error
        raise FileError(f"{os.fspath(path)} is a model file, but not a sound one: {reason:.200}") from error


def _restore(header: dict[str, Any], arrays: dict[str, np.ndarray], objects: Mapping[str, Any]) -> ModelFile:
    settings = {name: _part(name, value, objects) for name, value in header["settings"].items()}
    parts = {name: _part(name, value, objects) for name, value in header["parts"].items()}
    n, steps, n_features = (_count(header[name], name) for name in ("n_particles", "steps", "n_features"))
    sizes = tuple(_count(size, "size of a layer") for size in header["sizes"])
    if not 2 <= len(sizes) <= MOST_LAYERS:
        raise ValueError(f"it has {len(sizes)} layers")
    encoder = _read_encoder(header["encoder"])
    if math.prod(encoder.shape) != sizes[0] or encoder.input_shape[0] != n_features:
        raise ValueError("its columns and its network do not fit together")
    spec = make_spec_to_predict(sizes, parts, encoder.shape)
    kind = lookup(TARGETS, header["estimator"], "estimator")
    if (spec.likelihood.support is Support.CLASSES) != (kind is ClassTarget):
        raise ValueError(f"its likelihood is not one of a {header['estimator']}")
    target: Target = kind.from_json(header["target"])
    if target.outputs(spec.likelihood) != sizes[-1]:
        raise ValueError("its targets and its network do not fit together")
    names = None if header["target_names"] is None else plain.distinct_texts(header["target_names"], "target_names")
    diagnostics = Diagnostics.from_json(header["diagnostics"])
    columns = None if header["columns"] is None else plain.distinct_texts(header["columns"], "columns")
    if columns is not None and (len(columns) != n_features or encoder.columns.names not in (None, columns)):
        raise ValueError("the names of its columns contradict each other")

    phase = phase_settings(fan_in_scales(sizes), 0.01, 1)
    state = jax.eval_shape(lambda: start(spec, n, phase, jax.random.key(0)))
    template = {
        "scales": jax.tree.map(np.asarray, phase.scales),
        "state": {name: getattr(state, name) for name in KEPT},
        "history": jax.eval_shape(lambda: blank_history(steps)),
    }
    found = restore_tree(template, {_present_name(name): array for name, array in arrays.items()})
    state = State(jnp.asarray(steps), **found["state"], prior=(), optimiser=(), noise_optimiser=())
    fitted = Fitted(spec, parts, found["scales"], state, encoder, target, found["history"], diagnostics)
    return ModelFile(fitted, header["estimator"], settings, n_features, columns, names)


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return task, target, columns, network, settings and origin of the model in a file, in plain JSON types.

    ``noise`` is the standard deviation, or the scale, of what the model takes for noise in each target's own units;
    None where noise differs from row to row or targets are whole numbers. ``complaints`` are what the diagnosis of the
    fit found wrong. Parts that were objects are named only; ``network``, the sizes of the layers, is None for a user's.
    """
    header, arrays = read_file(path, kind="model")
    try:
        encoder = _read_encoder(header["encoder"])
        columns = encoder.columns
        names = columns.names or [f"column {i}" for i in range(len(columns.kinds))]
        complaints = Diagnostics.from_json(header["diagnostics"]).complaints
        return {
            "file": os.fspath(path),
            "bytes": os.path.getsize(path),
            "task": TASKS[header["estimator"]],
            "target": header["target_names"],
            "classes": header["target"].get("classes"),
            "columns": dict(zip(names, columns.kinds, strict=True)),
            "shape": list(encoder.shape) if isinstance(encoder, ArrayEncoder) else None,
            "network": None if isinstance(header["parts"]["network"], dict) else header["sizes"],
            "n_particles": header["n_particles"],
            "steps": header["steps"],
            "noise": _noise(header, arrays["['history'].noise"]),
            "complaints": [f"{one.verdict}; try {one.remedy}" if one.remedy else one.verdict for one in complaints],
            "settings": {
                name: next(iter(value.values())) if isinstance(value, dict) else value
                for name, value in header["settings"].items()
            },
            "versions": read_versions(path, kind="model"),
        }
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise FileError(f"{os.fspath(path)} is a model file, but not a sound one: {error}") from error


def _read_encoder(fields: Any) -> Encoder | ArrayEncoder:
    return (ArrayEncoder if isinstance(fields, dict) and "shape" in fields else Encoder).from_json(fields)


def _noise(header: dict[str, Any], history: np.ndarray) -> list[float] | None:
    if "scale" not in header["target"] or not history[-1] > 0:
        return None
    return [float(history[-1]) * scale for scale in header["target"]["scale"]]


def _present_name(name: str) -> str:
    for former, present in FORMER_NAMES.items():
        if name.startswith(former) and not name.startswith(present):
            return present + name.removeprefix(former)
    return name


def _count(value: Any, name: str) -> int:
    if type(value) is not int or not 1 <= value <= MOST:
        raise ValueError(f"its {name} is {value!r:.40}")
    return value


def _part(name: str, value: Any, objects: Mapping[str, Any]) -> Any:
    """Return a setting from its JSON form, or the object that stands for it."""
    if name in objects:
        return objects[name]
    if isinstance(value, dict) and PAIRS in value:
        return dict(value[PAIRS])
    if isinstance(value, dict):
        if name in ("random_state", "verbose", "checkpoint"):  # nothing that predictions need
            return None
        if name in STAND_INS:
            return MissingPart(name, str(value.get(OBJECT)))
        raise MissingObject(name)
    return tuple(value) if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    """Return a setting in JSON types; what has no such form is named only."""
    if isinstance(value, MissingPart):
        return {OBJECT: value.kind}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, np.integer | np.floating):
        return value.item()
    if isinstance(value, tuple | list | np.ndarray) and all(isinstance(item, int | np.integer) for item in value):
        return [int(item) for item in value]
    if isinstance(value, Mapping):
        return {PAIRS: [[_plain(key), _plain(each)] for key, each in value.items()]}
    return value if value is None or isinstance(value, str | bool | int | float) else {OBJECT: type(value).__name__}
