# SPDX-License-Identifier: Apache-2.0
"""Rows are compared with the same cells run again: what agrees, what differs, and what cannot be judged."""

import json
import math
from functools import partial

import numpy as np
import pytest
from typer.testing import CliRunner

from fpovi.cli import app
from fpovi.experiments.harness.experiment import Experiment, grid, label_of_split
from fpovi.experiments.harness.store import Cell, Row, Store, versions
from fpovi.experiments.harness.verify import Tolerance, compare_rows, run_again
from fpovi.experiments.harness.view import View
from fpovi.experiments.registry import EXPERIMENTS
from fpovi.types import DivergedError

HERE, ELSEWHERE = versions(), {**versions(), "processor": "another"}
CELLS = [Cell("toy", "svgd", "a user's own table", split) for split in range(4)]


def truth(cell):
    """Means that spread by about one over splits."""
    return {"rmse": 5.0 + cell.split, "way": "auto", "curve": {"w2": [float(cell.split), 1.0]}}


def rows(made_by=HERE, found=truth, cells=CELLS):
    return [Row(cell, found(cell), 0.1, made_by) for cell in cells]


DEFAULT = Tolerance()


def checks(committed, found, made_by=HERE, tolerance=DEFAULT, others=()):
    row = Row(CELLS[0], committed, 0.1, made_by)
    verified = compare_rows(row, Row(CELLS[0], found, 0.1, HERE), [row, *others], tolerance)
    return {check.metric: check for check in verified.checks}


@pytest.mark.parametrize(
    ("now", "agrees"), [(2.0, True), (2.0 + 1e-6, True), (2.0 + 3e-6, False), (math.nan, False), (math.inf, False)]
)
def test_where_rounding_is_the_same_a_number_may_move_by_a_millionth(now, agrees):
    assert checks({"nll": 2.0}, {"nll": now})["nll"].agrees is agrees


def test_code_may_differ_without_rounding_being_another():
    older = {**HERE, "fpovi": "0.0.1", "revision": "0123456789ab"}
    assert checks({"nll": 2.0}, {"nll": 2.1}, older)["nll"].agrees is False


def test_an_experiment_may_state_another_tolerance():
    assert checks({"nll": 2.0}, {"nll": 2.1}, tolerance=Tolerance(relative=0.1))["nll"].agrees is True


@pytest.mark.parametrize(("moved", "agrees"), [(1.4, True), (-1.4, True), (1.6, False)])
def test_elsewhere_the_limit_is_the_spread_over_rows(moved, agrees):
    others = rows(ELSEWHERE, cells=CELLS[1:])
    deviation = np.std([5.0, 6.0, 7.0, 8.0], ddof=1)
    [check] = checks({"rmse": 5.0}, {"rmse": 5.0 + moved * deviation}, ELSEWHERE, others=others).values()
    assert check.tolerance == pytest.approx(1.5 * deviation)
    assert check.difference == pytest.approx(abs(moved) * deviation)
    assert check.agrees is agrees


def test_other_methods_and_sets_have_no_say_in_the_spread():
    others = rows(ELSEWHERE, cells=[Cell("toy", "gfsf", "a user's own table"), Cell("toy", "svgd", "another")])
    assert checks({"rmse": 5.0}, {"rmse": 9.0}, ELSEWHERE, others=[*others, *others])["rmse"].agrees is None


def test_lists_are_compared_as_a_whole():
    """By root mean squares: of the difference, and of the deviations at each place."""
    others = rows(ELSEWHERE, cells=CELLS[1:])
    found = checks({"curve": {"w2": [0.0, 1.0]}}, {"curve": {"w2": [1.0, 0.0]}}, ELSEWHERE, others=others)["curve.w2"]
    assert found.difference == pytest.approx(1.0)
    assert found.tolerance == pytest.approx(1.5 * np.sqrt((5 / 3) / 2))
    long = checks({"curve": [3.0] * 200}, {"curve": [3.0] * 199 + [3.0 + 3e-5]})["curve"]
    assert (long.tolerance, long.agrees) == (pytest.approx(3e-6), True)
    assert checks({"curve": [1.0, math.nan]}, {"curve": [1.0, math.nan]})["curve"].agrees is True
    assert checks({"curve": [1.0, 2.0]}, {"curve": [1.0]}, ELSEWHERE)["curve"].agrees is False


def test_words_have_to_be_equal_but_a_choice_may_turn_elsewhere():
    assert checks({"way": "auto"}, {"way": "auto"})["way"].agrees is True
    assert checks({"way": "auto"}, {"way": "slow"})["way"].agrees is False
    assert checks({"way": "auto"}, {"way": "slow"}, ELSEWHERE)["way"].agrees is None
    assert checks({"sure": True, "left": None}, {"sure": False, "left": None}, ELSEWHERE)["sure"].agrees is False


