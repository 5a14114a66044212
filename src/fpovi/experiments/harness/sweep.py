# SPDX-License-Identifier: Apache-2.0
"""Many cells, one after another or several at once: each is saved as it finishes, and none is computed twice."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from fpovi._fast.compile_cache import make_room
from fpovi.experiments.harness.store import Cell, Row, Store, versions
from fpovi.experiments.harness.workers import BACKENDS
from fpovi.types import lookup

RunCell = Callable[[Cell], dict[str, Any]]
Needs = Callable[[Cell], Iterable[Cell]]


class CellsFailedError(ArithmeticError):
    """Some cells came to no result (they diverged, a sampler did not converge); all others did and are saved."""


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

    This process alone writes to ``store``, a row as soon as it has it, so that a ``kill -9`` of it or of a worker loses
    at most the cells that are running. A cell that ends in an ``ArithmeticError`` does not stop the others.

    Args:
        cells: what to run; one that is listed twice is run once.
        run_cell: the numbers of a cell. With several jobs it is pickled (by cloudpickle, so a closure will do) and
            called in other processes.
        store: where rows are kept.
        on_row: called with every row, found or new.
        on_start: called with every cell that begins, in any thread.
        on_failure: called with a cell that ended in an ``ArithmeticError``, and what that said.
        needs: the cells whose rows ``run_cell`` will look for in ``store``; they run before.
        length: how long a cell takes, in any unit; with several jobs those that take longest begin, so that no process
            is left with them when the others have nothing to do.
        jobs: how many processes, each on a core of its own; what one alone can do happens in this one.
        backend: where the processes are, a name in :data:`~fpovi.experiments.harness.workers.BACKENDS`.

    Raises:
        CellsFailedError: at the end, if cells failed.
        fpovi.experiments.harness.workers.WorkerDiedError: a process was killed or crashed.
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
    """A cell becomes its row, or the reason why there is none. A class, for it is sent to other processes."""

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
    """The cells still to run, in groups: those of one group need nothing but what the groups before it left."""
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
    """The cells, each announced when it is taken: workers take one when they have finished another."""
    for cell in cells:
        on_start(cell)
        yield cell


def _sentence(failures: dict[Cell, str], total: int) -> str:
    cell, reason = next(iter(failures.items()))
    where = [cell.method, *([cell.dataset] if cell.dataset else []), f"split {cell.split}", f"seed {cell.seed}"]
    return f"{len(failures)} of {total} cells failed, the others are saved; the first was {', '.join(where)}: {reason}"
