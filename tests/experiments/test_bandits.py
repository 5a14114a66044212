# SPDX-License-Identifier: Apache-2.0
"""Bandits: which cells a preset has, what a row says, and the table and figure made of rows."""

import os

import numpy as np
import pytest

from fpovi.bandits import Played, Rewards, Stream, draw, wheel
from fpovi.experiments.bandits import EXPERIMENTS, methods, problems, run
from fpovi.experiments.harness.experiment import Options
from fpovi.experiments.harness.store import Cell, Row
from fpovi.experiments.harness.view import markdown

pytestmark = pytest.mark.usefixtures("loose_dtypes")  # optax mixes whole and real numbers
needs_data = pytest.mark.skipif(not os.environ.get("FPOVI_DATA"), reason="FPOVI_DATA names no data folder")


def test_every_method_has_a_name_and_a_look():
    from fpovi.experiments.bandits.figure import LOOKS

    assert set(methods.METHODS) == set(methods.LABELS) == set(LOOKS)
    assert {method for _, method in problems.PUBLISHED} <= set(methods.METHODS)
    assert {dataset for dataset, _ in problems.PUBLISHED} <= set(problems.PROBLEMS)


def test_presets_have_the_papers_problems_with_more_seeds():
    cells = run.cells(Options("paper"))
    count = lambda dataset: len({cell.seed for cell in cells if cell.dataset == dataset})  # noqa: E731
    assert [count(name) for name in problems.PAPER] == [10, 10]
    assert [count(name) for name in run.OTHERS] == [3] * 5
    assert [run.rounds_of(Cell("bandit", "gp", name, preset="paper")) for name in ("mushroom", "hpc")] == [
        50_000,
        10_000,
    ]
    assert [cell.seed for cell in cells] == sorted(cell.seed for cell in cells)  # three seeds of everything come first
    assert {cell.seed for cell in run.cells(Options("paper", splits=3))} == {0, 1, 2}
    chosen = run.cells(Options("paper", seed=7, datasets=("hpc",), methods=("linear",)))
    assert chosen == [Cell("bandit", "linear", "hpc", 0, 7, "paper")]


@needs_data
@pytest.mark.parametrize("name", problems.PROBLEMS)
def test_every_problem_can_be_played(name, monkeypatch):
    monkeypatch.setattr(run, "rounds_of", lambda cell: 120)
    found = run.run_cell(Cell("bandit", "linear", name))
    assert found["rounds"] == 120
    assert found["curve"]["rounds"][-1] == 120
    assert found["curve"]["regret"][-1] == found["regret"]
    assert found["pseudo_regret"] >= 0
    assert ("wheel" in found) == name.startswith("wheel")


@pytest.mark.parametrize("name", methods.METHODS)
def test_every_method_can_be_made_and_is_made_once(name):
    assert methods.make_method(name, True) is methods.make_method(name, True)
    assert methods.make_method(name, False).every >= 1


def test_a_row_counts_what_was_lost():
    drawn = np.array([[1.0, 0.0]] * 100)
    stream = Stream(("a", "b"), np.zeros((100, 1)), Rewards(drawn, drawn))
    columns = (np.arange(100) >= 50).astype(int)
    probabilities = np.tile(np.array([0.25, 0.75], np.float32), (100, 1))
    found = run.scores(stream, Played(columns, probabilities, drawn[np.arange(100), columns]), "expected")
    assert found["regret"] == pytest.approx(100)  # half of all rounds, as uniform choice loses
    assert found["curve"]["regret"][:50] == [0] * 50
    assert found["reward"] == 50
    propensities = found["propensities"]
    assert [propensities["count"][2], propensities["count"][7]] == [100, 100]
    assert propensities["stated"][2] == pytest.approx(0.25)
    assert propensities["chosen"][2] == pytest.approx(0.5)


def test_a_picture_of_the_wheel_counts_every_round():
    stream = draw(wheel(0.5), 400)
    played = Played(np.arange(400) % 5, np.zeros((400, 5), np.float32), np.zeros(400))
    found = run.where_explored(stream, played)
    assert np.sum(found["all"], axis=(1, 2)).tolist() == [100] * 4
    assert np.sum(found["explored"], axis=(1, 2)).tolist() == [80] * 4


def rows():
    found = []
    for dataset in problems.PAPER:
        for number, method in enumerate(("f-svgd", "bootstrap")):
            for seed in range(3):
                stream = draw(wheel(0.5), 200, seed)
                columns = np.random.default_rng(seed).integers(number, 5, size=200)
                played = Played(columns, np.full((200, 5), 0.2, np.float32), np.zeros(200))
                metrics = run.scores(stream, played, "realised")
                if dataset != "mushroom":
                    metrics["wheel"] = run.where_explored(stream, played)
                found.append(Row(Cell("bandit", method, dataset, 0, seed, "paper"), metrics, 60.0, {}))
    return found


def test_the_table_has_published_numbers_beside_ours():
    text = markdown(EXPERIMENTS["bandit"].view(rows()))
    assert "| mushroom | f-SVGD |" in text
    assert "4.39 ± 0.39" in text
    assert "42.16 ± 7.80" in text
    assert "| 200 | 3 | 1.0 |" in text


def test_the_figure_has_a_panel_for_each_problem_and_a_wheel_for_each_agent():
    drawing = EXPERIMENTS["bandit"].figure(rows())
    assert len(drawing.get_axes()) == 2 + 1 + 2 * run.PHASES
