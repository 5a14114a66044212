# SPDX-License-Identifier: Apache-2.0
"""``complexity``: the sine data under networks of growing width (the paper's Fig. 5), and how much spread they lose.

Two hidden layers of equal width, 50 particles, the paper's prior, on several draws of the data. Every width has a
posterior and a NUTS reference of its own. Narrow networks are hard to fit from draws of the prior: weight space has
4,000 steps, function space as many, the first half of them in weight space.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from fpovi._lookup import lookup
from fpovi.experiments.harness.experiment import Options, Watch, silent
from fpovi.experiments.harness.store import Cell, Store
from fpovi.experiments.sine.posteriors import (
    GRID,
    PosteriorDraws,
    SineTask,
    function_space_ours,
    gp_posterior,
    nuts_posterior,
    particle_posterior,
    sine_task,
    weight_space_ours,
)
from fpovi.experiments.sine.scores import evaluate_posterior
from fpovi.priors import width_aware
from fpovi.types import FunctionPrior, Network

COARSE_GRID = GRID[::4]  # rows stay short, and means over regions are the same to two digits
STEPS, RATE = 4000, 1e-2
Method = Callable[[int, SineTask, Watch], PosteriorDraws]


class Chains(NamedTuple):
    """Settings of NUTS. A narrow network's posterior has many modes: its chains are longer and its R̂ may be larger."""

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
    """The widths, and the seeds of the data."""

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
    """Return the cells of a preset, every reference before what is measured against it."""
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
    """Return the cell of NUTS for the same width and data."""
    return replace(cell, method="nuts")


def posterior(method: str, width: int) -> Method:
    """Return the function that finds the posterior of a method at a width."""
    weights = lambda flow: partial(weight_space_ours, flow, rate=RATE)  # noqa: E731
    functions = lambda flow: partial(function_space_ours, flow, function_prior(flow, width))  # noqa: E731
    methods: dict[str, Method] = {
        "nuts": partial(nuts_posterior, **CHAINS[width]._asdict()),
        "gp": gp_posterior,
        **{f"w_{flow}": partial(particle_posterior, weights(flow), STEPS) for flow in FLOWS},
        **{f"f_{flow}": partial(particle_posterior, functions(flow), STEPS, first=weights("svgd")) for flow in FLOWS},
    }
    return methods[method]


def function_prior(flow: str, width: int) -> Callable[[Network], FunctionPrior] | None:
    """Return the prior over functions, or None for the prior of the weights.

    Fewer units than the 16 points of a step cannot explain them all: there ``width_aware`` is stiff and only close to
    the network's prior. A flow that gives every particle its own score takes the prior of the weights then, the exact
    one.
    """
    if width > 16:
        return partial(width_aware, jitter=1e-3, step_size=0.01)
    return partial(width_aware, jitter=1e-2, step_size=0.01) if flow == "svgd" else None


def run_cell(cell: Cell, watch: Watch = silent, store: Store | None = None) -> dict[str, Any]:
    """Return the metrics of one cell; all but ``nuts`` need the row of ``nuts`` in ``store``."""
    width = int(cell.dataset)
    found = posterior(cell.method, width)(cell.seed, sine_task(cell.seed, (width, width), COARSE_GRID), watch)
    metrics = evaluate_posterior(found, store.find(reference_of(cell)) if store else None, COARSE_GRID, cell.seed)
    del metrics["curves"]
    return metrics