@pytest.mark.parametrize("made_by", [HERE, ELSEWHERE])
@pytest.mark.parametrize(("committed", "found"), [({"a": 1.0}, {}), ({}, {"a": 1.0}), ({"a": "b"}, {})])
def test_a_metric_that_is_gone_or_new_is_a_difference(committed, found, made_by):
    assert checks(committed, found, made_by)["a"].agrees is False


@pytest.fixture
def store(tmp_path):
    """Rows of three of four cells."""
    store = Store(tmp_path / "toy.jsonl")
    for row in rows(cells=CELLS[:3]):
        store.append(row)
    return store


def test_only_cells_with_a_row_run_and_the_file_stays(store):
    before, ran = store.path.read_bytes(), []
    found = run_again(CELLS, lambda cell: ran.append(cell) or truth(cell), store, 9)
    assert ran == CELLS[:3]
    assert [(one.cell, one.agrees, one.elsewhere) for one in found] == [(cell, True, ()) for cell in CELLS[:3]]
    assert store.path.read_bytes() == before
    assert [path.name for path in store.path.parent.iterdir()] == ["toy.jsonl"]


def test_the_seed_chooses_cells(store):
    chosen = lambda seed: [one.cell for one in run_again(CELLS, truth, store, 1, seed=seed)]  # noqa: E731
    assert chosen(0) == chosen(0)
    assert len({cell for seed in range(20) for cell in chosen(seed)}) == 3


def test_a_cell_that_fails_does_not_agree_and_the_others_are_compared(store):
    def run(cell):
        if cell.split == 1:
            raise DivergedError(7, {}, "lower the rate")
        return truth(cell)

    found = run_again(CELLS, run, store, 3)
    assert [one.agrees for one in found] == [True, False, True]
    assert "lower the rate" in found[1].failure


def test_without_rows_there_is_nothing_to_verify(store):
    with pytest.raises(ValueError, match="has no row of the chosen cells, so there is nothing to verify"):
        run_again(CELLS[3:], truth, store, 1)
    with pytest.raises(ValueError, match="verify=0 must be at least 1"):
        run_again(CELLS, truth, store, 0)


@pytest.fixture
def toy(monkeypatch, store):
    """The command for the experiment ``toy``, whose first number can be moved."""
    moved = {"by": 0.0}
    choices = {"datasets": [CELLS[0].dataset], "splits": lambda dataset: 4, "methods": ["svgd"]}
    experiment = Experiment(
        cells=partial(grid, "toy", **choices, known_datasets=choices["datasets"], known_methods=["svgd"]),
        run=lambda cell, watch, store: {**truth(cell), "rmse": truth(cell)["rmse"] + moved["by"]},
        label=label_of_split({"svgd": "SVGD"}),
        view=lambda rows: View("toy", (), ("method",), [["SVGD"]]),
    )
    monkeypatch.setitem(EXPERIMENTS, "toy", experiment)

    def call(*arguments, by=0.0):
        moved["by"] = by
        return CliRunner().invoke(app, ["reproduce", "toy", "--out", str(store.path.parent), *arguments])

    return call


def test_the_command_says_what_agrees_and_returns_0(toy, store):
    before = store.path.read_bytes()
    done = toy("--verify", "2")
    assert done.exit_code == 0, done.output
    assert "2 of 2 cells agree with their rows" in done.output
    assert {"rmse", "curve.w2", "agrees"} <= set(done.output.split())
    assert store.path.read_bytes() == before


def test_the_command_returns_1_where_a_number_differs(toy):
    done = toy("--verify", "2", by=0.01)
    assert done.exit_code == 1
    assert "0 of 2 cells agree with their rows" in done.output
    assert "DIFFERS" in done.output


@pytest.mark.parametrize(("by", "code"), [(0.0, 0), (0.01, 1)])
def test_the_command_as_json(toy, by, code):
    done = toy("--verify", "1", "--json", by=by)
    assert done.exit_code == code
    said = json.loads(done.stdout)
    assert said["agree"] is (code == 0)
    [cell] = said["cells"]
    rmse = cell["metrics"][0]
    assert cell["cell"]["dataset"] == CELLS[0].dataset
    assert rmse["found"] - rmse["committed"] == pytest.approx(by)
    assert rmse["tolerance"] == pytest.approx(1e-6 * rmse["committed"])


def test_what_the_command_cannot_do_is_one_line(toy, store):
    both = toy("--verify", "1", "--fresh")
    assert (both.exit_code, both.stderr.strip()) == (
        2, "fpovi: --verify compares with rows and --fresh drops them: choose one",
    )  # fmt: skip
    store.path.unlink()
    assert "nothing to verify" in toy("--verify", "1").stderr
    assert not store.path.exists()
