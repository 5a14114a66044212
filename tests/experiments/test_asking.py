# SPDX-License-Identifier: Apache-2.0
"""Rows asked for against rows at random: test functions, what a row says, and what the table shows."""

import matplotlib.figure
import numpy as np
import pytest
from scipy.optimize import minimize

from fpovi.experiments import asking
from fpovi.experiments.asking import FUNCTIONS, LABELS, RANDOM, TASKS
from fpovi.experiments.harness.experiment import Options
from fpovi.experiments.harness.store import Cell, Row
from fpovi.experiments.harness.view import markdown


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_have_the_minimum_they_are_known_for(name):
    function = FUNCTIONS[name]
    at_random = np.random.default_rng(0).uniform(size=(2000, function.dimension))
    starts = at_random[np.argsort(function.values(at_random))[:20]]  # Hartmann has other minima too
    bounds = [(0, 1)] * function.dimension
    values = [minimize(lambda x: float(function.values(x[None])[0]), start, bounds=bounds).fun for start in starts]
    # as published, to so many digits
    assert min(values) == pytest.approx(function.minimum, abs=1e-5)


def test_branin_has_its_three_minima():
    u, v = np.array([-np.pi, np.pi, 3 * np.pi]), np.array([12.275, 2.275, 2.475])
    values = FUNCTIONS["branin"].values(np.column_stack([(u + 5) / 15, v / 15]))
    np.testing.assert_allclose(values, 0.397887, atol=1e-4)  # the published places have three decimals


def test_random_rows_are_a_run_without_a_fit():
    found = asking.run_cell(Cell("asking", RANDOM, "branin", 0, 0, "quick"))
    assert len(found["trace"]) == 1 + TASKS["branin"].rounds
    assert found["trace"] == sorted(found["trace"], reverse=True)
    assert found["end"] == found["trace"][-1] > 0
    assert found["mean"] == pytest.approx(np.mean(found["trace"]))


def test_methods_start_from_the_same_rows(monkeypatch, loose_dtypes):
    monkeypatch.setitem(TASKS, "branin", TASKS["branin"]._replace(rounds=1))
    starts = {
        method: asking.run_cell(Cell("asking", method, "branin", 3, 0, "quick"))["trace"][0]
        for method in (RANDOM, "expected_improvement")
    }
    assert len(set(starts.values())) == 1


def test_presets():
    assert len(asking.cells(Options("full"))) == 10 * sum(len(task.methods) for task in TASKS.values())
    assert {cell.method for cell in asking.cells(Options("quick"))} == {RANDOM, "bald", "expected_improvement"}
    chosen = asking.cells(Options("full", datasets=("branin",), splits=2, methods=("thompson",)))
    assert [(cell.dataset, cell.method, cell.split) for cell in chosen] == [("branin", "thompson", n) for n in (0, 1)]
    with pytest.raises(ValueError, match="dataset='ackley' is not known; choose one of branin, digits, hartmann"):
        asking.cells(Options("full", datasets=("ackley",)))


@pytest.fixture
def rows():
    traces = {RANDOM: [8.0, 4.0, 2.0], "expected_improvement": [8.0, 2.0, 1.0]}
    return [
        Row(Cell("asking", method, "branin", split, 0, "full"),
            {"end": trace[-1] + split / 10, "mean": float(np.mean(trace)), "trace": [*trace, *trace[-1:] * 6]}, 1.0, {})
        for method, trace in traces.items() for split in range(3)
    ]  # fmt: skip


def test_the_table_says_when_random_rows_are_reached(rows):
    lines = markdown(asking.view(rows)).splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:]]
    task = TASKS["branin"]
    assert [cell[-1] for cell in cells] == [str(task.start + 2 * task.batch), str(task.start + task.batch)]
    assert cells[1][1] == LABELS["expected_improvement"]
    assert cells[1][3] == "**-1**"


def test_the_figure_has_a_panel_per_task(rows):
    drawing = asking.figure(rows)
    assert isinstance(drawing, matplotlib.figure.Figure)
    assert len(drawing.axes) == 1
