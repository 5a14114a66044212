# SPDX-License-Identifier: Apache-2.0
"""A fit that was interrupted goes on where it was, and ends at the same bits."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fpovi import BNNRegressor
from fpovi.fitting import training
from fpovi.persistence import FileError, read_file, write_file
from support.forgery import forge, take_apart
from support.small_fits import SETTINGS, plane, same_fit

LONGER = {**SETTINGS, "max_epochs": 100}


@pytest.fixture(autouse=True)
def _many_checkpoints(monkeypatch):
    monkeypatch.setattr(training, "CHUNK", 20)
    monkeypatch.setattr(training, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)


def fit(checkpoint=None, table=None, **settings):
    return BNNRegressor(**{**LONGER, "checkpoint": checkpoint, **settings}).fit(*(table or plane()))


def die_before(monkeypatch, function, call, error):
    """Let the ``call``-th call of a function of the loop end in an error."""
    original, calls = getattr(training, function), []

    def mortal(*args, **kwargs):
        calls.append(1)
        if len(calls) == call:
            raise error
        return original(*args, **kwargs)

    monkeypatch.setattr(training, function, mortal)


@pytest.mark.parametrize("early_stopping", [False, True])
def test_a_fit_killed_between_any_two_looks_ends_at_the_same_bits(tmp_path, monkeypatch, early_stopping):
    whole = fit(early_stopping=early_stopping)
    path = tmp_path / "fit.checkpoint"
    for deaths in ((1,), (2, 1), (5,), (3, 2, 1), (1, 1, 1)):
        path.unlink(missing_ok=True)
        for call in deaths:
            with monkeypatch.context() as patch:
                die_before(patch, "run", call, SystemExit())
                with pytest.raises(SystemExit):
                    fit(path, early_stopping=early_stopping)
        model = fit(path, early_stopping=early_stopping)
        assert same_fit(model, whole)
        np.testing.assert_array_equal(model.validation_scores_, whole.validation_scores_)
        np.testing.assert_array_equal(model.predict(plane()[0]), whole.predict(plane()[0]))


def test_a_fit_killed_in_or_after_its_warm_up_ends_at_the_same_bits(tmp_path, monkeypatch):
    """100 steps in chunks of 20: two looks at the warm-up, three at the flow."""
    whole, path = fit(prior="auto"), tmp_path / "fit.checkpoint"
    for deaths in ((2,), (3,), (4, 1), (1, 2, 2)):
        path.unlink(missing_ok=True)
        for call in deaths:
            with monkeypatch.context() as patch:
                die_before(patch, "run", call, SystemExit())
                with pytest.raises(SystemExit):
                    fit(path, prior="auto")
        assert same_fit(fit(path, prior="auto"), whole)


def test_a_finished_fit_is_not_run_again(tmp_path, monkeypatch):
    whole = fit(tmp_path / "fit.checkpoint")
    die_before(monkeypatch, "run", 1, AssertionError())
    assert same_fit(fit(tmp_path / "fit.checkpoint"), whole)


def test_an_interrupt_leaves_all_that_was_done(tmp_path, monkeypatch):
    path = tmp_path / "fit.checkpoint"
    monkeypatch.setattr(training, "SECONDS_BETWEEN_CHECKPOINTS", 1e9)
    with monkeypatch.context() as patch:
        die_before(patch, "run", 4, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            fit(path)
    assert read_file(path, kind="checkpoint")[0]["steps"] == 60
    assert same_fit(fit(path), fit())


def test_an_interrupt_before_the_first_step_leaves_nothing_wrong(tmp_path, monkeypatch):
    path = tmp_path / "fit.checkpoint"
    with monkeypatch.context() as patch:
        die_before(patch, "run", 1, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            fit(path, early_stopping=True)
    assert same_fit(fit(path, early_stopping=True), fit(early_stopping=True))


OTHERS = {
    "data": {"table": plane(seed=1)},
    "rows": {"table": plane(25)},
    "seed": {"random_state": 1},
    "rate": {"learning_rate": 0.02},
    "steps": {"max_epochs": 120},
    "validation": {"early_stopping": True},
    "flow": {"flow": "ensemble"},
    "particles": {"n_particles": 3},
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_a_checkpoint_of_another_fit_is_refused(tmp_path, other):
    fit(tmp_path / "fit.checkpoint")
    before = (tmp_path / "fit.checkpoint").read_bytes()
    with pytest.raises(ValueError, match="belongs to a fit of other data or settings: remove it or") as caught:
        fit(tmp_path / "fit.checkpoint", **other)
    assert "\n" not in str(caught.value)
    assert (tmp_path / "fit.checkpoint").read_bytes() == before


def test_a_fit_without_a_seed_cannot_be_gone_on_with(tmp_path):
    with pytest.raises(ValueError, match="checkpoint needs a random_state"):
        fit(tmp_path / "fit.checkpoint", random_state=None)


def test_objects_count_wherever_they_lie_in_memory(tmp_path):
    functions = [lambda h: h / (1 + h**2) for _ in range(2)]
    assert repr(functions[0]) != repr(functions[1])
    settings = [BNNRegressor(**{**SETTINGS, "activation": function})._run_settings().settings for function in functions]
    assert settings[0] == settings[1]


def test_partial_fit_leaves_the_checkpoint_alone(tmp_path):
    path = tmp_path / "fit.checkpoint"
    more = plane(4, seed=1)
    model = fit(path).partial_fit(*more)
    again = fit(path).partial_fit(*more)
    assert same_fit(model, again)


def test_a_damaged_checkpoint_is_refused(tmp_path):
    path = tmp_path / "fit.checkpoint"
    fit(path)
    header, arrays = read_file(path, kind="checkpoint")
    whole = path.read_bytes()
    for damaged in (b"", whole[:100], whole[:-7], whole[:-7] + b"1234567", b"x" * 3000):
        path.write_bytes(damaged)
        with pytest.raises(FileError) as caught:
            fit(path)
        assert "\n" not in str(caught.value)
    less = {name: array for name, array in arrays.items() if name != ".history.noise"}
    shorter = {**arrays, ".history.noise": arrays[".history.noise"][:-1]}
    scores = {**arrays, ".scores": np.zeros((2, 2))}
    for forged in (less, shorter, scores, {}):
        write_file(path, header, forged, kind="checkpoint")
        with pytest.raises(FileError) as caught:
            fit(path)
        assert "\n" not in str(caught.value)
    write_file(path, {}, arrays, kind="checkpoint")
    with pytest.raises(ValueError, match="other data or settings"):
        fit(path)


def test_a_checkpoint_of_an_earlier_version_is_refused_as_such(tmp_path):
    path = tmp_path / "fit.checkpoint"
    fit(path)
    table, body = take_apart(path.read_bytes())
    table["__metadata__"]["format_version"] = "1"
    path.write_bytes(forge(table, body))
    with pytest.raises(
        FileError, match=r"a checkpoint of fpovi [\d.]+ \(format 1\), .*cannot go on: remove it or use that"
    ):
        fit(path)


def test_a_model_is_no_checkpoint(tmp_path, regressor):
    regressor.save(tmp_path / "model.fpovi")
    with pytest.raises(FileError, match="is a model, not a checkpoint"):
        fit(tmp_path / "model.fpovi")


def test_no_folder_for_a_checkpoint(tmp_path):
    with pytest.raises(FileError, match="there is no folder"):
        fit(tmp_path / "nowhere" / "fit.checkpoint")


@pytest.mark.parametrize(
    ("kills", "kind"),
    [
        (3, "to the end"),
        pytest.param(40, "to the end", marks=pytest.mark.slow),
        pytest.param(40, "early_stopping", marks=pytest.mark.slow),
    ],
)
def test_a_fit_killed_at_any_time_ends_at_the_same_bits(tmp_path, kills, kind):
    quick = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "programs"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    script = Path(__file__).parents[1] / "support" / "killed_fits.py"
    done = subprocess.run(
        [sys.executable, script, tmp_path, str(kills), "0", kind],
        env={**os.environ, **quick}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout)["killed"] >= kills
