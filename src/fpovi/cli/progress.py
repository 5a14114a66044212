# SPDX-License-Identifier: Apache-2.0
"""Progress bars: of the rows of a table, and of the running cells of a sweep above a live table of results."""

import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

from rich import box
from rich.console import Group
from rich.live import Live
from rich.progress import TaskID
from rich.table import Table

from fpovi._progress import progress_bar
from fpovi.experiments.harness.store import Cell, Row

SOON = 2.0  # seconds: shorter work needs no bar
LINES, SCORES = 12, 5  # the live table shows the lines that changed last, and the first numbers of a row


class RowProgress:
    """A bar of the rows of a table, shown once they have taken two seconds."""

    def __init__(self, rows: int, label: str, quiet: bool = False):
        self.bar = progress_bar(quiet)
        self.task = self.bar.add_task(label, total=rows, note="")
        self.began, self.shown = time.monotonic(), False

    def __enter__(self) -> "RowProgress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.shown:
            self.bar.stop()

    def advance(self, rows: int) -> None:
        """Report that ``rows`` more rows are done."""
        self.bar.update(self.task, advance=rows)
        if not self.shown and not self.bar.disable and time.monotonic() - self.began > SOON:
            self.bar.start()
            self.shown = True


class CellProgress:
    """Bars of the running cells and of all, with the time left at the pace of this run, above means of what is done."""

    def __init__(self, cells: int, label: Callable[[Cell], str], quiet: bool = False):
        self.label, self.total = label, cells
        self.bar = progress_bar(quiet, time_left=False)
        self.all = self.bar.add_task("all", total=cells, note="")
        self.running: dict[Cell, TaskID] = {}
        self.rows: dict[tuple[str, str], list[Row]] = {}
        self.began, self.found, self.new = time.monotonic(), 0, 0
        self.live = Live(self, console=self.bar.console, transient=True)

    def __rich__(self) -> Group:
        return Group(self.bar, *([means(self.rows)] if self.rows else []))  # a low terminal cuts off what is below

    def __enter__(self) -> "CellProgress":
        if not self.bar.disable:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.live.stop()

    def started(self, cell: Cell) -> None:
        """Report that a cell begins; how many steps it has is not known yet."""
        self.running[cell] = self.bar.add_task(self.label(cell), total=1, note="")

    def step(self, done: int, total: int, log_likelihood: float) -> None:
        """Report that the one running cell has taken ``done`` of ``total`` steps."""
        for task in self.running.values():
            self.bar.update(task, completed=done, total=total, note=f"log-likelihood {log_likelihood:.2f}")

    def finished(self, row: Row) -> None:
        """Report that a cell is done, now or in an earlier run."""
        place = row.cell.dataset, row.cell.method
        self.rows[place] = [*self.rows.pop(place, []), row]  # what changed last is last
        self._ended(row.cell)

    def failed(self, cell: Cell, reason: str) -> None:
        """Report that a cell came to no result; the sweep says why when all others are done."""
        self._ended(cell)

    def _ended(self, cell: Cell) -> None:
        task = self.running.pop(cell, None)
        if task is None:
            self.found += 1
        else:
            self.new += 1
            self.bar.remove_task(task)
        self.bar.update(self.all, advance=1, note=self.time_left())

    def time_left(self) -> str:
        """Return the time left in words, by the cells that this run has finished: others say nothing of speed."""
        left = self.total - self.found - self.new
        if not (self.new and left):
            return ""
        seconds = (time.monotonic() - self.began) / self.new * left
        for size, unit in ((3600, "hours"), (60, "minutes")):
            if seconds >= 2 * size:
                return f"about {seconds / size:.0f} {unit} left"
        return f"about {seconds:.0f} seconds left"


def means(rows: Mapping[tuple[str, str], Sequence[Row]]) -> Table:
    """Make a table with a line per set and method: how many cells are done, and the means of their numbers."""
    shown = dict(list(rows.items())[-LINES:])
    numbers = lambda row: [n for n, value in row.metrics.items() if isinstance(value, float)]  # noqa: E731
    names = list(dict.fromkeys(name for found in shown.values() for name in numbers(found[0])))[:SCORES]
    table = Table("set", "method", "done", *names, "s", box=box.SIMPLE_HEAD, pad_edge=False)
    for (dataset, method), found in shown.items():
        averages = [_mean([row.metrics.get(name) for row in found]) for name in names]
        table.add_row(dataset, method, str(len(found)), *averages, _mean([row.seconds for row in found]))
    return table


def _mean(values: Sequence[float | None]) -> str:
    there = [value for value in values if value is not None]
    return f"{sum(there) / len(there):.4g}" if there else ""
