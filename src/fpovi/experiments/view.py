# SPDX-License-Identifier: Apache-2.0
"""What an experiment shows: a titled table that prints, becomes Markdown, or goes out as JSON."""

from collections.abc import Sequence
from typing import Any, NamedTuple


class View(NamedTuple):
    """Columns of text; ``bold`` are the numbers of the lines to point at, ``records`` the same for machines."""

    title: str
    explanation: tuple[str, ...]
    columns: tuple[str, ...]
    lines: Sequence[Sequence[str]]
    bold: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()
    records: Sequence[dict[str, Any]] = ()


def markdown(view: View) -> str:
    """The table as Markdown, without its title."""
    head = ["| " + " | ".join(view.columns) + " |", "|---" * len(view.columns) + "|"]
    return "\n".join([*head, *("| " + " | ".join(line) + " |" for line in view.lines)])


def short(value: float, digits: int) -> str:
    """0.057 as .057: a column of them reads faster."""
    text = f"{value:.{digits}f}"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text
