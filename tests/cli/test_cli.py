# SPDX-License-Identifier: Apache-2.0
"""The command as a user meets it."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import fpovi
from fpovi.cli import app
from fpovi.datasets.uci import Split
from fpovi.experiments import defaults
from fpovi.experiments.registry import EXPERIMENTS

ROOT = Path(__file__).parents[2]
UNKNOWN = f"experiment='unknown' is not known; choose one of {', '.join(sorted(EXPERIMENTS))}"


@pytest.fixture
def finished(tmp_path):
    """A folder in which all methods have run already."""
    shutil.copy(ROOT / "results" / "synthetic.jsonl", tmp_path / "synthetic.jsonl")
    return tmp_path


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_version_and_help():
    assert call("--version").output.strip() == f"fpovi {fpovi.__version__}"
    assert "demo" in call("--help").output
    assert "--preset" in call("reproduce", "--help").output


def test_demo_shows_a_table_and_writes_the_figure(finished):
    result = call("demo", "--out", finished)
    assert result.exit_code == 0, result.output
    for word in ("f-SVGD", "weight-space SVGD", "NUTS, 50 draws", "R̂"):
        assert word in result.output
    assert (finished / "synthetic-quick-seed3.png").exists()
    assert (finished / "synthetic-quick-seed3.svg").exists()


def test_demo_as_json(finished):
    result = call("demo", "--out", finished, "--json")
    table = json.loads(result.output)["table"]
    assert {"method", "w2_all", "spread_outside"} <= set(table[0])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["reproduce", "unknown"], UNKNOWN),
        (
            ["reproduce", "synthetic", "--preset", "fast"],
            "preset='fast' is not known; choose one of kernels, paper, quick",
        ),
    ],
)
def test_bad_input_is_one_line_and_a_non_zero_exit(arguments, said, tmp_path):
    result = call(*arguments, "--out", tmp_path)
    assert result.exit_code == 2
    assert result.stderr.strip() == f"fpovi: {said}"


def test_a_broken_results_file_is_one_line(tmp_path):
    (tmp_path / "synthetic.jsonl").write_text("not json\n")
    result = call("demo", "--out", tmp_path)
    assert result.exit_code == 2
    assert "line 1 is not a result row" in result.stderr
    assert "Traceback" not in result.stderr


def test_an_output_folder_that_is_a_file_is_one_line(tmp_path):
    (tmp_path / "taken").write_text("")
    result = call("demo", "--out", tmp_path / "taken")
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1


def test_a_library_that_is_not_installed_is_one_line_that_says_what_to_run(tmp_path, monkeypatch):
    table = np.random.default_rng(0).normal(size=(8, 3))
    split = Split(table[:6, :2], table[:6, 2], table[6:, :2], table[6:, 2])
    monkeypatch.setattr(defaults, "load_split", lambda name, draw, number: split)
    monkeypatch.setitem(sys.modules, "ngboost", None)
    result = call("reproduce", "defaults", "--methods", "ngboost", "--datasets", "yacht", "--out", tmp_path)
    assert result.exit_code == 2
    said = "method ngboost needs ngboost, which is not installed: pip install fpovi[compare]"
    assert result.stderr.strip() == f"fpovi: {said}"


def test_module_and_command_are_one_program():
    done = subprocess.run([sys.executable, "-m", "fpovi", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"fpovi {fpovi.__version__}"
