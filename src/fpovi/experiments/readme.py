# SPDX-License-Identifier: Apache-2.0
"""The tables of README and docs, made from the rows in ``results/``: ``python -m fpovi.experiments.readme``."""

import re
from collections.abc import Callable
from pathlib import Path

from fpovi.experiments import approximation_view, complexity_view, defaults, synthetic_figure
from fpovi.experiments.store import Row, Store
from fpovi.experiments.view import markdown

TABLES: dict[str, Callable[[list[Row]], str]] = {
    "synthetic": synthetic_figure.by_draw,
    "synthetic-paper": synthetic_figure.of_paper,
    "complexity": lambda rows: markdown(complexity_view.view(rows)),
    "approximation": lambda rows: markdown(approximation_view.view(rows)),
    "defaults": lambda rows: markdown(defaults.view(rows)),
}


def render(text: str, results: Path) -> str:
    """``text`` with what stands between ``<!-- table: NAME -->`` and ``<!-- end -->`` made anew.

    NAME is an experiment, or one and a part of its rows: ``synthetic-paper``.
    """

    def fill(match: re.Match[str]) -> str:
        name = match["name"]
        made = TABLES[name](Store(results / f"{name.partition('-')[0]}.jsonl").rows())
        return f"<!-- table: {name} -->\n{made}\n<!-- end -->"

    return re.sub(r"<!-- table: (?P<name>[\w-]+) -->\n.*?<!-- end -->", fill, text, flags=re.DOTALL)


if __name__ == "__main__":
    for page in (Path("README.md"), *sorted(Path("docs").glob("*.md"))):
        page.write_text(render(page.read_text(), Path("results")))
