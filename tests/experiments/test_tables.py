# SPDX-License-Identifier: Apache-2.0
"""Classifiers on mixed tables: what a row says, and what the table shows."""

import numpy as np
import pandas as pd
import pytest

from fpovi.datasets.tables import TableSplit
from fpovi.experiments import tables
from fpovi.experiments.harness.experiment import Options
from fpovi.experiments.harness.store import Cell, Row
from fpovi.experiments.harness.view import markdown


@pytest.fixture
def small_table(monkeypatch):
    rng = np.random.default_rng(0)
    x = pd.DataFrame({"a": rng.normal(size=300), "b": rng.choice(["u", "v"], 300)})
    y = pd.Series(np.where(x["a"] > 0, 1, 0))
    split = TableSplit(x[:200], y[:200], x[200:], y[200:])
    monkeypatch.setattr(tables, "load_table_split", lambda name, number: split)


def test_a_row_has_scores_and_the_range_of_a_calibrated_model(small_table):
    metrics = tables.run_cell(Cell("tables", "logistic", "olive", 0, 0, "quick"))
    assert metrics["accuracy"] > 0.9
    assert 0 <= metrics["ece_low"] < metrics["ece_high"] < 1


def test_a_forest_that_is_certain_and_wrong_has_a_finite_loss(small_table, monkeypatch):
    certain = lambda seed, x, y, x_new: np.eye(2)[np.zeros(len(x_new), int)]  # noqa: E731
    monkeypatch.setitem(tables.METHODS, "random_forest", certain)
    metrics = tables.run_cell(Cell("tables", "random_forest", "olive", 0, 0, "quick"))
    assert np.isfinite(metrics["nll"])
    assert metrics["nll"] > 1


def test_the_full_preset_has_ten_tables_and_three_splits():
    assert len(tables.cells(Options("full"))) == 10 * 3 * len(tables.METHODS)


def test_the_table_has_a_line_for_each_score():
    rows = [
        Row(Cell("tables", method, "olive", split, 0, "full"),
            {"nll": nll + split / 100, "brier": 0.1, "ece": 0.02, "ece_low": 0.01, "ece_high": 0.0351}, 2.0, {})
        for method, nll in (("fpovi", 0.2), ("catboost", 0.3)) for split in range(3)
    ]  # fmt: skip
    table = markdown(tables.view(rows)).splitlines()
    assert len(table) == 2 + len(tables.METRICS)
    assert "**0.21" in table[2]
    ece = next(line for line in table if "ECE" in line)
    assert ece.count("(.010–.035)") == 2


def test_a_class_of_test_rows_alone_is_refused(small_table, monkeypatch):
    split = tables.load_table_split("olive", 0)
    strange = split._replace(y_test=split.y_test.where(split.x_test["a"] < 1, 7))
    monkeypatch.setattr(tables, "load_table_split", lambda name, number: strange)
    with pytest.raises(ValueError, match="the test rows have the class '7', which no training row has"):
        tables.run_cell(Cell("tables", "logistic", "olive", 0, 0, "quick"))
