# SPDX-License-Identifier: Apache-2.0
"""``uci``: the two UCI tables of Wang et al. (2019), RMSE and NLL of four flows in two spaces, and other methods.

Every cell is a method on one split, on the same network under the same prior; :mod:`fpovi.experiments.uci_methods`
says how each is run, and :mod:`fpovi.experiments.published` what the paper prints.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from fpovi.calibration import evaluate
from fpovi.data.splits import DRAWS, load_split
from fpovi.data.uci import UCI, Split
from fpovi.experiments.comparison import SCORES
from fpovi.experiments.store import Cell
from fpovi.experiments.uci_methods import METHODS, Task, Watch
from fpovi.types import lookup

LABELS = {
    "f-svgd": "f-SVGD",
    "f-w-sgld-b": "f-w-SGLD-B",
    "f-pi-sgld": "f-pi-SGLD",
    "f-gfsf": "f-GFSF",
    "w-svgd": "SVGD",
    "w-w-sgld-b": "w-SGLD-B",
    "w-pi-sgld": "pi-SGLD",
    "w-gfsf": "GFSF",
    "ensemble": "deep ensemble",
    "mc-dropout": "MC dropout",
    "bbb": "Bayes by backprop",
    "sghmc": "SGHMC",
    "gp": "Gaussian process",
}
SMALL = ("boston", "concrete", "energy", "wine-red", "yacht")
FEW_ROWS = 1000  # up to so many, training and test together, steps are small and epochs few


class Preset(NamedTuple):
    """What is run: sets and methods, how many splits (of protein and of others), and how long.

    ``epochs`` are those of sets with few rows and of all others, ``gp_rows`` the most that the Gaussian process sees.
    """

    datasets: tuple[str, ...]
    splits: int
    splits_of_protein: int
    epochs: tuple[int, int]
    gp_rows: int
    methods: tuple[str, ...] = tuple(METHODS)


PRESETS = {
    "quick": Preset(SMALL, 2, 2, epochs=(200, 800), gp_rows=500),
    "paper": Preset(tuple(UCI), 20, 5, epochs=(500, 3000), gp_rows=2000),
}


def cells(
    preset: str,
    datasets: Sequence[str] = (),
    splits: int | None = None,
    methods: Sequence[str] = (),
    seed: int = 0,
    draw: str = "standard",
) -> list[Cell]:
    """The first splits of every set, by every method."""
    chosen = lookup(PRESETS, preset, "preset")
    lookup(DRAWS, draw, "draw")
    for dataset in datasets:
        lookup(UCI, dataset, "dataset")
    for method in methods:
        lookup(METHODS, method, "method")
    return [
        Cell("uci", method, dataset, split, seed, preset, draw)
        for dataset in (datasets or chosen.datasets)
        # by split, then method: when a worker comes to a split, programs for the set are likely to be there
        for split in range(splits or (chosen.splits_of_protein if dataset == "protein" else chosen.splits))
        for method in (methods or chosen.methods)
    ]


def task_of(cell: Cell, split: Split) -> Task:
    """The paper's widths and batches; each split has randomness of its own.

    >>> import numpy as np
    >>> rows = lambda n: (np.zeros((n, 6)), np.zeros(n))
    >>> task = task_of(Cell("uci", "f-svgd", "yacht", preset="paper"), Split(*rows(277), *rows(31)))
    >>> task.width, task.batch_size, task.epochs, task.steps
    (50, 100, 500, 1500)
    """
    preset = lookup(PRESETS, cell.preset, "preset")
    many = len(split.y_train) + len(split.y_test) > FEW_ROWS
    return Task(
        seed=1000 * cell.seed + cell.split,
        split=split,
        width=100 if cell.dataset == "protein" else 50,
        batch_size=1000 if many else 100,
        epochs=preset.epochs[many],
        gp_rows=preset.gp_rows,
    )


def run_cell(cell: Cell, watch: Watch = lambda done, total, score: None) -> dict[str, Any]:
    """The scores of one method on the test rows of one split, where the last step has left it."""
    method = lookup(METHODS, cell.method, "method")
    split = load_split(cell.dataset, cell.draw, cell.split)
    found = evaluate(method(task_of(cell, split), watch), split.y_test)
    return {name: float(found[name]) for name in SCORES}
