# SPDX-License-Identifier: Apache-2.0
"""Exported programs answer as predict does, for any number of rows, with nothing of fpovi at the consumer."""

import json
import os
import subprocess
import sys
import warnings

import equinox as eqx
import jax
import numpy as np
import onnxruntime
import pandas as pd
import pytest
import safetensors
from flax import linen
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import NotFittedError

import fpovi.export as program
from fpovi import BNNClassifier, BNNRegressor, export_inputs
from fpovi._lookup import MissingExtraError
from fpovi.estimators import FitWarning
from fpovi.fitting.training import Progressed, blank_history
from fpovi.persistence import FileError
from support.own_networks import EquinoxConvNet, FlaxConvNet

SMALL = {"prior": "nngp", "max_epochs": 20, "hidden_layer_sizes": (8,), "n_particles": 4, "random_state": 0}
# Both sides compute in float32 from the same encoded rows, in another order: a few units in the last place (6e-8) of
# the largest term. Measured: 3e-7.
TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}

pytestmark = pytest.mark.usefixtures("loose_dtypes")


def table(rows=200):
    """Every kind of column, gaps, heavy tails, and numbers that float32 cannot tell apart."""
    rng = np.random.default_rng(0)
    gaps = lambda column: column.where(rng.uniform(size=rows) < 0.8, None)  # noqa: E731
    seconds = pd.to_timedelta(rng.integers(0, 600, rows), unit="s")
    return pd.DataFrame(
        {
            "number": gaps(pd.Series(rng.normal(size=rows))),
            "word": gaps(pd.Series(rng.choice(list("xyz"), rows), dtype=object)),
            "minutes of one day": gaps(pd.Series(pd.Timestamp("2026-01-01") + seconds)),
            "far": 1e12 + rng.normal(size=rows),
            "heavy": gaps(pd.Series(np.exp(3 * rng.normal(size=rows)))),
            "tiny": 1e-30 * rng.normal(size=rows),
            "length": pd.Series(seconds),
            "constant": 1.0,
            "nothing": np.nan,
        }
    )


def respond(frame):
    seconds = pd.to_timedelta(frame["length"]).dt.total_seconds()
    return frame["number"].fillna(1) + (frame["word"] == "x") * 2 + frame["far"] - 1e12 + seconds / 300


def stay(key, recipe, state, data, steps, **options):
    """Training that ends where it begins: a program is compared with its estimator, however good that is."""
    return Progressed(jax.tree.map(np.asarray, state), blank_history(100), np.zeros(0), ())


def untrained(make, x, y, **options):
    with pytest.MonkeyPatch.context() as patch, jax.numpy_dtype_promotion("standard"), warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        patch.setattr("fpovi.fitting.fit.train", stay)
        return make(**{**SMALL, **options}).fit(x, y)


@pytest.fixture(scope="module")
def models():
    """One of each kind, the first of them trained."""
    frame, (x, y), (flowers, species) = table(), load_diabetes(return_X_y=True), load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])
    with jax.numpy_dtype_promotion("standard"):
        trained = BNNRegressor(**SMALL).fit(x, y)
    return {
        "diabetes": (trained, x),
        "table": (untrained(BNNRegressor, frame, respond(frame)), frame),
        "iris": (untrained(BNNClassifier, flowers, names[species]), flowers),
    }


class Dense(linen.Module):
    @linen.compact
    def __call__(self, x):
        return linen.Dense(1)(linen.gelu(linen.LayerNorm()(linen.Dense(6)(x))))


def make_equinox(key):
    return eqx.nn.MLP(3, 1, 6, 1, activation=jax.nn.silu, key=key)


def run_stablehlo(path, x):
    with safetensors.safe_open(path, "numpy") as file:
        description = json.loads(file.metadata()["header"])
        program = jax.export.deserialize(bytearray(file.get_tensor("stablehlo")))
    with jax.enable_x64(True):
        return [np.asarray(values) for values in program.call(x)], description


def run_onnx(path, x):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    description = json.loads(session.get_modelmeta().custom_metadata_map["fpovi"])
    return session.run([output["name"] for output in description["outputs"]], {"x": x}), description


RUN = {"stablehlo": run_stablehlo, "onnx": run_onnx}


def predictions(model, x):
    return (model.predict_proba(x),) if hasattr(model, "classes_") else model.predict(x, return_std=True)


def assert_answers(path, format, model, x):
    answers, description = RUN[format](path, export_inputs(model, x))
    expected = predictions(model, x)
    for answer, wanted, said in zip(answers, expected, description["outputs"], strict=True):
        assert answer.dtype == said["dtype"]
        assert answer.shape == wanted.shape == (len(x), *said["shape"][1:])
        np.testing.assert_allclose(answer, wanted, **TOLERANCE)
    return description


@pytest.mark.parametrize("format", RUN)
@pytest.mark.parametrize("name", ["diabetes", "table", "iris"])
def test_answers_as_predict_for_any_number_of_rows(models, name, format, tmp_path):
    model, x = models[name]
    path = tmp_path / "program"
    before = predictions(model, x)
    model.export(path, format)
    for rows in (1, 7, 1000):
        places = np.arange(rows) % len(x)
        assert_answers(path, format, model, x.iloc[places] if isinstance(x, pd.DataFrame) else x[places])
    assert not jax.config.jax_enable_x64
    np.testing.assert_array_equal(before, predictions(model, x))  # and an export leaves nothing behind


