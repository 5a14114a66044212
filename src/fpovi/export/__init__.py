# SPDX-License-Identifier: Apache-2.0
"""Fitted estimators as programs: raw features in, mean and std or probabilities out, without fpovi.

A program takes one array of float64 ``(N, columns)``, for any N: a number for each cell of the table, in its own units;
or ``(N, *shape)`` where the model was fitted to arrays of other shapes, such as images.
:func:`fpovi.export_inputs` makes it from a data frame, and anyone else can:

- numbers as they are, times in seconds since 1970 (UTC), durations in seconds; NaN is missing;
- of a category the place of its level among the learned ones, from 0. Below 0 or NaN is missing; beyond the last is
  another level, which is missing too where rare levels were not put together in training.

It gives float32: ``mean`` and ``std`` in the target's own units, shaped as ``predict`` does, or ``probabilities``
``(N, classes)``. The columns, their kinds and levels, and the classes are described by JSON in the same file.

Columns are scaled in float64: in float32 a time of today is known to two minutes, and (x − shift)/scale no better. From
there on the program is that of ``predict``, in float32. It cannot refuse a row: a value beyond a million standard
deviations, were it infinite, is taken to be there.
"""

import os
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from fpovi._lookup import import_extra, lookup
from fpovi.export.onnx_graphs import check_graph, join_graphs, to_graph
from fpovi.fitting.phases import outputs_of
from fpovi.fitting.record import Fitted
from fpovi.persistence import check_writable, write_bytes, write_file
from fpovi.predictive import Predictive
from fpovi.tabular import ArrayEncoder, Encoder
from fpovi.tabular.category import Category
from fpovi.tabular.encoder import FARTHEST, Empty
from fpovi.tabular.measured import Measured, Squash
from fpovi.types import Support

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
UNITS = {"time": "seconds since 1970-01-01 UTC", "duration": "seconds"}

Column = Float[Array, "N 1"]
Answer = Callable[[Float[Array, "N *d_x"]], tuple[Float[Array, "N *m"], ...]]


def export_model(fitted: Fitted, path: str | os.PathLike[str], format: str = "stablehlo", force: bool = True) -> None:
    """Write a fitted model as a program.

    Args:
        fitted: the model.
        path: the file, replaced as a whole or left as it was.
        format: "onnx", a model for ONNX Runtime with its description under "fpovi" in the metadata; or "stablehlo", the
            bytes of ``jax.export`` in a safetensors file. That is one file, so that program and description are
            replaced together, it has a checksum, and it can be read without fpovi::

                with safetensors.safe_open(path, "numpy") as file:
                    description = json.loads(file.metadata()["header"])
                    program = jax.export.deserialize(bytearray(file.get_tensor("stablehlo")))
                with jax.enable_x64(True):  # or jax.numpy would make x float32
                    mean, std = program.call(x)

        force: whether a file that exists may be replaced.
    """
    write = lookup(FORMATS, format, "format")
    check_writable(path, force)
    write(fitted, path, force)


def describe(fitted: Fitted) -> dict[str, Any]:
    """Return what a program takes and gives, in JSON types."""
    target = fitted.target.to_json()
    columns = {} if isinstance(fitted.encoder, ArrayEncoder) else {"columns": _described_columns(fitted.encoder)}
    width = [] if target.get("single") else [len(target["classes" if "classes" in target else "shift"])]
    outputs = [{"name": name, "dtype": "float32", "shape": ["N", *width]} for name in _output_names(fitted)]
    return {
        "fpovi": version("fpovi"),
        "estimator": fitted.target.estimator,
        "input": {"name": "x", "dtype": "float64", "shape": ["N", *fitted.encoder.input_shape], **columns},
        "outputs": outputs,
        **{name: target[name] for name in target if name == "classes"},
    }


def _described_columns(encoder: Encoder) -> list[dict[str, Any]]:
    names = encoder.names or [None] * len(encoder.learned)
    return [_described(name, column) for name, column in zip(names, encoder.learned, strict=True)]


