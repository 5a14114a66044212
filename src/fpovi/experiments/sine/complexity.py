# SPDX-License-Identifier: Apache-2.0
"""``complexity``: the sine data under networks of growing width (the paper's Fig. 5), and the collapse as a number.

Two hidden layers of equal width, 50 particles, the paper's prior, on several draws of the data. Every width has a
posterior of its own, so every width has a NUTS reference of its own. Narrow networks are hard to fit from draws of the
prior: weight space has 4,000 steps, function space as many, the first half of them in weight space.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from fpovi.experiments.harness.experiment import Options, Watch, silent
from fpovi.experiments.harness.store import Cell, Store
from fpovi.experiments.sine.posteriors import (
    GRID,
    Found,
    Problem,
    gp_posterior,
    in_functions,
    in_weights,
    nuts_posterior,
    particle_posterior,
    problem,
)
from fpovi.experiments.sine.scores import judged
from fpovi.priors import width_aware
from fpovi.types import FunctionPrior, Network, lookup

ASKED = GRID[::4]  # rows stay short, and means over regions are the same to two digits
STEPS, RATE = 4000, 1e-2
Method = Callable[[int, Problem, Watch], Found]


class Chains(NamedTuple):
    """How NUTS is run. A narrow network's posterior has many modes: there chains are longer and R̂ is allowed more."""

    chains: int
    warmup: int
    draws: int
    rhat_limit: float


CHAINS = {
    5: Chains(4, 1000, 2000, 1.1),
    10: Chains(4, 1000, 2000, 1.05),
    20: Chains(4, 300, 500, 1.01),
    50: Chains(4, 300, 500, 1.01),
    100: Chains(4, 300, 500, 1.01),
}


class Preset(NamedTuple):
    """Which widths, on which draws of the data."""

    widths: tuple[int, ...]
    seeds: tuple[int, ...]


PRESETS = {"quick": Preset((10, 50), (3,)), "paper": Preset(tuple(CHAINS), (3, 0, 1, 2, 4))}
FLOWS = ("svgd", "gfsf")
LABELS = {
    "nuts": "NUTS, 50 draws",
    "gp": "exact GP, 50 draws",
    "w_svgd": "weight-space SVGD",
    "w_gfsf": "weight-space GFSF",
    "f_svgd": "f-SVGD",
    "f_gfsf": "f-GFSF",
}


def cells(options: Options) -> list[Cell]:
    """The cells of a preset, every reference before what is measured against it."""
    chosen = lookup(PRESETS, options.preset, "preset")
    for width in options.datasets:
        lookup({str(known): known for known in CHAINS}, width, "dataset")
    for method in options.methods:
        lookup(LABELS, method, "method")
    return [
        Cell("complexity", method, dataset=str(width), seed=draw, preset=options.preset)
        for draw in (chosen.seeds if options.seed is None else (options.seed,))
        for width in (options.datasets or chosen.widths)
        for method in LABELS
        if not options.methods or method in options.methods or method == "nuts"
    ]


def reference_of(cell: Cell) -> Cell:
    """NUTS of the same width on the same data."""
    return replace(cell, method="nuts")


def posterior(method: str, width: int) -> Method:
    """How a method finds its posterior at a width."""
    weights = lambda flow: partial(in_weights, flow, rate=RATE)  # noqa: E731
    functions = lambda flow: partial(in_functions, flow, function_prior(flow, width))  # noqa: E731
    methods: dict[str, Method] = {
        "nuts": partial(nuts_posterior, **CHAINS[width]._asdict()),
        "gp": gp_posterior,
        **{f"w_{flow}": partial(particle_posterior, weights(flow), STEPS) for flow in FLOWS},
        **{f"f_{flow}": partial(particle_posterior, functions(flow), STEPS, first=weights("svgd")) for flow in FLOWS},
    }
    return methods[method]


def function_prior(flow: str, width: int) -> Callable[[Network], FunctionPrior] | None:
    """Fewer units than the 16 points of a step cannot explain them all: ``width_aware`` is stiff and not the truth.

    A flow that gives every particle its own score has the prior of the weights there, which is (None).
    """
    if width > 16:
        return width_aware
    return partial(width_aware, jitter=1e-2) if flow == "svgd" else None


def run_cell(cell: Cell, watch: Watch = silent, store: Store | None = None) -> dict[str, Any]:
    """Return the metrics of one cell; all but ``nuts`` need the row of ``nuts`` in ``store``."""
    width = int(cell.dataset)
    found = posterior(cell.method, width)(cell.seed, problem(cell.seed, (width, width), ASKED), watch)
    metrics = judged(found, store.find(reference_of(cell)) if store else None, ASKED, cell.seed)
    del metrics["curves"]
    return metrics
