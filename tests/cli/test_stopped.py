# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C and full disks in the middle of a fit: nothing is lost, and a line says how to go on."""

import numpy as np
import pandas as pd
import pytest

import fpovi.estimators.base as base
from fpovi.estimators import load
from fpovi.fitting import training
from fpovi.persistence import FileError
from support.commands import call, good, refusal

LONG = ["--prior", "nngp", "--epochs", "600", "--particles", "4", "--hidden", "8"]


@pytest.fixture
def data(tmp_path):
    x = np.linspace(-1, 1, 30)
    pd.DataFrame({"x": x, "y": np.sin(3 * x)}).to_csv(tmp_path / "data.csv", index=False)
    return tmp_path / "data.csv"


def stop_after(monkeypatch, looks):
    """Ctrl-C after so many chunks of steps, each of which has left a checkpoint."""
    run, count = training.run, iter(range(looks))

    def interrupted(*args, **options):
        if next(count, None) is None:
            raise KeyboardInterrupt
        return run(*args, **options)

    monkeypatch.setattr(training, "run", interrupted)
    monkeypatch.setattr(training, "SECONDS_BETWEEN_CHECKPOINTS", -1)


def test_ctrl_c_keeps_the_checkpoint_and_the_same_command_goes_on(data, tmp_path):
    command = ["fit", data, "--target", "y", "--model", tmp_path / "m.fpovi", *LONG]
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, 1)
        result = call(*command)
    checkpoint = tmp_path / "m.fpovi.checkpoint"
    assert result.exit_code == 130
    assert result.stderr == (
        f"fpovi: stopped; progress is kept in {checkpoint}: run the same command to go on from there\n"
    )
    assert checkpoint.exists()
    good(*command)
    assert not checkpoint.exists()
    good("fit", data, "--target", "y", "--model", tmp_path / "whole.fpovi", *LONG)
    assert (tmp_path / "m.fpovi").read_bytes() == (tmp_path / "whole.fpovi").read_bytes()


def test_ctrl_c_before_the_first_checkpoint(data, tmp_path, monkeypatch):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(base, "learn_inputs", interrupted)
    result = call("fit", data, "--target", "y", "--model", tmp_path / "m.fpovi", *LONG)
    assert result.exit_code == 130
    assert result.stderr == "fpovi: stopped; nothing was written\n"
    assert [file.name for file in tmp_path.iterdir()] == ["data.csv"]


def test_a_checkpoint_of_another_fit_is_refused_and_kept(data, tmp_path):
    command = ["fit", data, "--target", "y", "--model", tmp_path / "m.fpovi", *LONG]
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, 1)
        call(*command)
    before = (tmp_path / "m.fpovi.checkpoint").read_bytes()
    assert "belongs to a fit of other data or settings" in refusal(*command, "--seed", "1")
    assert (tmp_path / "m.fpovi.checkpoint").read_bytes() == before


def test_a_disk_that_is_full_when_the_model_is_written_does_not_cost_the_fit(data, tmp_path):
    def full(model, path, force):
        raise FileError(f"{path} cannot be written: No space left on device")

    command = ["fit", data, "--target", "y", "--checkpoint", tmp_path / "kept", *LONG, "--model"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "write_model", full)
        said = refusal(*command, tmp_path / "m.fpovi")
    assert said == (
        f"{tmp_path / 'm.fpovi'} cannot be written: No space left on device; the fit is kept in {tmp_path / 'kept'}: "
        "mend this and run the same command"
    )
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, 0)  # not a step more is needed
        good(*command, tmp_path / "elsewhere.fpovi")
    assert load(tmp_path / "elsewhere.fpovi").target_names_ == ("y",)
    assert not (tmp_path / "kept").exists()
