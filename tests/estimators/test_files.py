# SPDX-License-Identifier: Apache-2.0
"""Models in files: read in another process they predict the same bits, and no forgery gets further than one line."""

import json
import pickle
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fpovi import BNNClassifier, BNNRegressor, flows, kernels, load, measurement, priors
from fpovi.fitting.model_file import describe
from fpovi.persistence import FileError, read_file, write_file
from support.small_fits import SETTINGS, named_classes, plane, same_fit

FILES = Path(__file__).parents[1] / "files"
MEAN, STD = [5.088718, 4.556276, 4.251518], [0.756481, 0.653582, 0.700629]
CHEAP = [0.917662, 0.905453, 0.955074]
ELSEWHERE = """
import sys, numpy as np, fpovi
for path, table in zip(sys.argv[1::2], sys.argv[2::2]):
    model = fpovi.load(path)
    method = getattr(model, "predict_proba", model.predict)
    print(method(np.load(table)).tobytes().hex())
"""


def test_another_process_predicts_the_same_bits(tmp_path, regressor, classifier, of_two_targets):
    X = plane(40, seed=2)[0]
    np.save(tmp_path / "table.npy", X)
    models = [regressor, classifier, of_two_targets]
    arguments = []
    for place, model in enumerate(models):
        model.save(tmp_path / f"{place}.fpovi")
        arguments += [tmp_path / f"{place}.fpovi", tmp_path / "table.npy"]
    command = [sys.executable, "-c", ELSEWHERE, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    expected = [getattr(model, "predict_proba", model.predict)(X).tobytes().hex() for model in models]
    assert done.stdout.split() == expected


def test_a_model_comes_back_whole(tmp_path, regressor):
    regressor.save(tmp_path / "model.fpovi")
    model = load(tmp_path / "model.fpovi")
    assert same_fit(model, regressor)
    assert model.get_params() == regressor.get_params()
    assert model.fitted_.diagnostics == regressor.fitted_.diagnostics
    X, y = plane()
    np.testing.assert_array_equal(model.predict_dist(X).log_prob(y), regressor.predict_dist(X).log_prob(y))
    with pytest.raises(ValueError, match="use fit"):
        model.partial_fit(X, y)
    assert same_fit(model.fit(X, y), regressor)
    with pytest.raises(FileError, match="exists already"):
        model.save(tmp_path / "model.fpovi", force=False)


def test_names_of_columns_come_back(tmp_path):
    import pandas as pd

    X, y = plane()
    frame = pd.DataFrame({"size": X[:, 0], "colour": ["red", "blue"] * 12})
    model = BNNRegressor(**SETTINGS).fit(frame, y)
    model.save(tmp_path / "model.fpovi")
    other = load(tmp_path / "model.fpovi")
    assert other.feature_names_in_.tolist() == ["size", "colour"]
    np.testing.assert_array_equal(other.predict(frame), model.predict(frame))


@pytest.mark.parametrize("kind", [str, object, np.int8, np.int64, np.float32])
def test_classes_come_back_as_they_were(tmp_path, kind):
    X, words = named_classes()
    labels = (
        words.astype(kind) if kind in (str, object) else (np.searchsorted(np.unique(words), words) - 1).astype(kind)
    )
    model = BNNClassifier(**SETTINGS).fit(X, labels)
    model.save(tmp_path / "model.fpovi")
    other = load(tmp_path / "model.fpovi")
    assert other.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(other.predict(X), model.predict(X))


def cube(h):
    return h**3 / 10


def test_parts_given_as_objects_are_asked_for(tmp_path):
    X, y = plane()
    model = BNNRegressor(**SETTINGS, activation=cube).fit(X, y)
    model.save(tmp_path / "model.fpovi")
    with pytest.raises(ValueError, match=r"activation was an object, .* load\(path, activation=…\)"):
        load(tmp_path / "model.fpovi")
    other = load(tmp_path / "model.fpovi", activation=cube)
    np.testing.assert_array_equal(other.predict(X), model.predict(X))
    with pytest.raises(ValueError, match="colour is none of activation"):
        load(tmp_path / "model.fpovi", activation=cube, colour="red")


def test_parts_that_predictions_do_not_need_may_stay_away(tmp_path):
    X, y = plane()
    own = {
        "measurement": measurement.points(X[:3].astype(np.float32)),
        "prior": priors.flat(),
        "kernel": kernels.rbf(1.0),
        "flow": partial(flows.gfsf, ridge=1e-2),
    }
    model = BNNRegressor(**{**SETTINGS, **own}).fit(X, y)
    model.save(tmp_path / "model.fpovi")
    other = load(tmp_path / "model.fpovi")
    np.testing.assert_array_equal(other.predict(X), model.predict(X))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(other)).predict(X), model.predict(X))
    with pytest.raises(ValueError, match=r"flow was an object \(partial\), .* model\.set_params\(flow=…\)"):
        other.fit(X, y)
    np.testing.assert_array_equal(other.predict(X), model.predict(X))  # nothing lost
    other.save(tmp_path / "again.fpovi")
    assert describe(tmp_path / "again.fpovi")["settings"] == describe(tmp_path / "model.fpovi")["settings"]
    again = load(tmp_path / "again.fpovi", **own)
    assert again.get_params()["measurement"] is own["measurement"]
    assert same_fit(again.fit(X, y), model)


