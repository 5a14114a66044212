# SPDX-License-Identifier: Apache-2.0
"""``fpovi fit --devices``, in a process of its own: how many devices there are is settled when JAX wakes up."""

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from fpovi.estimators import load
from support.commands import good
from support.small_fits import plane

QUICK = ["--prior", "nngp", "--epochs", "20", "--particles", "4", "--hidden", "8"]


@pytest.fixture
def data(tmp_path):
    x, y = plane()
    pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": y}).to_csv(tmp_path / "data.csv", index=False)
    return tmp_path / "data.csv"


def fit_on_two(data, model, *options):
    command = [sys.executable, "-m", "fpovi", "fit", data, "--target", "y", "--model", model, *QUICK, *options]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "2"}
    environment["XDG_CACHE_HOME"] = str(data.parent)  # the programs of tests are no others' business
    return subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, check=False)


def test_two_devices_fit_the_model_of_one(data, tmp_path):
    one, two = tmp_path / "one.fpovi", tmp_path / "two.fpovi"
    good("fit", data, "--target", "y", "--model", one, *QUICK)
    done = fit_on_two(data, two, "--devices", "2")
    assert done.returncode == 0, done.stderr
    assert "4 of 2-8-1 units, 20 steps" in done.stdout
    rows = pd.read_csv(data)[["a", "b"]]
    answers = [load(path).predict(rows, return_std=True) for path in (one, two)]
    # sums are taken in another order: 1e-7 in single precision, which twenty steps of Adam let grow
    np.testing.assert_allclose(answers[1], answers[0], atol=1e-4)


def test_particles_that_all_devices_cannot_share_are_one_line(data, tmp_path):
    done = fit_on_two(data, tmp_path / "model.fpovi", "--devices", "all", "--particles", "3")
    assert done.returncode == 2
    assert done.stderr == (
        "fpovi: n_particles=3 cannot be split evenly over 2 devices: use a multiple of 2 particles\n"
    )
    assert not (tmp_path / "model.fpovi").exists()
