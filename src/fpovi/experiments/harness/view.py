# SPDX-License-Identifier: Apache-2.0
"""A titled table that can be printed, written as Markdown, or returned as JSON records."""

from collections.abc import Sequence
from typing import Any, NamedTuple


class View(NamedTuple):
    """A table of text with a title.

    Attributes:
        title: stands above the table.
        explanation: lines between title and table.
        columns: the names of columns.
        lines: the text of every line, one string per column.
        bold: the numbers of lines to print in bold.
        notes: lines below the table.
        records: the same results for programs, in JSON types.
        keys: how many columns, from the first, say what a line is about.
    """

    title: str
    explanation: tuple[str, ...]
    columns: tuple[str, ...]
    lines: Sequence[Sequence[str]]
    bold: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()
    records: Sequence[dict[str, Any]] = ()
    keys: int = 1


def markdown(view: View) -> str:
    """Return the table as Markdown, without its title."""
    head = ["| " + " | ".join(view.columns) + " |", "|---" * len(view.columns) + "|"]
    return "\n".join([*head, *("| " + " | ".join(line) + " |" for line in view.lines)])


def short(value: float, digits: int) -> str:
    """Return a number with so many decimal places, and without a zero before the point.

    >>> short(-0.057, 2)
    '-.06'
    """
    text = f"{value:.{digits}f}"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


def column_groups(view: View, width: int, gap: int = 3) -> list[list[int]]:
    """Return groups of column numbers, the keys first in each, so that no group is wider than ``width`` characters.

    >>> view = View("", (), ("set", "method", "RMSE", "NLL"), [("boston", "gp", "2.50 ± 0.11", "2.30 ± 0.05")], keys=2)
    >>> column_groups(view, 80), column_groups(view, 40)
    ([[0, 1, 2, 3]], [[0, 1, 2], [0, 1, 3]])
    """
    needs = [
        gap + max(len(text.strip("*")) for text in (name, *(line[i] for line in view.lines)))
        for i, name in enumerate(view.columns)
    ]
    keys = list(range(view.keys))
    found = [keys]
    for column in range(view.keys, len(view.columns)):
        if sum(needs[i] for i in (*found[-1], column)) > width and len(found[-1]) > len(keys):
            found.append(keys)
        found[-1] = [*found[-1], column]
    return found
