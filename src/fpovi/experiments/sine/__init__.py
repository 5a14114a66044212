# SPDX-License-Identifier: Apache-2.0
"""The one-dimensional sine data of the paper, where the exact posterior is known (NUTS)."""

from collections.abc import Callable, Sequence
from typing import Any

from fpovi.experiments.harness.experiment import Experiment
from fpovi.experiments.harness.store import Cell
from fpovi.experiments.sine import complexity, complexity_view, synthetic, synthetic_view


def _reference(module: Any) -> Callable[[Cell], Sequence[Cell]]:
    """Return a function of a cell: the reference that it is measured against, unless it is that itself."""
    return lambda cell: () if cell == module.reference_of(cell) else (module.reference_of(cell),)


EXPERIMENTS = {
    "synthetic": Experiment(
        cells=synthetic.cells,
        run=synthetic.run_cell,
        label=lambda cell: synthetic.LABELS[cell.method],
        view=synthetic_view.view,
        figure=synthetic_view.figure,
        needs=_reference(synthetic),
    ),
    "complexity": Experiment(
        cells=complexity.cells,
        run=complexity.run_cell,
        label=lambda cell: f"width {cell.dataset}, draw {cell.seed}: {complexity.LABELS[cell.method]}",
        view=complexity_view.view,
        figure=complexity_view.figure,
        needs=_reference(complexity),
    ),
}
