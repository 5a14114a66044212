# SPDX-License-Identifier: Apache-2.0
"""The UCI tables of Wang et al. (2019) and variants of them: their cells, and how the metrics of a cell are made.

Every cell is a method on one split; networks are the same under the same prior, but for those of ``fpovi``. What tells
one table from another is in :mod:`fpovi.experiments.uci.setups`, how each method is trained in
:mod:`fpovi.experiments.uci.paper_learners` (``fpovi``: :mod:`fpovi.experiments.uci.best`), and what the paper prints in
:mod:`fpovi.experiments.uci.published`.
"""

from dataclasses import replace
from typing import Any

from fpovi._lookup import lookup
from fpovi.calibration import evaluate
from fpovi.datasets.uci import SPLIT_KINDS, UCI, Split, load_held_out, load_split
from fpovi.experiments.harness.comparison import SCORES
from fpovi.experiments.harness.experiment import Options, Watch, grid, silent
from fpovi.experiments.harness.store import Cell, Store
from fpovi.experiments.uci.methods import METHODS, Rows, TrainingTask
from fpovi.experiments.uci.setups import SETUPS, SMALL_SETS_ONLY, Setup

FEW_ROWS = 1000
LONG_SETS = ("kin8nm", "power", "naval", "protein")  # those whose cells take longest, most of all the last


def cells(setup: Setup, options: Options) -> list[Cell]:
    """Return the first splits of every set, by every method that can take so many rows."""
    preset = setup.preset(options.preset)
    splits = lambda dataset: preset.protein_splits if dataset == "protein" else preset.splits  # noqa: E731
    shown = (*preset.methods, *preset.from_paper_preset)
    listed = grid(
        setup.rows_in, options, datasets=preset.datasets, splits=splits, methods=shown,
        known_datasets=UCI, known_methods=setup.methods, known_split_kinds=SPLIT_KINDS,
    )  # fmt: skip
    able = [cell for cell in listed if cell.dataset in SMALL_SETS_ONLY.get(cell.method, (cell.dataset,))]
    missing = [cell for cell in listed if cell not in able and cell.method in options.methods]
    if missing:
        cell = missing[0]
        raise ValueError(
            f"method={cell.method!r} is too slow for {cell.dataset}: only for {', '.join(SMALL_SETS_ONLY[cell.method])}"
        )
    return [replace(cell, preset=preset.row_preset(cell.method, options.preset)) for cell in able]


def length(cell: Cell) -> int:
    """Return a rank of how long a cell takes.

    >>> [length(Cell("uci", "f-svgd", dataset)) for dataset in ("yacht", "naval", "protein")]
    [0, 3, 4]
    """
    return LONG_SETS.index(cell.dataset) + 1 if cell.dataset in LONG_SETS else 0


def batch_size_and_epochs(rows: int, epochs: tuple[int, int]) -> tuple[int, int]:
    """Return the rows of a step, and the first or second of ``epochs``, for a set of few or of many rows in all."""
    many = rows > FEW_ROWS
    return (1000 if many else 100), epochs[many]


def make_task(cell: Cell, split: Split, valid: Rows | None = None) -> TrainingTask:
    """Return the task of a cell with the paper's widths and batches; each split has randomness of its own.

    >>> import numpy as np
    >>> rows = lambda n: (np.zeros((n, 6)), np.zeros(n))
    >>> task = make_task(Cell("uci", "f-svgd", "yacht", preset="paper"), Split(*rows(277), *rows(31)))
    >>> task.hidden, task.batch_size, task.epochs, task.settings.steps
    ((50,), 100, 500, 1500)
    """
    setup = lookup(SETUPS, cell.experiment, "experiment")
    preset = setup.preset(cell.preset)
    rows = sum(map(len, (split.y_train, split.y_test, () if valid is None else valid[1])))
    batch_size, epochs = batch_size_and_epochs(rows, preset.epochs)
    return TrainingTask(
        seed=1000 * cell.seed + cell.split,
        split=split,
        hidden=setup.protein_hidden if cell.dataset == "protein" else setup.hidden,
        batch_size=batch_size,
        epochs=epochs,
        gp_rows=preset.gp_rows,
        valid=valid,
    )


def load_task(cell: Cell) -> TrainingTask:
    """Load the split of a cell, with rows to choose the epoch by where the setup has them."""
    place = cell.dataset, cell.split_kind, cell.split
    if not lookup(SETUPS, cell.experiment, "experiment").held_out:
        return make_task(cell, load_split(*place))
    held = load_held_out(*place)
    return make_task(cell, held.split, (held.x_valid, held.y_valid))


def run_cell(cell: Cell, watch: Watch = silent, store: Store | None = None) -> dict[str, Any]:
    """Return the scores of one method on the test rows of one split, and the method's own metrics."""
    task = load_task(cell)
    answer = lookup(METHODS, cell.method, "method")(task, watch)
    found = evaluate(answer.predictive, task.split.y_test)
    return {name: float(found[name]) for name in SCORES} | answer.metrics
