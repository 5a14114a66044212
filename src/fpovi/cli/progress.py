# SPDX-License-Identifier: Apache-2.0
"""Bars of long work: rows of a table, and a live table of a sweep with a line for every running cell."""

import time
from collections.abc import Callable
from types import TracebackType

from rich.progress import TaskID

from fpovi.experiments.store import Cell, Row
from fpovi.progress import progress_bar

SOON = 2.0  # seconds: shorter work needs no bar


class RowProgress:
    """How many rows of a table are done, shown once that has taken two seconds."""

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
        """So many rows more are done."""
        self.bar.update(self.task, advance=rows)
        if not self.shown and not self.bar.disable and time.monotonic() - self.began > SOON:
            self.bar.start()
            self.shown = True


class CellProgress:
    """Which cells run and for how long, how many are done, and when the rest will be, by the pace of this run."""

    def __init__(self, cells: int, label: Callable[[Cell], str], quiet: bool = False):
        self.label, self.total = label, cells
        self.bar = progress_bar(quiet, time_left=False)
        self.all = self.bar.add_task("all", total=cells, note="")
        self.running: dict[Cell, TaskID] = {}
        self.began, self.found, self.new = time.monotonic(), 0, 0

    def __enter__(self) -> "CellProgress":
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def started(self, cell: Cell) -> None:
        """A cell begins; how many steps it has is not known yet."""
        self.running[cell] = self.bar.add_task(self.label(cell), total=1, note="")

    def step(self, done: int, total: int, log_likelihood: float) -> None:
        """The one running cell has taken ``done`` of ``total`` steps."""
        for task in self.running.values():
            self.bar.update(task, completed=done, total=total, note=f"log-likelihood {log_likelihood:.2f}")

    def finished(self, row: Row) -> None:
        """A cell is done, now or in an earlier run."""
        self._ended(row.cell)

    def failed(self, cell: Cell, reason: str) -> None:
        """A cell came to no result; it is reported when all others are done."""
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
        """In words, from the cells that this run has finished: those found say nothing about speed."""
        left = self.total - self.found - self.new
        if not (self.new and left):
            return ""
        seconds = (time.monotonic() - self.began) / self.new * left
        for size, unit in ((3600, "hours"), (60, "minutes")):
            if seconds >= 2 * size:
                return f"about {seconds / size:.0f} {unit} left"
        return f"about {seconds:.0f} seconds left"
