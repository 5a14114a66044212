# SPDX-License-Identifier: Apache-2.0
"""Cells, table and figure of ``complexity``, on posteriors that are known."""

import numpy as np
import pytest

from fpovi.experiments.harness.experiment import Options
from fpovi.experiments.harness.store import Row, Store
from fpovi.experiments.sine import complexity
from fpovi.experiments.sine.posteriors import PosteriorDraws
from fpovi.plots import save

pytestmark = pytest.mark.usefixtures("loose_dtypes")


def normal_rows(monkeypatch, folder):
    """Rows of known posteriors: NUTS N(0, 1), function space N(0, 1) or nearly so, weight space N(0, .1²)."""
    rng = np.random.default_rng(0)
    spread = {"nuts": 1.0, "gp": 2.0, "f_svgd": 0.9, "f_gfsf": 1.0, "w_svgd": 0.1, "w_gfsf": 0.1}

    def posterior(method, width):
        facts = {"rhat": 1.0, "ess": 1.0} if method == "nuts" else {}
        count = 2000 if method == "nuts" else 50
        return lambda *_: PosteriorDraws(spread[method] * rng.normal(size=(count, complexity.COARSE_GRID.size)), facts)

    monkeypatch.setattr(complexity, "posterior", posterior)
    store = Store(folder / "rows.jsonl")
    for cell in complexity.cells(Options()):
        store.append(Row(cell, complexity.run_cell(cell, store=store), 0.0, {}))
    return store.rows()


def test_every_width_is_measured_against_its_own_reference(monkeypatch, tmp_path):
    cells = complexity.cells(Options("paper"))
    assert len(cells) == 5 * 5 * 6
    assert {complexity.reference_of(cell).dataset for cell in cells} == {"5", "10", "20", "50", "100"}
    lines = complexity.table(normal_rows(monkeypatch, tmp_path))
    collapsed = next(line for line in lines if line["method"] == "w_svgd")
    # N(0, .1²) against N(0, 1): W2 = .9, a tenth of the spread; both to the error of fifty draws
    assert collapsed["w2"] == pytest.approx(0.9, abs=0.03)
    assert collapsed["spread_data"] == pytest.approx(0.1, abs=0.01)


def test_figure_and_table_come_from_rows(monkeypatch, tmp_path):
    rows = normal_rows(monkeypatch, tmp_path)
    assert all(path.stat().st_size > 10_000 for path in save(complexity.figure(rows), tmp_path / "figure"))
    view = complexity.view(rows)
    assert len(view.lines) == len(rows)
    assert {view.lines[number][1] for number in view.bold} == {"f-GFSF"}


def test_unknown_names_are_told():
    with pytest.raises(ValueError, match="dataset='7' is not known"):
        complexity.cells(Options(datasets=("7",)))
    with pytest.raises(ValueError, match="method='hmc' is not known"):
        complexity.cells(Options(methods=("hmc",)))
