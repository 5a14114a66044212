# SPDX-License-Identifier: Apache-2.0
"""Tables and figures of pages show the rows of the preset they name; the rest of a page is left alone."""

import re
from pathlib import Path

import pytest
from pages import draw_figures, render, rows_of

from fpovi.experiments.harness.store import Cell, Row, Store

METRICS = {"rmse": 2.5, "nll": 2.4, "crps": 1.0, "coverage_95": 0.9}


@pytest.fixture
def results(tmp_path):
    """Two splits of the preset paper, one of quick, one with another seed, one drawn at random."""
    store = Store(tmp_path / "uci.jsonl")
    for split, preset, seed in ((1, "paper", 0), (0, "paper", 0), (0, "quick", 0), (0, "paper", 5)):
        store.append(Row(Cell("uci", "f-svgd", "boston", split, seed, preset), METRICS, 1.0, {}))
    drawn = Cell("uci", "f-svgd", "boston", 0, 0, "paper", "random")
    store.append(Row(drawn, {**METRICS, "rmse": 9.75}, 1.0, {}))
    return tmp_path


def test_a_page_gets_the_table_of_a_preset(results):
    page = "before\n<!-- table: uci paper -->\nold\n<!-- end -->\nafter\n"
    made = render(page, results)
    assert made.startswith("before\n<!-- table: uci paper -->\n| set | method |")
    assert made.endswith("| 1 |\n<!-- end -->\nafter\n")
    assert "2.54 ± 0.11" in made
    assert render(made, results) == made


def test_a_page_may_show_random_splits(results):
    made = render("<!-- table: uci paper random -->\n<!-- end -->", results)
    assert made.startswith("<!-- table: uci paper random -->\n| set |")
    assert "9.75" in made
    assert "9.75" not in render("<!-- table: uci paper -->\n<!-- end -->", results)


def test_rows_are_those_of_the_command(results):
    assert [(row.cell.split, row.cell.seed) for row in rows_of("uci", "paper", results)] == [(0, 0), (1, 0)]
    assert len(rows_of("uci", "quick", results)) == 1
    assert rows_of("kernels", "paper", results) == rows_of("uci", "paper", results)
    assert rows_of("uci-deep", "paper", results) == []


def test_a_page_gets_the_figures_it_shows(results, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("![chart](figures/uci-paper.png) and ![another's](figures/some-thing.png)")
    assert draw_figures(page, results) == [tmp_path / "figures" / "uci-paper.png"]
    assert (tmp_path / "figures" / "uci-paper.png").stat().st_size > 5_000
    page.write_text("![chart](figures/uci-best.png)")
    with pytest.raises(ValueError, match="no rows of that preset"):
        draw_figures(page, results / "nowhere")


def test_every_figure_of_a_page_is_there():
    root = Path(__file__).parents[2]
    shown = [
        (page, path)
        for page in (root / "README.md", *sorted((root / "docs").glob("*.md")))
        for path in re.findall(r"\]\(([^)]*\.png)\)", page.read_text())
    ]
    assert shown
    assert [(page.name, path) for page, path in shown if not (page.parent / path).exists()] == []
