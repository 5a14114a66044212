# SPDX-License-Identifier: Apache-2.0
"""Run many cells, one after another or several at once, and save each as it finishes."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from fpovi._fast.compile_cache import make_room
from fpovi._lookup import lookup
from fpovi.experiments.harness.store import Cell, Row, Store, versions
from fpovi.experiments.harness.workers import BACKENDS

RunCell = Callable[[Cell], dict[str, Any]]
Needs = Callable[[Cell], Iterable[Cell]]


class CellsFailedError(ArithmeticError):
    """Raised after a sweep in which cells failed (diverged, did not converge); the rows of all others are saved."""


def sweep(
    cells: Iterable[Cell],
    run_cell: RunCell,
    store: Store,
    on_row: Callable[[Row], None] = lambda row: None,
    *,
    on_start: Callable[[Cell], None] = lambda cell: None,
    on_failure: Callable[[Cell, str], None] = lambda cell, reason: None,
    needs: Needs = lambda cell: (),
    length: Callable[[Cell], float] = lambda cell: 0,
    jobs: int = 1,
    backend: str = "loky",
) -> list[Row]:
    """Run the cells that have no row yet; return the rows of all, in the order of ``cells``.

    Only this process writes to ``store``, and every row at once, so a ``kill -9`` of it or of a worker loses at most
    the cells that are running. A cell that ends in an ``ArithmeticError`` does not stop the others.

    Args:
        cells: what to run; one that is listed twice is run once.
        run_cell: returns the metrics of a cell. With several jobs it is pickled (by cloudpickle, so a closure will do)
            and called in other processes.
        store: where rows are kept.
        on_row: called with every row, found or new.
        on_start: called with every cell that begins, in any thread.
        on_failure: called with a cell that ended in an ``ArithmeticError``, and what that said.
        needs: the cells whose rows ``run_cell`` will look for in ``store``; they run before.
        length: how long a cell takes, in any unit; with several jobs the longest begin, so that no process is left with
            them at the end.
        jobs: how many processes; with 1 all cells run in this one.
        backend: where the processes are, a name in :data:`~fpovi.experiments.harness.workers.BACKENDS`.

    Raises:
        CellsFailedError: at the end, if cells failed.
        fpovi.experiments.harness.workers.WorkerDiedError: a process was killed or crashed.
        ValueError: ``jobs`` is below 1, ``backend`` is not known, or cells need each other in a circle.
    """
    if jobs < 1:
        raise ValueError(f"jobs={jobs} must be at least 1")
    stream = lookup(BACKENDS, backend, "backend")
    cells = list(cells)
    rows = {row.cell: row for row in store.rows() if row.cell in set(cells)}
    for row in rows.values():
        on_row(row)
    failures: dict[Cell, str] = {}
    for ready in _waves(cells, rows, failures, needs):
        workers = min(jobs, len(ready))
        work = _started(ready if workers == 1 else sorted(ready, key=length, reverse=True), on_start)
        finished = map(_Task(run_cell), work) if workers == 1 else stream(_Task(run_cell), work, workers)
        try:
            for cell, result in finished:
                if isinstance(result, str):
                    failures[cell] = result
                    on_failure(cell, result)
                    continue
                store.append(result)
                rows[cell] = result
                on_row(result)
        finally:
            if hasattr(finished, "close"):
                finished.close()  # ends the workers, also after Ctrl-C
    if failures:
        raise CellsFailedError(_sentence(failures, len(set(cells))))
    return [rows[cell] for cell in cells]


class _Task:
    """Turn a cell into its row, or into the reason why there is none; picklable, as it is sent to other processes."""

    def __init__(self, run_cell: RunCell):
        self.run_cell = run_cell

    def __call__(self, cell: Cell) -> tuple[Cell, Row | str]:
        make_room()
        made_by = versions()  # before the cell, as files may change while it runs
        started = time.perf_counter()
        try:
            metrics = self.run_cell(cell)
        except ArithmeticError as error:  # as text: what a divergence carries may not survive the way to the parent
            return cell, f"{type(error).__name__}: {error}"
        return cell, Row(cell, metrics, round(time.perf_counter() - started, 3), made_by)


def _waves(
    cells: Sequence[Cell], rows: dict[Cell, Row], failures: dict[Cell, str], needs: Needs
) -> Iterator[list[Cell]]:
    """Yield the cells without a row in groups, each of which needs only rows of the groups before it."""
    wanted = {cell: set(needs(cell)) & set(cells) for cell in dict.fromkeys(cells) if cell not in rows}
    while wanted:
        ready = [cell for cell, needed in wanted.items() if needed <= rows.keys()]
        if not ready:
            lost = dict.fromkeys(wanted, "what it needs has failed")
            if not failures:
                raise ValueError(f"needs goes in a circle among {len(lost)} cells, of them {next(iter(lost))}")
            failures.update(lost)
            return
        for cell in ready:
            del wanted[cell]
        yield ready


def _started(cells: Iterable[Cell], on_start: Callable[[Cell], None]) -> Iterator[Cell]:
    """Yield the cells and announce each when it is taken: workers take one when they have finished another."""
    for cell in cells:
        on_start(cell)
        yield cell


def _sentence(failures: dict[Cell, str], total: int) -> str:
    cell, reason = next(iter(failures.items()))
    where = [cell.method, *([cell.dataset] if cell.dataset else []), f"split {cell.split}", f"seed {cell.seed}"]
    return f"{len(failures)} of {total} cells failed, the others are saved; the first was {', '.join(where)}: {reason}"