@pytest.mark.parametrize(
    ("targets", "options"),
    [
        pytest.param(2, {"likelihood": "heteroscedastic", "activation": "gelu"}, id="heteroscedastic"),
        pytest.param(1, {"network": Dense(), "prior": "flat"}, id="flax"),
        pytest.param(1, {"network": make_equinox, "prior": "flat"}, id="equinox", marks=pytest.mark.slow),
        pytest.param(1, {"likelihood": "student_t", "activation": "erf"}, id="student_t", marks=pytest.mark.slow),
        pytest.param(1, {"likelihood": "poisson", "activation": "tanh"}, id="poisson", marks=pytest.mark.slow),
    ],
)
def test_parts(targets, options, tmp_path):
    x = np.random.default_rng(0).normal(size=(30, 3))
    y = np.floor(np.exp(x[:, 0])) if targets == 1 else 100 + 10 * x[:, :targets]
    model = untrained(BNNRegressor, x, y, **options)
    for format in RUN:
        model.export(tmp_path / "program", format)
        assert_answers(tmp_path / "program", format, model, x)


def test_description(models, tmp_path):
    model, frame = models["table"]
    model.export(tmp_path / "program", "stablehlo")
    description = assert_answers(tmp_path / "program", "stablehlo", model, frame)
    columns = {column.pop("name"): column for column in description["input"]["columns"]}
    assert list(columns) == list(frame.columns)
    assert columns["word"] == {"kind": "category", "levels": ["x", "y", "z"], "other": False}
    assert columns["minutes of one day"] == {"kind": "time", "unit": "seconds since 1970-01-01 UTC"}
    assert (columns["number"], columns["nothing"]) == ({"kind": "number"}, {"kind": "empty"})
    assert description["input"]["shape"] == ["N", 9]
    flowers, x = models["iris"]
    flowers.export(tmp_path / "program", "onnx")
    description = assert_answers(tmp_path / "program", "onnx", flowers, x)
    assert description["classes"] == ["setosa", "versicolor", "virginica"]
    assert description["input"]["columns"][3] == {"name": None, "kind": "number"}


def test_consumer_needs_neither_fpovi_nor_jax(models, tmp_path):
    model, frame = models["table"]
    path = tmp_path / "program.onnx"
    model.export(path, "onnx")
    np.save(tmp_path / "x.npy", export_inputs(model, frame))
    consume = """
import sys, numpy, onnxruntime
program = onnxruntime.InferenceSession(sys.argv[1])
mean, std = program.run(["mean", "std"], {"x": numpy.load(sys.argv[2])})
assert not {"fpovi", "jax"} & set(sys.modules)
print(mean.sum(dtype=float), std.sum(dtype=float))
"""
    command = [sys.executable, "-c", consume, str(path), str(tmp_path / "x.npy")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""  # not even a warning
    np.testing.assert_allclose(
        [float(word) for word in done.stdout.split()], np.sum(predictions(model, frame), 1), 1e-5
    )


@pytest.mark.parametrize("format", RUN)
@pytest.mark.parametrize("network", [FlaxConvNet(), EquinoxConvNet], ids=["flax", "equinox"])
def test_convolutions_on_images(network, format, tmp_path):
    images, labels = np.random.default_rng(0).uniform(size=(12, 8, 8, 1)), np.arange(12) % 10
    model = untrained(BNNClassifier, images, labels, network=network, prior="flat")
    model.export(tmp_path / "program", format)
    assert_answers(tmp_path / "program", format, model, images)


def test_float32_would_not_do(models):
    """Why a program takes float64: within ten minutes of a day, float32 seconds know five moments."""
    model, frame = models["table"]
    seconds = export_inputs(model, frame)[:, 2]
    assert len(np.unique(seconds[~np.isnan(seconds)].astype(np.float32))) <= 6


@pytest.mark.parametrize("format", RUN)
def test_old_file_is_replaced_or_kept(models, format, tmp_path, monkeypatch):
    model, x = models["iris"]
    path = tmp_path / "program"
    path.write_text("precious")
    with monkeypatch.context() as patch:
        patch.setattr(program, "_answer", None)  # it is refused before any work is done
        with pytest.raises(FileError, match="exists already"):
            model.export(path, format, force=False)
    assert path.read_text() == "precious"
    model.export(path, format)
    assert_answers(path, format, model, x)
    assert os.listdir(tmp_path) == ["program"]


def test_refusals_are_one_line(models, tmp_path, monkeypatch):
    model, _ = models["diabetes"]
    path = tmp_path / "program"
    with pytest.raises(NotFittedError, match="not fitted"):
        BNNRegressor().export(path)
    with pytest.raises(NotFittedError, match="not fitted"):
        export_inputs(BNNRegressor(), [[1.0]])
    with pytest.raises(ValueError, match=r"^format='pmml' is not known; choose one of onnx, stablehlo$"):
        model.export(path, "pmml")
    for library in ("onnxruntime", "jax2onnx"):
        monkeypatch.setitem(sys.modules, library, None)
        with pytest.raises(MissingExtraError, match=rf"needs {library}, .*: pip install fpovi\[onnx\]$"):
            model.export(path, "onnx")
    assert os.listdir(tmp_path) == []


def test_network_that_calls_python_is_refused(tmp_path):
    def activation(h):
        return jax.pure_callback(np.tanh, jax.ShapeDtypeStruct(h.shape, h.dtype), h, vmap_method="expand_dims")

    x = np.random.default_rng(0).normal(size=(30, 3))
    model = untrained(BNNRegressor, x, x[:, 0], activation=activation, prior="flat")
    for format in RUN:
        with pytest.raises(ValueError, match=f"^network or likelihood cannot be exported as {format}: .+$") as caught:
            model.export(tmp_path / "program", format)
        assert "\n" not in str(caught.value)
    assert os.listdir(tmp_path) == []
