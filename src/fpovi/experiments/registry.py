# SPDX-License-Identifier: Apache-2.0
"""All experiments by name, each behind the same five functions."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from fpovi.experiments import (
    approximation,
    approximation_view,
    complexity,
    complexity_view,
    defaults,
    synthetic,
    synthetic_figure,
    uci,
    uci_view,
)
from fpovi.experiments.store import Cell, Row, Store
from fpovi.experiments.view import View

Watch = Callable[[int, int, float], None]
SILENT: Watch = lambda done, total, score: None  # noqa: E731


class Options(NamedTuple):
    """What a user may say of an experiment; an empty or absent choice is the preset's."""

    preset: str = "quick"
    seed: int | None = None
    datasets: tuple[str, ...] = ()
    splits: int | None = None
    methods: tuple[str, ...] = ()
    draw: str = "standard"


class Experiment(NamedTuple):
    """``cells(options)`` lists them, ``run(cell, store, watch)`` gives the numbers of one; the rest shows them.

    ``needs(cell)`` are the cells whose rows ``run`` looks for in the store.
    """

    cells: Callable[[Options], list[Cell]]
    run: Callable[[Cell, Store, Watch], dict[str, Any]]
    label: Callable[[Cell], str]
    view: Callable[[Sequence[Row]], View]
    figure: Callable[[Sequence[Row]], Figure] | None = None
    needs: Callable[[Cell], Sequence[Cell]] = lambda cell: ()


def _against_reference(experiment: Any) -> Callable[[Cell, Store, Watch], dict[str, Any]]:
    """``run`` of an experiment whose cells are measured against another's row."""

    def run(cell: Cell, store: Store, watch: Watch) -> dict[str, Any]:
        reference = next((row for row in store.rows() if row.cell == experiment.reference_of(cell)), None)
        return experiment.run_cell(cell, reference, watch)

    return run


def _reference(experiment: Any) -> Callable[[Cell], Sequence[Cell]]:
    return lambda cell: () if cell == experiment.reference_of(cell) else (experiment.reference_of(cell),)


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
        cells=lambda options: defaults.cells(options.preset, options.datasets, options.splits, options.methods),
        run=lambda cell, store, watch: defaults.run_cell(cell),
        label=lambda cell: f"{cell.dataset}, split {cell.split}: {defaults.LABELS[cell.method]}",
        view=defaults.view,
    ),
    "uci": Experiment(
        cells=lambda options: uci.cells(
            options.preset, options.datasets, options.splits, options.methods, options.seed or 0, options.draw
        ),
        run=lambda cell, store, watch: uci.run_cell(cell, watch),
        label=lambda cell: f"{cell.dataset}, split {cell.split}: {uci.LABELS[cell.method]}",
        view=uci_view.view,
        figure=uci_view.figure,
    ),
}


def run_cell(experiment: str, store: Store, watch: Watch, cell: Cell) -> dict[str, Any]:
    """The numbers of a cell of the experiment of that name, also in another process."""
    return EXPERIMENTS[experiment].run(cell, store, watch)
