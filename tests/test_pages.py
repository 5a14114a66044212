# SPDX-License-Identifier: Apache-2.0
"""Tables of pages show the rows of the preset they name, and leave the rest of the page alone."""

import pytest

from fpovi.experiments.store import Cell, Row, Store
from fpovi.pages import render, rows_of

METRICS = {"rmse": 2.5, "nll": 2.4, "crps": 1.0, "coverage_95": 0.9}


@pytest.fixture
def results(tmp_path):
    """Two splits of the preset paper, one of quick, one with another seed."""
    store = Store(tmp_path / "uci.jsonl")
    for split, preset, seed in ((1, "paper", 0), (0, "paper", 0), (0, "quick", 0), (0, "paper", 5)):
        store.append(Row(Cell("uci", "f-svgd", "boston", split, seed, preset), METRICS, 1.0, {}))
    return tmp_path


def test_a_page_gets_the_table_of_a_preset(results):
    page = "before\n<!-- table: uci paper -->\nold\n<!-- end -->\nafter\n"
    made = render(page, results)
    assert made.startswith("before\n<!-- table: uci paper -->\n| set | method |")
    assert made.endswith("| 1 |\n<!-- end -->\nafter\n")
    assert "2.54 ± 0.11" in made
    assert render(made, results) == made


def test_rows_are_those_of_the_command(results):
    assert [(row.cell.split, row.cell.seed) for row in rows_of("uci", "paper", results)] == [(0, 0), (1, 0)]
    assert len(rows_of("uci", "quick", results)) == 1
    assert rows_of("kernels", "paper", results) == rows_of("uci", "paper", results)
    assert rows_of("uci-deep", "paper", results) == []
