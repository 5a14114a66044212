# SPDX-License-Identifier: Apache-2.0
"""The cells of experiments on UCI sets: sets × splits × methods, those of a preset or those a user asks for."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from fpovi.data.splits import DRAWS
from fpovi.data.uci import UCI
from fpovi.experiments.store import Cell
from fpovi.types import lookup


class Options(NamedTuple):
    """What a user may say of an experiment; an empty or absent choice is the preset's."""

    preset: str = "quick"
    seed: int | None = None
    datasets: tuple[str, ...] = ()
    splits: int | None = None
    methods: tuple[str, ...] = ()
    draw: str = "standard"


def grid(
    experiment: str,
    options: Options,
    datasets: Sequence[str],
    splits: Callable[[str], int],
    methods: Sequence[str],
    known: Iterable[str],
) -> list[Cell]:
    """The user's choice of sets, splits and methods, checked; else ``datasets``, ``splits(dataset)`` and ``methods``.

    ``known`` are the methods that may be asked for. A method is innermost: when a worker comes to a split, programs for
    the set are likely to be there.

    >>> [(cell.dataset, cell.split) for cell in grid("uci", Options(splits=2), ["yacht"], len, ["gp"], ["gp"])]
    [('yacht', 0), ('yacht', 1)]
    """
    lookup(DRAWS, options.draw, "draw")
    for dataset in options.datasets:
        lookup(UCI, dataset, "dataset")
    for method in options.methods:
        lookup(dict.fromkeys(known), method, "method")
    return [
        Cell(experiment, method, dataset, split, options.seed or 0, options.preset, options.draw)
        for dataset in (options.datasets or datasets)
        for split in range(options.splits or splits(dataset))
        for method in (options.methods or methods)
    ]
