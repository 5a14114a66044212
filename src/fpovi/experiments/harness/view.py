# SPDX-License-Identifier: Apache-2.0
"""What an experiment shows: a titled table that prints, becomes Markdown, or goes out as JSON."""

from collections.abc import Sequence
from typing import Any, NamedTuple


class View(NamedTuple):
    """Columns of text, the first ``keys`` of which say what a line is about.

    ``bold`` are the numbers of the lines to point at, ``records`` the same for machines.
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
    """The table as Markdown, without its title."""
    head = ["| " + " | ".join(view.columns) + " |", "|---" * len(view.columns) + "|"]
    return "\n".join([*head, *("| " + " | ".join(line) + " |" for line in view.lines)])


def short(value: float, digits: int) -> str:
    """0.057 as .057: a column of them reads faster."""
    text = f"{value:.{digits}f}"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


def parts(view: View, width: int, gap: int = 3) -> list[list[int]]:
    """Which columns to show side by side so that no part is wider than ``width`` characters; keys lead each of them.

    >>> view = View("", (), ("set", "method", "RMSE", "NLL"), [("boston", "gp", "2.50 ± 0.11", "2.30 ± 0.05")], keys=2)
    >>> parts(view, 80), parts(view, 40)
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
