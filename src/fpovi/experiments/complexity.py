# SPDX-License-Identifier: Apache-2.0
"""``complexity``: the sine data under networks of growing width (the paper's Fig. 5), and the collapse as a number.

Two hidden layers of equal width, 50 particles, the paper's prior, on several draws of the data. Every width has a
posterior of its own, so every width has a NUTS reference of its own. ``floor`` is the least that 50 functions leave.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fpovi.experiments.distances import quantiles
from fpovi.experiments.sine_posteriors import (
    GRID,
    Found,
    Problem,
    Watch,
    gp_posterior,
    in_functions,
    in_weights,
    nuts_posterior,
    particle_posterior,
    problem,
)
from fpovi.experiments.sine_scores import outlines, rounded, score
from fpovi.experiments.store import Cell, Row
from fpovi.priors import width_aware
from fpovi.types import lookup

ASKED = GRID[::4]  # rows stay short, and means over regions are the same to two digits
STEPS = 2000
Method = Callable[[int, Problem, Watch], Found]


class Chains(NamedTuple):
    """How NUTS is run. A narrow network's posterior has many modes: there chains are longer and R̂ is allowed more."""

    chains: int
    warmup: int
    draws: int
    rhat_limit: float


CHAINS = {
    5: Chains(8, 500, 1000, 1.1),
    10: Chains(4, 500, 1000, 1.05),
    20: Chains(4, 300, 500, 1.02),
    50: Chains(4, 300, 500, 1.01),
    100: Chains(4, 300, 300, 1.01),
}


class Preset(NamedTuple):
    """Which widths, on which draws of the data."""

    widths: tuple[int, ...]
    seeds: tuple[int, ...]


PRESETS = {"quick": Preset((10, 50), (3,)), "paper": Preset(tuple(CHAINS), (3, 0))}
LABELS = {
    "nuts": "NUTS, 50 draws",
    "gp": "exact GP, 50 draws",
    "f_svgd": "f-SVGD",
    "w_svgd": "weight-space SVGD",
}


def cells(
    preset: str = "quick", seed: int | None = None, widths: Sequence[str] = (), methods: Sequence[str] = ()
) -> list[Cell]:
    """The cells of a preset, every reference before what is measured against it."""
    chosen = lookup(PRESETS, preset, "preset")
    for width in widths:
        lookup({str(known): known for known in CHAINS}, width, "dataset")
    for method in methods:
        lookup(LABELS, method, "method")
    return [
        Cell("complexity", method, dataset=str(width), seed=draw, preset=preset)
        for draw in (chosen.seeds if seed is None else (seed,))
        for width in (widths or chosen.widths)
        for method in LABELS
        if not methods or method in methods or method == "nuts"
    ]


def reference_of(cell: Cell) -> Cell:
    """NUTS of the same width on the same data."""
    return replace(cell, method="nuts")


def posterior(method: str, width: int) -> Method:
    """How a method finds its posterior at a width."""
    return {
        "nuts": partial(nuts_posterior, **CHAINS[width]._asdict()),
        "gp": gp_posterior,
        "f_svgd": partial(particle_posterior, partial(in_functions, "svgd", width_aware), STEPS),
        "w_svgd": partial(particle_posterior, partial(in_weights, "svgd"), STEPS),
    }[method]


def run_cell(cell: Cell, reference: Row | None, watch: Watch = lambda done, total, score: None) -> dict[str, Any]:
    """The numbers of one cell; all but ``nuts`` need the row of ``nuts`` as ``reference``."""
    width = int(cell.dataset)
    draws, facts = posterior(cell.method, width)(cell.seed, problem(cell.seed, (width, width), ASKED), watch)
    truth = quantiles(draws) if reference is None else np.asarray(reference.metrics["quantiles"])
    metrics = {**score(draws, truth, ASKED, cell.seed), **outlines(draws), **facts}
    del metrics["curves"]
    return metrics if reference is not None else {**metrics, "quantiles": [rounded(row) for row in truth]}
