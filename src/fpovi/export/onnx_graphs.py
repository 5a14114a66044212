# SPDX-License-Identifier: Apache-2.0
"""JAX functions of rows as ONNX graphs. jax2onnx, onnx and ONNX Runtime are imported only when one is made."""

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun
from numpy.typing import NDArray

from fpovi.persistence.plain import canonical

TOLERANCE = 1e-4  # of a graph beside JAX; both compute in float32, in another order
CHATTY = ("jax2onnx", "onnx_ir")


def to_graph(
    function: Callable[..., Any], columns: tuple[int, ...], takes: str, gives: Sequence[str], double: bool
) -> Any:
    """Return the graph of a function of ``(N, *columns)``, for any N, in float64 (``double``) or float32 throughout.

    It is traced before jax2onnx sees it: that would put operations of its own in the place of layers of Flax and
    Equinox, and these do not know of particles.
    """
    from jax2onnx import to_onnx

    (rows,) = jax.export.symbolic_shape("N")
    with jax.enable_x64(double):
        x = jax.ShapeDtypeStruct((rows, *columns), jnp.float64 if double else jnp.float32)
        traced = jaxpr_as_fun(jax.make_jaxpr(function)(x))
    with _quiet():
        return to_onnx(traced, [x], input_names=[takes], output_names=list(gives), enable_double_precision=double)


def join_graphs(first: Any, second: Any, description: dict[str, Any]) -> bytes:
    """Return one model that hands the only output of ``first``, cast to float32, to ``second``."""
    from onnx import TensorProto, compose, helper

    (handed,), (taken,) = first.graph.output, second.graph.input
    first, second = (
        compose.add_prefix(model, prefix, rename_inputs=False, rename_outputs=False)
        for model, prefix in ((first, "encode/"), (second, "answer/"))
    )
    narrow = helper.make_node("Cast", [handed.name], ["narrow"], to=TensorProto.FLOAT)
    first.graph.node.append(narrow)
    others = [None] * (len(handed.type.tensor_type.shape.dim) - 1)
    del first.graph.output[:]
    first.graph.output.append(helper.make_tensor_value_info("narrow", TensorProto.FLOAT, ["N", *others]))
    model = compose.merge_models(first, second, io_map=[("narrow", taken.name)])
    # some shapes that jax2onnx notes on the way are wrong, and the runtime infers its own
    del model.graph.value_info[:]
    helper.set_model_props(model, {"fpovi": canonical(description).decode()})
    return model.SerializeToString()


def check_graph(content: bytes, x: NDArray[np.float64], expected: Sequence[NDArray[np.float32]]) -> None:
    """Raise a ``ValueError`` unless ONNX Runtime gives what is expected for x, for all rows and for one."""
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    (taken,), names = session.get_inputs(), [output.name for output in session.get_outputs()]
    for rows in (len(x), 1):
        answers = session.run(names, {taken.name: x[:rows]})
        for name, values, wanted in zip(names, answers, expected, strict=True):
            if not np.allclose(values, wanted[:rows], rtol=TOLERANCE, atol=TOLERANCE * np.abs(wanted).max()):
                raise ValueError(f"its graph computes another {name}")


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence jax2onnx's warnings about old names of JAX and missing plugins."""
    loggers = [logging.getLogger(name) for name in CHATTY]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
