# SPDX-License-Identifier: Apache-2.0
"""The cells of ``defaults`` are those a user asks for, and run on the splits they name."""

import numpy as np
import pytest

from fpovi.experiments import defaults
from fpovi.experiments.harness.experiment import Options
from fpovi.experiments.harness.store import Cell
from support.small_splits import a_split


def test_cells_are_what_was_asked_for():
    asked = Options(seed=3, datasets=("yacht",), splits=2, methods=("gp",), split_kind="random")
    assert defaults.cells(asked) == [Cell("defaults", "gp", "yacht", split, 3, "quick", "random") for split in (0, 1)]
    assert {cell.method for cell in defaults.cells(Options())} == set(defaults.METHODS)
    with pytest.raises(ValueError, match="method='gpp' is not known"):
        defaults.cells(Options(methods=("gpp",)))


def test_a_cell_runs_on_its_own_split(monkeypatch):
    asked = []

    def load_split(*place):
        asked.append(place)
        return a_split()

    monkeypatch.setattr(defaults, "load_split", load_split)
    found = defaults.run_cell(Cell("defaults", "gp", "yacht", 4, split_kind="random"))
    assert asked == [("yacht", "random", 4)]
    assert np.isfinite(found["nll"])
    assert found["rmse"] < 5  # y is 100 + 10 x with a standard deviation of 20