def test_no_such_file(tmp_path):
    with pytest.raises(FileError, match="No such file"):
        load(tmp_path / "model.fpovi")


WRONG = [
    None,
    True,
    -1,
    0,
    2.5,
    10**9,
    10**15,
    "abc",
    "",
    [],
    [10**9] * 4,
    ["a"],
    [None],
    [[]],
    {},
    {"a": 1},
    {"a": {}},
]


@pytest.fixture(scope="module")
def contents(tmp_path_factory, regressor, classifier):
    folder, found = tmp_path_factory.mktemp("models"), {}
    for model in (regressor, classifier):
        model.save(folder / "model.fpovi")
        found[type(model).__name__] = read_file(folder / "model.fpovi", kind="model")
    return found


def assert_refused_or_sound(path, header, arrays):
    """A forged file is told in one line and at once, or gives a model that predicts."""
    write_file(path, header, arrays, kind="model")
    began = time.process_time()
    told = ""
    try:
        load(path).predict(plane()[0])
    except ValueError as error:
        told = str(error)
    assert "\n" not in told
    assert len(told) < 500
    assert time.process_time() - began < 2


def paths_of(tree, so_far=()):
    """Where one may put something else: every entry of every dict and list."""
    yield from [so_far] if so_far else []
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for name, entry in entries:
        yield from paths_of(entry, (*so_far, name))


def changed(header, path, *value):
    """The header with another value there, or without that entry."""
    header = json.loads(json.dumps(header))
    *way, last = path
    place = header
    for name in way:
        place = place[name]
    if value:
        place[last] = value[0]
    else:
        del place[last]
    return header


@pytest.mark.parametrize("name", ["BNNRegressor", "BNNClassifier"])
def test_forged_headers_end_in_one_line(tmp_path, contents, name):
    header, arrays = contents[name]
    rng = np.random.default_rng(0)
    for path in paths_of(header):
        if path[0] == "diagnostics" and path[1:2] != (0,):
            continue  # one finding stands for all
        assert_refused_or_sound(tmp_path / "forged.fpovi", changed(header, path), arrays)
        for value in rng.choice(np.array(WRONG, object), 2, replace=False):
            assert_refused_or_sound(tmp_path / "forged.fpovi", changed(header, path, value), arrays)


ABSURD = {
    "sizes": [[10**9, 10**9, 1], [2, 10**7, 1], [2] + [8] * 900 + [1], [2, 8, 1] * 10**4, [2], []],
    "n_particles": [10**9, 10**7, 10**300],
    "steps": [10**9, 10**7, 10**18],
    "estimator": ["BaseBNN", "os.system", 5],
    "n_features": [3, 10**9],
    "columns": [["a", "a"], ["a", "b", "c"], "ab", [1, 2], []],
}


@pytest.mark.parametrize(("entry", "value"), [(entry, value) for entry, all in ABSURD.items() for value in all])
def test_absurd_headers_are_refused_and_cost_nothing(tmp_path, contents, entry, value):
    header, arrays = contents["BNNRegressor"]
    write_file(tmp_path / "forged.fpovi", {**header, entry: value}, arrays, kind="model")
    began = time.process_time()
    with pytest.raises(FileError, match="not a sound one") as caught:
        load(tmp_path / "forged.fpovi")
    assert "\n" not in str(caught.value)
    assert time.process_time() - began < 5


def test_parts_of_the_other_estimator_are_refused(tmp_path, contents):
    for name, other in (("BNNRegressor", "BNNClassifier"), ("BNNClassifier", "BNNRegressor")):
        header, arrays = contents[name]
        for change in (
            {"parts": contents[other][0]["parts"]},
            {"target": contents[other][0]["target"]},
            {"estimator": other},
        ):
            write_file(tmp_path / "forged.fpovi", {**header, **change}, arrays, kind="model")
            with pytest.raises(FileError, match="not a sound one"):
                load(tmp_path / "forged.fpovi")


def test_strings_of_a_gigabyte_are_not_made(tmp_path, contents):
    header, arrays = contents["BNNClassifier"]
    target = {**header["target"], "dtype": "<U500000000"}
    write_file(tmp_path / "forged.fpovi", {**header, "target": target}, arrays, kind="model")
    assert load(tmp_path / "forged.fpovi").classes_.nbytes < 1000


def test_a_checkpoint_is_no_model(tmp_path, contents):
    write_file(tmp_path / "other.fpovi", *contents["BNNRegressor"], kind="checkpoint")
    with pytest.raises(FileError, match="is a checkpoint, not a model"):
        load(tmp_path / "other.fpovi")


def test_models_of_earlier_versions_still_load():
    """What version 0.1.0 predicted when it wrote these files, but for the last digits of another processor."""
    rows = pd.DataFrame(
        {
            "size": [66.7, 109.5, 50.3],
            "kind": ["house", "flat", "flat"],
            "built": pd.date_range("1990-01-01", periods=3),
        }
    )
    mean, std = load(FILES / "regressor-0.1.0.fpovi").predict(rows, return_std=True)
    np.testing.assert_allclose(mean, MEAN, rtol=1e-5)
    np.testing.assert_allclose(std, STD, rtol=1e-5)
    np.testing.assert_allclose(load(FILES / "classifier-0.1.0.fpovi").predict_proba(rows)[:, 0], CHEAP, rtol=1e-5)