def _described(name: str | None, column: Measured | Category | Empty) -> dict[str, Any]:
    known: dict[str, Any] = {"name": name, "kind": column.kind}
    if column.kind in UNITS:
        known["unit"] = UNITS[column.kind]
    if isinstance(column, Category):
        known |= {"levels": list(column.levels), "other": column.other}
    return known


def _output_names(fitted: Fitted) -> tuple[str, ...]:
    return ("probabilities",) if fitted.spec.likelihood.support is Support.CLASSES else ("mean", "std")


# What a program does, in JAX


def encode(encoder: Encoder | ArrayEncoder, x: Float[Array, "N *columns"]) -> Float[Array, "N *d_x"]:
    """Return what ``encoder`` makes of a table or of arrays, from their numbers, in the dtype of x."""
    if isinstance(encoder, ArrayEncoder):
        return (x - jnp.asarray(encoder.shift, x.dtype)) / jnp.asarray(encoder.scale, x.dtype)
    blocks = [block for i, column in enumerate(encoder.learned) for block in _encoded(column, x[:, i : i + 1])]
    if not sum(block.shape[1] for block in blocks):
        return jnp.zeros_like(x[:, :1])
    return jnp.clip(jnp.concatenate(blocks, axis=1), -FARTHEST, FARTHEST)


def _encoded(column: Measured | Category | Empty, values: Column) -> list[Float[Array, "N _"]]:
    if isinstance(column, Measured):
        return _measured(column, values)
    return _category(column, values) if isinstance(column, Category) else []


def _measured(column: Measured, values: Column) -> list[Column]:
    absent = jnp.isnan(values)
    encoded = []
    if column.scale is not None:
        squashed = values if column.squash is None else _squash(column.squash, values)
        encoded.append(jnp.where(absent, 0.0, _ratio(squashed, column.shift, column.scale)))
    return [*encoded, absent.astype(values.dtype)] if column.missing else encoded


def _category(column: Category, codes: Column) -> list[Float[Array, "N _"]]:
    book = column.codebook()  # after the levels come "another", where there is one, and missing
    group = jnp.where(codes >= 0, jnp.minimum(codes, float(len(column.levels))), float(len(book) - 1))
    return [jnp.take(jnp.asarray(book, codes.dtype), group[:, 0].astype(jnp.int32), axis=0, mode="clip")]


def _ratio(values: Column, shift: float, scale: float) -> Column:
    return (values * 0.5 - shift * 0.5) / scale * 2.0


def _squash(squash: Squash, values: Column) -> Column:
    """Return arcsinh(r) = ± log(|r| + √(r² + 1)), in units of max(|r|, 1), so that no square overflows.

    Written out because ONNX Runtime has no arcsinh of float64. Near 0 it is exact to 1e-16 of the column's spread.
    """
    ratio = _ratio(values, *squash)
    size = jnp.abs(ratio)
    unit = jnp.maximum(size, 1.0)
    share = size / unit
    arcsinh = jnp.sign(ratio) * (jnp.log(unit) + jnp.log(share + jnp.sqrt(share * share + (1 / unit) * (1 / unit))))
    return jnp.where(jnp.isinf(ratio), ratio, arcsinh)


def _answer(fitted: Fitted, together: bool = True) -> Answer:
    """Return the map from encoded rows to what ``predict`` or ``predict_proba`` say.

    Particles are evaluated ``together``, or one after the other where networks are a user's: jax2onnx gets convolutions
    of several images with several networks wrong.
    """
    spec, scales, state = fitted.spec, fitted.scales, fitted.state
    shift, scale = (np.asarray(unit, np.float32) for unit in fitted.target.units)
    single = spec.likelihood.support is not Support.CLASSES and fitted.target.single

    def one_by_one(x: Float[Array, "N *d_x"]) -> Float[Array, "n N k"]:
        network, both = spec.build_network(scales), (state.particles, state.network_state)
        each = [jax.tree.map(lambda leaf, i=i: jnp.asarray(leaf[i]), both) for i in range(fitted.n_particles)]
        # not jnp.stack, which jax2onnx does not know
        outputs = jnp.concatenate([network.apply(theta, carried, x, False)[0][None] for theta, carried in each])
        return spec.likelihood.canonical(outputs)

    def answer(x: Float[Array, "N *d_x"]) -> tuple[Float[Array, "N *m"], ...]:
        f = outputs_of(spec, scales, state.particles, state.network_state, x) if together else one_by_one(x)
        params = jax.tree.map(jnp.asarray, state.params)
        predictive = Predictive(spec.likelihood, f, params, jnp.asarray(shift), jnp.asarray(scale))
        if spec.likelihood.support is Support.CLASSES:
            return (predictive.probs / jnp.sum(predictive.probs, axis=1, keepdims=True),)
        return tuple(values[:, 0] if single else values for values in (predictive.mean, predictive.std))

    return answer


