# SPDX-License-Identifier: Apache-2.0
"""A member added to a family's table is known to estimators, command line and bench, without another line."""

from functools import wraps

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fpovi import BNNRegressor, load
from fpovi.bench.contestants import list_contestants
from fpovi.bench.settings import Setting
from fpovi.cli import app
from fpovi.fitting.parts import part_names
from fpovi.flows import FLOWS, svgd
from fpovi.kernels import KERNELS, rbf
from fpovi.likelihoods import LIKELIHOODS, gaussian
from fpovi.measurement import MEASUREMENTS, mixup
from fpovi.networks import ACTIVATIONS
from fpovi.priors import PRIORS, nngp
from support.small_fits import SETTINGS, plane

# the smallest members: each is one that exists, by another name
MEMBERS = {
    "activation": (ACTIVATIONS, lambda h: h * (h > 0)),
    "flow": (FLOWS, lambda f, score, kernel: svgd(f, score, kernel)),
    "kernel": (KERNELS, lambda: rbf(2.0)),
    "likelihood": (LIKELIHOODS, lambda: gaussian(start=0.3, floor=0.0)),
    "measurement": (MEASUREMENTS, lambda: mixup(5)),
    "prior": (PRIORS, lambda network: nngp(network, jitter=1e-2)),
}


@pytest.fixture(params=MEMBERS)
def toy(request, monkeypatch):
    """The family, with one member more, called "toy"."""
    table, member = MEMBERS[request.param]
    monkeypatch.setitem(table, "toy", member)
    return request.param


def test_estimators_take_it_by_name(toy):
    X, y = plane()
    assert "toy" in part_names(toy)
    by_name = BNNRegressor(**{**SETTINGS, "max_epochs": 3, toy: "toy"}).fit(X, y)
    assert np.isfinite(by_name.predict(X)).all()


def test_a_member_that_takes_the_place_of_another_is_seen(toy, monkeypatch):
    X, y = plane()
    spec_of = lambda: BNNRegressor(**{**SETTINGS, "max_epochs": 1, toy: "toy"}).fit(X, y).fitted_.spec  # noqa: E731
    table, before = MEMBERS[toy][0], spec_of()
    assert getattr(spec_of(), toy) is getattr(before, toy)
    former = table["toy"]
    monkeypatch.setitem(table, "toy", wraps(former)(lambda *args, **kwargs: former(*args, **kwargs)))
    assert getattr(spec_of(), toy) is not getattr(before, toy)


def test_the_command_line_takes_it_by_name(toy, tmp_path):
    X, y = plane()
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y}).to_csv(tmp_path / "rows.csv", index=False)
    arguments = ["--model", str(tmp_path / "m"), "--target", "y", "--epochs", "3", "--particles", "4", "--hidden", "8"]
    arguments += [] if toy == "prior" else ["--prior", "flat"]
    done = CliRunner().invoke(app, ["fit", str(tmp_path / "rows.csv"), *arguments, f"--{toy}", "toy"])
    assert done.exit_code == 0, done.output
    assert load(tmp_path / "m").get_params()[toy] == "toy"


@pytest.mark.parametrize("toy", ["flow", "prior"], indirect=True)
def test_the_bench_times_it(toy):
    flow, prior = ("toy", "flat") if toy == "flow" else ("svgd", "toy")
    contestant = {each.name: each for each in list_contestants()}[f"function:{flow}:{prior}"]
    contestant.prepare(Setting("tiny", (2, 3, 1), batch=4, extra=2, n=2, prior_points=2))(2)


@pytest.mark.parametrize(("argument", "name"), [("prior", "gaussian_process"), ("measurement", "points")])
def test_a_member_that_needs_more_is_refused_with_what_it_needs(argument, name):
    with pytest.raises(ValueError, match=f"{argument}={name!r} needs .* from you: give the object, fpovi"):
        BNNRegressor(**{**SETTINGS, argument: name}).fit(*plane())
