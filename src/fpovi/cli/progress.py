# SPDX-License-Identifier: Apache-2.0
"""A progress bar for cells and their steps."""

from types import TracebackType

from fpovi.experiments.store import Row
from fpovi.progress import progress_bar


class CellProgress:
    """One line for the running cell, with its log-likelihood and the time left, and one for all cells."""

    def __init__(self, cells: int, quiet: bool = False):
        self.bar = progress_bar(quiet)
        self.all = self.bar.add_task("methods", total=cells, note="")
        self.now = self.bar.add_task("", total=None, note="", visible=False)

    def __enter__(self) -> "CellProgress":
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def started(self, label: str) -> None:
        """A cell begins; how many steps it has is not known yet."""
        self.bar.reset(self.now, description=label, total=1, completed=0, visible=True, note="compiling")

    def step(self, done: int, total: int, log_likelihood: float) -> None:
        """The running cell has taken ``done`` of ``total`` steps."""
        self.bar.update(self.now, completed=done, total=total, note=f"log-likelihood {log_likelihood:.2f}")

    def finished(self, row: Row) -> None:
        """A cell is done, now or in an earlier run."""
        self.bar.advance(self.all)
