# SPDX-License-Identifier: Apache-2.0
"""Make the tables and figures of README and docs from the rows in ``results/``: ``python tools/pages.py``."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from fpovi.bench import exchange, memory
from fpovi.bench.settings import SWEEPS
from fpovi.bench.tables import summary, sweep_summary
from fpovi.experiments import defaults
from fpovi.experiments.harness.experiment import Options
from fpovi.experiments.harness.store import Row, Store
from fpovi.experiments.harness.view import View, markdown
from fpovi.experiments.images import adversarial, cifar
from fpovi.experiments.registry import EXPERIMENTS
from fpovi.experiments.sine import synthetic
from fpovi.experiments.uci.view import best_beside_paper
from fpovi.plots import save_png

STANDARD = Options().split_kind


class Table(NamedTuple):
    """A table in Markdown made from all rows of a file."""

    file: str
    make: Callable[[list[Row]], str]


def _sweep(axis: str, rows: list[Row]) -> str:
    return markdown(sweep_summary(rows, axis))


def _memory(rows: list[Row]) -> str:
    shown = memory.view(rows)
    return "\n\n".join([markdown(shown), *shown.notes])


def _of_preset(preset: str, view: Callable[[list[Row]], View], rows: list[Row]) -> str:
    return markdown(view([row for row in rows if row.cell.preset == preset]))


TABLES = {
    "synthetic": Table("synthetic", synthetic.by_draw),
    **{f"synthetic-{name}": Table("synthetic", partial(synthetic.of_preset, name)) for name in synthetic.GRIDS},
    "uci-best": Table("uci", lambda rows: markdown(best_beside_paper(rows))),
    "defaults": Table("defaults", lambda rows: markdown(defaults.view(rows))),
    "cifar-scores": Table("cifar", partial(_of_preset, "subset", cifar.scores)),
    "cifar-attacks": Table("cifar", partial(_of_preset, "subset", cifar.attacks)),
    "digits-clean": Table("mnist-adversarial", partial(_of_preset, "paper", adversarial.clean)),
    "digits-attacks": Table("mnist-adversarial", partial(_of_preset, "paper", adversarial.attacks)),
    "bench": Table("bench", lambda rows: markdown(summary(rows))),
    "devices": Table("bench-devices", lambda rows: markdown(exchange.view(rows))),
    **{f"bench-{axis}": Table("bench", partial(_sweep, axis)) for axis in SWEEPS},
    "bench-memory": Table("bench-memory", _memory),
}
MARKER = re.compile(
    r"(?P<head><!-- table: (?P<name>[\w-]+)(?: (?P<preset>\w+)(?: (?P<kind>\w+))?)? -->)\n.*?<!-- end -->",
    re.DOTALL,
)

PICTURE = re.compile(r"\]\((?P<path>[\w/-]*figures/(?P<name>[\w-]+)-(?P<preset>\w+)\.png)\)")


def render(text: str, results: Path) -> str:
    """Return ``text`` with new tables between ``<!-- table: NAME -->`` and ``<!-- end -->``.

    NAME is one of :data:`TABLES`; ``<!-- table: NAME PRESET -->`` is what ``fpovi reproduce NAME --preset PRESET``
    shows, of the rows there are, and ``<!-- table: NAME PRESET KIND -->`` the same with ``--split-kind KIND``.
    """

    def fill(match: re.Match[str]) -> str:
        name, preset, kind = match["name"], match["preset"], match["kind"] or STANDARD
        if preset is None:
            table = TABLES[name]
            made = table.make(Store(results / f"{table.file}.jsonl").rows())
        else:
            made = markdown(EXPERIMENTS[name].view(rows_of(name, preset, results, kind)))
        return f"{match['head']}\n{made}\n<!-- end -->"

    return MARKER.sub(fill, text)


def rows_of(name: str, preset: str, results: Path, split_kind: str = STANDARD) -> list[Row]:
    """Return the finished cells of an experiment's preset, in their order."""
    cells = EXPERIMENTS[name].cells(Options(preset, split_kind=split_kind))
    found = {row.cell: row for row in Store(results / f"{cells[0].experiment}.jsonl").rows()}
    return [found[cell] for cell in cells if cell in found]


def draw_figures(page: Path, results: Path) -> list[Path]:
    """Draw the figures of experiments that a page shows, called ``figures/NAME-PRESET.png``, and return their paths."""
    written = []
    for match in PICTURE.finditer(page.read_text()):
        experiment = EXPERIMENTS.get(match["name"])
        if experiment is None or experiment.figure is None:
            continue
        rows = rows_of(match["name"], match["preset"], results)
        if not rows:
            raise ValueError(f"{page} shows {match['path']}, but {results} has no rows of that preset")
        written.append(page.parent / match["path"])
        save_png(experiment.figure(rows), written[-1])
    return written


if __name__ == "__main__":
    for page in (Path("README.md"), *sorted(Path("docs").rglob("*.md"))):
        page.write_text(render(page.read_text(), Path("results")))
        draw_figures(page, Path("results"))
