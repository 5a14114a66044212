# SPDX-License-Identifier: Apache-2.0
"""Whoever waits for the evidence sees how far it is."""

import jax
import pytest
from rich.progress import Progress

from fpovi.estimators.regressor import BNNRegressor
from fpovi.fitting.model_file import PARTS
from fpovi.fitting.parts import make_spec
from fpovi.networks import fan_in_scales
from fpovi.selection import scales
from support.small_fits import plane

pytestmark = pytest.mark.usefixtures("loose_dtypes")  # fits: optax mixes whole and real numbers


@pytest.fixture
def shown(monkeypatch):
    """What a bar was told, and whether it was to be quiet."""
    told = []

    class Recorder(Progress):
        def add_task(self, description, **fields):
            told.append((description, fields["total"], fields["note"]))
            return super().add_task(description, **fields)

        def update(self, task, **fields):
            told.append((fields["completed"], fields["total"], fields["note"]))

    def recorder(quiet):
        told.append(quiet)
        return Recorder(disable=True)

    monkeypatch.setattr(scales, "progress_bar", recorder)
    return told


@pytest.mark.parametrize("verbose", [True, False])
def test_a_bar_follows_the_search_for_the_most_evidence(monkeypatch, shown, verbose):
    best = fan_in_scales((2, 8, 1))

    def searched(*args, watch, **kwargs):
        for done in range(1, 4):
            watch(done, 3, -10.0 / done)
        return best

    monkeypatch.setattr(scales, "evidence", searched)
    settings = BNNRegressor().get_params()
    spec = make_spec((2, 8, 1), {name: settings[name] for name in PARTS})
    x, y = plane()
    found = scales.candidate_scales(jax.random.key(0), "auto", spec, (x, y[:, None], y * 0 + 1), verbose)
    assert found == [best, best]  # a scale per feature, and one for all
    once = [
        ("evidence", 1, "compiling"),
        (1, 3, "log-evidence -10.0"),
        (2, 3, "log-evidence -5.0"),
        (3, 3, "log-evidence -3.3"),
    ]
    assert shown == [not verbose, *once, *once]
