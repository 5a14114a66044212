# SPDX-License-Identifier: Apache-2.0
"""Tables that are wider than the screen: nothing is cut off, nothing is left out, every part says what it is about."""

import pytest

from fpovi.cli.reproduce import show_view
from fpovi.experiments.harness.view import View, column_groups

COLUMNS = ("set", "method", *(f"score {number}" for number in range(9)))
LINES = [("boston", "f-SVGD", *("**2.123 ± 0.012**",) * 9), ("", "Bayes by backprop", *("10.12 ± 0.21 (5)",) * 9)]
WIDE = View("title", (), COLUMNS, LINES, keys=2)


@pytest.mark.parametrize("width", [1, 40, 80, 400])
def test_every_column_is_shown_once_and_every_part_begins_with_the_keys(width):
    found = column_groups(WIDE, width)
    assert [column for part in found for column in part[2:]] == list(range(2, len(COLUMNS)))
    assert all(part[:2] == [0, 1] and len(part) > 2 for part in found)


def test_a_table_without_lines_is_its_head():
    assert column_groups(View("title", (), ("set", "score"), []), 80) == [[0, 1]]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_nothing_is_cut_off_on_a_screen(width, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    show_view(WIDE, [])
    shown = capsys.readouterr().out
    assert "…" not in shown
    assert shown.count("2.123 ± 0.012") == shown.count("10.12 ± 0.21 (5)") == 9
    assert all(name in shown for name in COLUMNS)
    assert max(map(len, shown.splitlines())) <= width
