# SPDX-License-Identifier: Apache-2.0
"""All experiments by name, each behind the same five functions."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from fpovi.experiments import (
    adaptation,
    adaptation_view,
    approximation,
    approximation_view,
    complexity,
    complexity_view,
    convergence,
    defaults,
    synthetic,
    synthetic_figure,
    uci,
    uci_figure,
    uci_view,
)
from fpovi.experiments.grid import Options
from fpovi.experiments.store import Cell, Row, Store
from fpovi.experiments.uci_setups import LABELS, SETUPS, Setup
from fpovi.experiments.view import View
from fpovi.experiments.watching import Watch


class Experiment(NamedTuple):
    """``cells(options)`` lists them, ``run(cell, store, watch)`` gives the numbers of one; the rest shows them.

    ``needs(cell)`` are the cells whose rows ``run`` looks for in the store, ``length(cell)`` is how long one takes.
    """

    cells: Callable[[Options], list[Cell]]
    run: Callable[[Cell, Store, Watch], dict[str, Any]]
    label: Callable[[Cell], str]
    view: Callable[[Sequence[Row]], View]
    figure: Callable[[Sequence[Row]], Figure] | None = None
    needs: Callable[[Cell], Sequence[Cell]] = lambda cell: ()
    length: Callable[[Cell], float] = lambda cell: 0


def _against_reference(experiment: Any) -> Callable[[Cell, Store, Watch], dict[str, Any]]:
    """``run`` of an experiment whose cells are measured against another's row."""

    def run(cell: Cell, store: Store, watch: Watch) -> dict[str, Any]:
        reference = next((row for row in store.rows() if row.cell == experiment.reference_of(cell)), None)
        return experiment.run_cell(cell, reference, watch)

    return run


def _reference(experiment: Any) -> Callable[[Cell], Sequence[Cell]]:
    return lambda cell: () if cell == experiment.reference_of(cell) else (experiment.reference_of(cell),)


def _of_split(labels: Mapping[str, str]) -> Callable[[Cell], str]:
    return lambda cell: f"{cell.dataset}, split {cell.split}: {labels[cell.method]}"


def _uci(setup: Setup) -> Experiment:
    return Experiment(
        cells=partial(uci.cells, setup),
        run=lambda cell, store, watch: uci.run_cell(cell, watch),
        label=_of_split(LABELS),
        view=partial(uci_view.view, setup),
        figure=partial(uci_figure.figure, setup),
        length=uci.length,
    )


EXPERIMENTS = {
    "synthetic": Experiment(
        cells=lambda options: synthetic.cells(options.preset, synthetic.SEED if options.seed is None else options.seed),
        run=_against_reference(synthetic),
        label=lambda cell: synthetic.LABELS[cell.method],
        view=synthetic_figure.view,
        figure=synthetic_figure.figure,
        needs=_reference(synthetic),
    ),
    "complexity": Experiment(
        cells=lambda options: complexity.cells(options.preset, options.seed, options.datasets, options.methods),
        run=_against_reference(complexity),
        label=lambda cell: f"width {cell.dataset}, draw {cell.seed}: {complexity.LABELS[cell.method]}",
        view=complexity_view.view,
        figure=complexity_view.figure,
        needs=_reference(complexity),
    ),
    "approximation": Experiment(
        cells=lambda options: approximation.cells(options.preset, options.seed, options.methods),
        run=lambda cell, store, watch: approximation.run_cell(cell, watch),
        label=lambda cell: f"draw {cell.seed}: {approximation.LABELS[cell.method]}",
        view=approximation_view.view,
        figure=approximation_view.figure,
    ),
    "defaults": Experiment(
        cells=defaults.cells,
        run=lambda cell, store, watch: defaults.run_cell(cell),
        label=_of_split(defaults.LABELS),
        view=defaults.view,
    ),
    **{name: _uci(setup) for name, setup in SETUPS.items()},
    "convergence": Experiment(
        cells=convergence.cells,
        run=lambda cell, store, watch: convergence.run_cell(cell, watch),
        label=_of_split(LABELS),
        view=convergence.view,
        figure=convergence.figure,
    ),
    "adaptation": Experiment(
        cells=adaptation.cells,
        run=lambda cell, store, watch: adaptation.run_cell(cell, watch),
        label=_of_split(adaptation.LABELS),
        view=adaptation_view.view,
        figure=adaptation_view.figure,
    ),
}


def run_cell(experiment: str, store: Store, watch: Watch, cell: Cell) -> dict[str, Any]:
    """The numbers of a cell of the experiment of that name, also in another process."""
    return EXPERIMENTS[experiment].run(cell, store, watch)
