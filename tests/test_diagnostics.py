# SPDX-License-Identifier: Apache-2.0
"""Findings of `diagnose` for histories and functions made to provoke them."""

import json

import numpy as np
import pytest
from scipy.stats import norm, poisson

from fpovi.diagnostics import Diagnostics, Finding, base_rate, diagnose
from fpovi.types import Info, Support

RNG = np.random.default_rng(0)
ON, OFF = 0.1 * RNG.normal(size=(8, 20, 1)), 2 * RNG.normal(size=(8, 20, 1))


def history(steps=100, **changes):
    """A run that settled: everything constant but for ``changes``."""
    plain = {name: np.ones(steps, np.float32) for name in Info._fields}
    return Info(**{**plain, "finite": np.ones(steps, bool), **changes})


def finding(name, *args):
    (found,) = (one for one in diagnose(*args).findings if one.name == name)
    return found


def test_a_sound_fit_is_fine():
    found = diagnose(history(), ON, OFF, 0.3, 0.5)
    assert found.fine
    assert found.complaints == ()
    assert {one.name for one in found.findings} == {"skill", "convergence", "balance", "collapse", "growth", "noise"}


@pytest.mark.parametrize(
    ("name", "args", "verdict"),
    [
        ("convergence", (history(log_likelihood=np.linspace(0, 10, 100)), ON, OFF, 0.3), "still rising"),
        ("convergence", (history(log_likelihood=np.linspace(10, 0, 100)), ON, OFF, 0.3), "falling"),
        ("convergence", (history(5), ON, OFF, 0.3), "too few steps"),
        ("convergence", (history(1), ON, OFF, 0.3), "too few steps"),
        ("balance", (history(prior_norm=np.full(100, 1e6)), ON, OFF, 0.3), "prior is in charge"),
        ("balance", (history(likelihood_norm=np.zeros(100)), ON, OFF, 0.3), "prior is in charge"),
        ("collapse", (history(), ON, np.broadcast_to(OFF[:1], OFF.shape), 0.3), "say the same"),
        ("growth", (history(), OFF, ON, 0.3), "does not grow"),
        ("particles", (history(), ON[:1], OFF[:1], 0.3), "single particle"),
        ("skill", (history(), ON, OFF, 0.3, 0.01), "no better than a model that looks at no input"),
        ("noise", (history(), ON, OFF, 1.0), "almost nothing is explained"),
        ("noise", (history(), ON, OFF, 1e-5), "interpolated"),
    ],
)
def test_what_is_wrong_is_said_with_a_remedy(name, args, verdict):
    found = finding(name, *args)
    assert not found.fine
    assert verdict in found.verdict
    assert found.remedy
    assert np.isfinite(found.value)
    assert f"try {found.remedy}" in str(diagnose(*args))


def test_a_noisy_but_level_run_has_settled():
    ups_and_downs = RNG.normal(size=300)
    assert finding("convergence", history(log_likelihood=ups_and_downs), ON, OFF, 0.3).fine


def test_the_likelihood_alone_in_charge_is_fine():
    found = finding("balance", history(prior_norm=np.zeros(100)), ON, OFF, 0.3)
    assert found.fine
    assert "data alone" in found.verdict


@pytest.mark.parametrize("steps", [1, 2, 9, 10, 11, 19, 20, 1000])
def test_runs_of_any_length_are_diagnosed(steps):
    found = diagnose(history(steps), ON, OFF, None)
    assert all(np.isfinite(one.value) for one in found.findings)
    assert "noise" not in {one.name for one in found.findings}


def test_particles_all_alike_everywhere_give_finite_numbers():
    found = diagnose(history(), np.zeros((4, 3, 1)), np.zeros((4, 3, 1)), 0.0)
    assert all(np.isfinite(one.value) for one in found.findings)
    assert {one.name for one in found.complaints} == {"collapse", "growth", "noise"}


def test_findings_survive_json():
    found = diagnose(history(log_likelihood=np.linspace(0, 10, 100)), ON, OFF, 1.0)
    assert Diagnostics.from_json(json.loads(json.dumps(found.to_json()))) == found


@pytest.mark.parametrize("fields", [None, 5, "abc", [None], [{}], [{"name": "noise"}], {"name": 1}, [["name"]]])
def test_other_json_is_refused(fields):
    with pytest.raises(ValueError, match="findings"):
        Diagnostics.from_json(fields)


def test_values_that_are_no_numbers_are_refused():
    one = Finding("noise", 1.0, True, "fine")._asdict()
    with pytest.raises(ValueError, match="findings"):
        Diagnostics.from_json([{**one, "value": "much"}])


def test_the_base_rate_is_the_best_that_looks_at_no_input():
    weight = np.asarray([1.0, 2.0, 1.0, 0.0])
    labels = np.asarray([[0], [1], [0], [2]])
    assert base_rate(Support.CLASSES, labels, weight) == pytest.approx(np.log(0.5))
    numbers = RNG.normal(size=(4, 2))
    mean = np.average(numbers, axis=0, weights=weight)
    std = np.sqrt(np.average((numbers - mean) ** 2, axis=0, weights=weight))
    normal = np.average(norm.logpdf(numbers, mean, std).sum(axis=1), weights=weight)
    assert base_rate(Support.REAL, numbers, weight) == pytest.approx(normal)
    counts = np.asarray([[3], [0], [5], [9]])
    rate = np.average(counts[:, 0], weights=weight)
    expected = np.average(poisson.logpmf(counts[:, 0], rate), weights=weight)
    assert base_rate(Support.COUNTS, counts, weight) == pytest.approx(expected)
