# SPDX-License-Identifier: Apache-2.0
"""Cells keep the curves of a run, and table and figure summarise them."""

import json
import os

import pytest

from fpovi.experiments.harness.experiment import Options
from fpovi.experiments.harness.store import Cell, Row
from fpovi.experiments.registry import EXPERIMENTS
from fpovi.experiments.uci import convergence
from fpovi.experiments.uci.setups import SETUPS
from fpovi.plots import save

needs_data = pytest.mark.skipif(not os.environ.get("FPOVI_DATA"), reason="FPOVI_DATA names no folder with data files")


def row(method, test_nll, valid_nll, split=0):
    metrics = {"epochs": [20, 40, 60], "test_nll": test_nll, "valid_nll": valid_nll}
    return Row(Cell("convergence", method, "concrete", split), metrics, 1.0, {})


ROWS = [row("f-svgd", [3.5, 3.1, 3.2], [3.4, 3.3, 3.0]), row("f-svgd", [3.7, 3.3, 3.0], [3.3, 3.2, 3.4], split=1),
        row("ensemble", [3.6, 3.5, 3.4], [3.6, 3.5, 3.4])]  # fmt: skip


def test_cells_are_the_papers_set_and_choices_are_checked():
    cells = EXPERIMENTS["convergence"].cells(Options("paper"))
    assert {cell.dataset for cell in cells} == {"concrete"}
    assert len(cells) == 5 * len(convergence.METHODS)
    assert SETUPS[convergence.SETUP].presets["paper"].epochs == (1000, 1000)
    for choice in ({"preset": "best"}, {"datasets": ("iris",)}, {"methods": ("gp",)}, {"split_kind": "lucky"}):
        with pytest.raises(ValueError, match="is not known"):
            convergence.cells(Options(**choice))


def test_validation_rows_choose_the_epoch_of_the_test_score():
    assert convergence.chosen_epoch(ROWS[0].metrics) == (60, 3.2)
    assert convergence.chosen_epoch(ROWS[1].metrics) == (40, 3.3)


def test_a_line_per_method_in_means_over_splits():
    view = EXPERIMENTS["convergence"].view(ROWS)
    ours, other = view.records
    assert ours["last"] == pytest.approx((3.2 + 3.0) / 2)
    assert ours["lowest"] == pytest.approx((3.1 + 3.0) / 2)
    assert ours["rise"] == pytest.approx(0.05)
    assert ours["chosen"] == pytest.approx((3.2 + 3.3) / 2)
    assert ours["change"] == pytest.approx((0.1 + 0.3) / 2)  # from the second report to the third
    assert other["epoch"] == 60
    assert [line[:2] for line in view.lines] == [["concrete", "f-SVGD"], ["", "deep ensemble"]]
    json.dumps(view.records, allow_nan=False)


def test_the_figure_has_a_line_per_method(tmp_path):
    drawing = EXPERIMENTS["convergence"].figure(ROWS)
    [panel] = drawing.axes
    assert [text.get_text() for text in panel.get_legend().get_texts()] == ["f-SVGD", "deep ensemble"]
    assert all(path.stat().st_size > 5_000 for path in save(drawing, tmp_path / "convergence"))


@needs_data
@pytest.mark.usefixtures("loose_dtypes")
def test_a_cell_on_real_data(monkeypatch):
    """A short run with two reports, in which the test rows become more probable."""
    preset = SETUPS[convergence.SETUP].presets["quick"]
    monkeypatch.setitem(SETUPS[convergence.SETUP].presets, "quick", preset._replace(epochs=(40, 40)))
    found = convergence.run_cell(Cell("convergence", "ensemble", "yacht"))
    assert found["epochs"] == [20, 40]
    assert found["test_nll"][1] < found["test_nll"][0]
    assert len(found["valid_nll"]) == 2