def _program(fitted: Fitted) -> Answer:
    """Return the map from raw features to answers, to be traced in double precision."""
    answer = _answer(fitted)

    def program(x: Float[Array, "N *columns"]) -> tuple[Float[Array, "N *m"], ...]:
        encoded = encode(fitted.encoder, x).astype(jnp.float32)
        with jax.enable_x64(False):  # the network's own constants stay float32, as in predict
            return answer(encoded)

    return program


# The formats


def _write_stablehlo(fitted: Fitted, path: str | os.PathLike[str], force: bool) -> None:
    (rows,) = jax.export.symbolic_shape("N")
    program = jax.jit(_program(fitted))
    try:
        with jax.enable_x64(True):
            x = jax.ShapeDtypeStruct((rows, *fitted.encoder.input_shape), jnp.float64)
            program_bytes = jax.export.export(program, platforms=PLATFORMS)(x).serialize()
    except Exception as error:  # a user's network can fail in any way
        raise _refusal("stablehlo", error) from error
    write_file(
        path, describe(fitted), {"stablehlo": np.frombuffer(program_bytes, np.uint8)}, kind="export", force=force
    )


def _write_onnx(fitted: Fitted, path: str | os.PathLike[str], force: bool) -> None:
    """Write two graphs joined, since jax2onnx keeps one floating-point type in each: float64, then float32."""
    for library in ("jax2onnx", "onnxruntime"):
        import_extra(library, "onnx", 'format="onnx"')
    columns, features = fitted.encoder.input_shape, fitted.encoder.shape
    probe = _probe(fitted.encoder)
    with jax.enable_x64(True):
        expected = [np.asarray(values) for values in jax.jit(_program(fitted))(probe)]
    try:
        scaling = to_graph(lambda x: encode(fitted.encoder, x), columns, "x", ["encoded"], double=True)
        answer = _answer(fitted, together=fitted.spec.network is None)
        answering = to_graph(answer, features, "features", _output_names(fitted), double=False)
        content = join_graphs(scaling, answering, describe(fitted))
        check_graph(content, probe, expected)
    except Exception as error:  # a user's network can fail in any way
        raise _refusal("onnx", error) from error
    write_bytes(path, [content], force)


def _probe(encoder: Encoder | ArrayEncoder) -> NDArray[np.float64]:
    """Return rows on which two programs are compared: one with nothing known, and two within every column's range."""
    if isinstance(encoder, ArrayEncoder):
        return np.stack([np.full(encoder.shape, level) for level in np.linspace(encoder.low, encoder.high, 3)])
    rows = []
    for column in encoder.learned:
        line = (0.0, 1.0)  # of a category, its first levels
        if isinstance(column, Measured):
            line = column.squash or (column.shift, column.scale or 1.0)
        rows.append([np.nan, line[0], line[0] + line[1]])
    return np.asarray(rows, np.float64).T


def _refusal(format: str, error: Exception) -> ValueError:
    reason = str(error).strip().split("\n")[0] or type(error).__name__
    return ValueError(f"network or likelihood cannot be exported as {format}: {reason:.200}")


FORMATS = {"stablehlo": _write_stablehlo, "onnx": _write_onnx}
