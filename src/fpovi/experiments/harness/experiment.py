# SPDX-License-Identifier: Apache-2.0
"""The record of an experiment, the options a user has, and grids of cells."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from fpovi._lookup import lookup
from fpovi.experiments.harness.store import Cell, Row, Store
from fpovi.experiments.harness.verify import Tolerance
from fpovi.experiments.harness.view import View

Watch = Callable[[int, int, float], None]  # watch(done, total, score), called now and then while a cell runs


def silent(done: int, total: int, score: float) -> None:
    """Ignore progress reports."""


class Options(NamedTuple):
    """A user's choices for an experiment. The preset decides what is empty or None."""

    preset: str = "quick"
    seed: int | None = None
    datasets: tuple[str, ...] = ()
    splits: int | None = None
    methods: tuple[str, ...] = ()
    split_kind: str = "standard"


class Experiment(NamedTuple):
    """An experiment: functions of a user's options, of a cell, or of rows.

    Attributes:
        cells: returns what to run.
        run: ``run(cell, watch, store)`` returns the metrics of a cell, in JSON types.
        label: returns the name of a cell for people.
        view: returns the table of finished rows.
        figure: returns the figure of finished rows, if there is one.
        needs: returns the cells whose rows ``run`` looks up in ``store``.
        length: returns how long a cell takes, in any unit.
        tolerance: returns how near the metrics of a cell have to be to those of its row when it runs again.
    """

    cells: Callable[[Options], list[Cell]]
    run: Callable[[Cell, Watch, Store], dict[str, Any]]
    label: Callable[[Cell], str]
    view: Callable[[Sequence[Row]], View]
    figure: Callable[[Sequence[Row]], Figure] | None = None
    needs: Callable[[Cell], Sequence[Cell]] = lambda cell: ()
    length: Callable[[Cell], float] = lambda cell: 0
    tolerance: Callable[[Cell], Tolerance] = lambda cell: Tolerance()


def grid(
    experiment: str,
    options: Options,
    *,
    datasets: Sequence[str],
    splits: Callable[[str], int],
    methods: Sequence[str],
    known_datasets: Collection[str],
    known_methods: Collection[str],
    known_split_kinds: Collection[str] = ("standard",),
) -> list[Cell]:
    """Return the cells of a user's choice of data sets, splits and methods; the preset decides what is left open.

    Methods vary fastest: when a worker comes to a split, the programs for its data set are likely to be compiled.

    Args:
        experiment: the name in every cell.
        options: the user's choice.
        datasets: the data sets of the preset.
        splits: how many splits of a data set the preset has.
        methods: the methods of the preset.
        known_datasets: the data sets that may be chosen.
        known_methods: the methods that may be chosen.
        known_split_kinds: the kinds of splits that may be chosen.

    Raises:
        ValueError: a choice is not known.

    >>> some = {"datasets": ["yacht"], "splits": len, "methods": ["gp"]}
    >>> known = {"known_datasets": ["yacht"], "known_methods": ["gp"]}
    >>> [(cell.dataset, cell.split) for cell in grid("uci", Options(splits=2), **some, **known)]
    [('yacht', 0), ('yacht', 1)]
    """
    lookup(dict.fromkeys(known_split_kinds), options.split_kind, "split_kind")
    for dataset in options.datasets:
        lookup(dict.fromkeys(known_datasets), dataset, "dataset")
    for method in options.methods:
        lookup(dict.fromkeys(known_methods), method, "method")
    return [
        Cell(experiment, method, dataset, split, options.seed or 0, options.preset, options.split_kind)
        for dataset in (options.datasets or datasets)
        for split in range(options.splits or splits(dataset))
        for method in (options.methods or methods)
    ]


def label_of_split(labels: dict[str, str]) -> Callable[[Cell], str]:
    """Return a function that names a cell by data set, split and method."""
    return lambda cell: f"{cell.dataset}, split {cell.split}: {labels[cell.method]}"
