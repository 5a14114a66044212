# SPDX-License-Identifier: Apache-2.0
"""Committed rows against the same cells run again: which metrics agree, and within which tolerance."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fpovi.experiments.harness.store import Cell, Row, Store
from fpovi.experiments.harness.sweep import CellsFailedError, RunCell, sweep
from fpovi.experiments.harness.view import View

OF_CODE = ("fpovi", "revision")  # what may differ between a row and its repetition: it is what is verified
ABSENT = "no such metric"
ENOUGH_ROWS = 3  # whose spread is taken for a measure


class Tolerance(NamedTuple):
    r"""How far a number may be from that of its row.

    Where libraries, processor and number of cores are those that made the row, rounding is the same, and the limit is
    ``relative`` times the number in the row. Elsewhere sums are rounded in another way, and hundreds of optimiser steps
    amplify that until a run is as good as one with another seed. The limit is then ``deviations`` times the standard
    deviation :math:`s` over the rows of the same method on the same data (other splits and seeds): a number that moves
    by less than it does from split to split leaves a mean ± :math:`s/\sqrt n` over splits what it is. The default is
    from 126 cells of eight methods on five UCI sets, run again on another processor: half of the NLLs moved by less
    than .04 s, none by more than 1.14 s, and their mean by -.001 s ± .020 s.

    For a list of numbers, each of these is a root mean square over its elements.
    """

    relative: float = 1e-6
    deviations: float = 1.5


class Check(NamedTuple):
    """One metric of a row beside the one found now.

    ``difference`` and ``tolerance`` are None where there is no such number; ``agrees`` is None where nothing says what
    to expect: too few rows to measure a spread, or a choice (a word) that another rounding may turn.
    """

    metric: str
    committed: Any
    found: Any
    difference: float | None
    tolerance: float | None
    agrees: bool | None


class Verified(NamedTuple):
    """A cell that ran again: its checks, what was not as it was when its row was made, and why it failed if it did."""

    cell: Cell
    checks: list[Check]
    elsewhere: tuple[str, ...]
    failure: str | None = None

    @property
    def agrees(self) -> bool:
        """Whether the cell ran and no metric is out of tolerance."""
        return self.failure is None and all(check.agrees is not False for check in self.checks)


def run_again(
    cells: Sequence[Cell],
    run_cell: RunCell,
    store: Store,
    number: int,
    *,
    seed: int = 0,
    tolerance: Callable[[Cell], Tolerance] = lambda cell: Tolerance(),
    **of_sweep: Any,
) -> list[Verified]:
    """Run some cells again that have a row, and compare. Nothing is written to ``store``.

    Args:
        cells: from which to choose; those without a row are left out.
        run_cell: as for :func:`~fpovi.experiments.harness.sweep.sweep`.
        store: the committed rows.
        number: how many cells to run, all if there are fewer.
        seed: chooses them.
        tolerance: how near the metrics of a cell have to be.
        of_sweep: more arguments of ``sweep``.
    """
    if number < 1:
        raise ValueError(f"verify={number} must be at least 1")
    rows = {row.cell: row for row in store.rows()}
    there = [rows[cell] for cell in dict.fromkeys(cells) if cell in rows]
    if not there:
        raise ValueError(f"{store.path} has no row of the chosen cells, so there is nothing to verify")
    some = np.random.default_rng(seed).permutation(len(there))[:number]
    chosen = [there[i] for i in sorted(some)]
    failures: dict[Cell, str] = {}
    with tempfile.TemporaryDirectory(prefix="fpovi-verify-") as folder:
        again = Store(Path(folder) / "rows.jsonl")
        report = of_sweep.pop("on_failure", lambda cell, reason: None)

        def on_failure(cell: Cell, reason: str) -> None:
            failures[cell] = reason
            report(cell, reason)

        with suppress(CellsFailedError):  # those are in ``failures``
            sweep([row.cell for row in chosen], run_cell, again, on_failure=on_failure, **of_sweep)
        found = {row.cell: row for row in again.rows()}
    for row in chosen:
        store.checkpoint(row.cell).unlink(missing_ok=True)  # ``run_cell`` keeps its progress there
    return [
        compare_rows(row, found[row.cell], list(rows.values()), tolerance(row.cell))
        if row.cell in found
        else Verified(row.cell, [], (), failures[row.cell])
        for row in chosen
    ]


def compare_rows(row: Row, found: Row, rows: Sequence[Row], tolerance: Tolerance) -> Verified:
    """Compare every metric of ``row`` with that of ``found``; ``rows`` has the others of the same method."""
    elsewhere = differing(row.versions, found.versions)
    like = [dict(flatten(other.metrics)) for other in rows if _kind(other.cell) == _kind(row.cell)]
    old, new = dict(flatten(row.metrics)), dict(flatten(found.metrics))
    checks = []
    for name in dict.fromkeys((*old, *new)):
        limit = None
        if elsewhere and isinstance(old.get(name), np.ndarray):
            spread = _spread([other[name] for other in like if name in other], old[name].shape)
            limit = None if spread is None else tolerance.deviations * spread
        elif isinstance(old.get(name), np.ndarray):
            limit = tolerance.relative * _size(old[name])
        checks.append(_check(name, old.get(name, ABSENT), new.get(name, ABSENT), limit, bool(elsewhere)))
    return Verified(row.cell, checks, elsewhere)


def differing(made_by: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Name what differs between the makers of two rows, apart from the code that is verified.

    >>> differing({"jax": "0.10.2", "fpovi": "0.1.0"}, {"jax": "0.10.3", "fpovi": "0.2.0", "cores": "2"})
    ('jax', 'cores')
    """
    names = dict.fromkeys((*made_by, *now))
    return tuple(name for name in names if name not in OF_CODE and made_by.get(name) != now.get(name))


