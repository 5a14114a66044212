# SPDX-License-Identifier: Apache-2.0
"""The tables of README and docs, made from the rows in ``results/``: ``python -m fpovi.experiments.readme``."""

import re
from collections.abc import Callable
from pathlib import Path

from fpovi.experiments import defaults, synthetic_figure
from fpovi.experiments.grid import Options
from fpovi.experiments.registry import EXPERIMENTS
from fpovi.experiments.store import Row, Store
from fpovi.experiments.view import markdown

# of all rows that an experiment has
TABLES: dict[str, Callable[[list[Row]], str]] = {
    "synthetic": synthetic_figure.markdown,
    "defaults": lambda rows: markdown(defaults.view(rows)),
}
MARKER = re.compile(r"<!-- table: (?P<name>[\w-]+)(?: (?P<preset>\w+))? -->\n.*?<!-- end -->", re.DOTALL)


def render(text: str, results: Path) -> str:
    """``text`` with what stands between ``<!-- table: NAME -->`` and ``<!-- end -->`` made anew.

    ``<!-- table: NAME PRESET -->`` is the table of ``fpovi reproduce NAME --preset PRESET``, of the rows there are.
    """

    def fill(match: re.Match[str]) -> str:
        name, preset = match["name"], match["preset"]
        if preset is None:
            return f"<!-- table: {name} -->\n{TABLES[name](Store(results / f'{name}.jsonl').rows())}\n<!-- end -->"
        made = markdown(EXPERIMENTS[name].view(rows_of(name, preset, results)))
        return f"<!-- table: {name} {preset} -->\n{made}\n<!-- end -->"

    return MARKER.sub(fill, text)


def rows_of(name: str, preset: str, results: Path) -> list[Row]:
    """The finished cells of an experiment's preset, in their order."""
    cells = EXPERIMENTS[name].cells(Options(preset))
    found = {row.cell: row for row in Store(results / f"{cells[0].experiment}.jsonl").rows()}
    return [found[cell] for cell in cells if cell in found]


if __name__ == "__main__":
    for page in (Path("README.md"), *sorted(Path("docs").glob("*.md"))):
        page.write_text(render(page.read_text(), Path("results")))