def flatten(metrics: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield names and values: numbers and lists of numbers as arrays, what is nested under ``outer.inner``.

    >>> list(flatten({"w2": {"gap": 0.5}, "curve": [1, 2], "way": "auto"}))
    [('w2.gap', array(0.5)), ('curve', array([1., 2.])), ('way', 'auto')]
    """
    for name, value in metrics.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{before}{name}.")
        else:
            yield before + name, _as_numbers(value)


def _as_numbers(value: Any) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    try:
        array = np.asarray(value)
    except ValueError:  # lists of different lengths
        return value
    return array.astype(float) if array.dtype.kind in "iuf" else value


def _kind(cell: Cell) -> tuple[str, ...]:
    """Return what the rows share whose spread measures how far a number may move."""
    return cell.experiment, cell.method, cell.dataset, cell.preset, cell.split_kind


def _spread(values: Sequence[Any], shape: tuple[int, ...]) -> float | None:
    """Return the standard deviation over rows, or None where there are too few."""
    same = [value for value in values if isinstance(value, np.ndarray) and value.shape == shape]
    finite = [value for value in same if np.isfinite(value).all()]
    return _size(np.asarray(np.std(finite, axis=0, ddof=1))) if len(finite) >= ENOUGH_ROWS else None


def _size(values: NDArray[np.float64]) -> float:
    """Return the root mean square, 0 for an empty list."""
    return float(np.sqrt(np.mean(np.square(values)))) if values.size else 0.0


def _check(name: str, old: Any, new: Any, limit: float | None, elsewhere: bool) -> Check:
    if isinstance(old, np.ndarray) and isinstance(new, np.ndarray) and old.shape == new.shape:
        with np.errstate(invalid="ignore"):  # inf - inf
            apart = np.where((old == new) | (np.isnan(old) & np.isnan(new)), 0.0, old - new)
        difference = _size(apart) if np.isfinite(apart).all() else float("inf")
        agrees = True if difference == 0 else None if limit is None else difference <= limit
        return Check(name, old.tolist(), new.tolist(), difference, limit, agrees)
    old, new = (value.tolist() if isinstance(value, np.ndarray) else value for value in (old, new))
    choice = isinstance(old, str) and isinstance(new, str) and ABSENT not in (old, new)
    agrees = True if old == new else None if choice and elsewhere else False
    return Check(name, old, new, None, None, agrees)


VERDICTS = {True: "agrees", False: "DIFFERS", None: "not judged"}


def view_of_verified(found: Sequence[Verified], label: Callable[[Cell], str]) -> View:
    """Return the table of cells that ran again: a line per metric."""
    lines: list[list[str]] = []
    for one in found:
        if one.failure is not None:
            lines.append([label(one.cell), "", "", "", "", "", f"FAILED: {one.failure}"])
        for place, check in enumerate(one.checks):
            numbers = [f"{x:.2g}" if x is not None else "" for x in (check.difference, check.tolerance)]
            shown = [_shown(check.committed), _shown(check.found)]
            first = label(one.cell) if place == 0 else ""
            lines.append([first, check.metric, *shown, *numbers, VERDICTS[check.agrees]])
    elsewhere = dict.fromkeys(name for one in found for name in one.elsewhere)
    rule = (
        f"not as the rows say, or not said there: {', '.join(elsewhere)}; tolerances are standard deviations over rows"
        if elsewhere
        else "same libraries, processor and cores as the rows say; tolerances are relative to the committed numbers"
    )
    return View(
        title=f"{sum(one.agrees for one in found)} of {len(found)} cells agree with their rows",
        explanation=(rule, "for lists: root mean squares"),
        columns=("cell", "metric", "row", "now", "difference", "tolerance", "verdict"),
        lines=lines,
        keys=2,
        records=[
            {
                "cell": asdict(one.cell),
                "agrees": one.agrees,
                "elsewhere": one.elsewhere,
                "failure": one.failure,
                "metrics": [check._asdict() for check in one.checks],
            }
            for one in found
        ],
    )


def _shown(value: Any) -> str:
    numbers = _as_numbers(value)
    if not isinstance(numbers, np.ndarray):
        return str(value)
    return f"{_size(numbers) if numbers.ndim else value:.6g}"
