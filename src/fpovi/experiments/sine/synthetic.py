# SPDX-License-Identifier: Apache-2.0
"""``synthetic``: the paper's one-dimensional sine data, every method against NUTS.

The question is how close the marginals of f are to the exact posterior's, on the data, in their gap and outside.
``quick`` compares function space with what it should replace; ``paper`` is the grid of the paper's Figs. 1 and 4, four
flows in both spaces, with the settings of the paper's code as a third row; ``kernels`` is the figure of its appendix on
kernels in weight space that look at functions (k_f) or activations (k_a).
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from fpovi.experiments.harness.experiment import Options, Watch, silent
from fpovi.experiments.harness.store import Cell, Store
from fpovi.experiments.sine.posteriors import (
    GRID,
    Found,
    Problem,
    as_released,
    gp_posterior,
    in_functions,
    in_weights,
    nuts_posterior,
    particle_posterior,
    problem,
)
from fpovi.experiments.sine.scores import judged
from fpovi.priors import nngp, width_aware
from fpovi.types import Algorithm, lookup

SEED = 3
STEPS, STEPS_AS_RELEASED = 2000, 5000
FLOWS = {"svgd": "SVGD", "w_sgld_b": "w-SGLD-B", "pi_sgld": "pi-SGLD", "gfsf": "GFSF"}
SPACES: dict[str, Callable[[str], Callable[[Problem, int], Algorithm]]] = {
    "w": lambda flow: partial(in_weights, flow),
    "f": lambda flow: partial(in_functions, flow, width_aware),
    "released": lambda flow: partial(as_released, flow),
}
COMPARED = ("svgd", "w_sgld_b")  # flows with which kernels are tried, and these by the end of a method's name
LOOKING = {"": "rbf", "_kf": "function_value", "_ka": "activation"}
CALLED = {"": "RBF", "_kf": "k_f", "_ka": "k_a"}
ALGORITHMS: dict[str, Callable[[Problem, int], Algorithm]] = {
    **{f"{space}_{flow}": make(flow) for space, make in SPACES.items() for flow in FLOWS},
    **{f"w_{flow}{end}": partial(in_weights, flow, kernel=k) for flow in COMPARED for end, k in LOOKING.items()},
    "f_svgd_nngp": partial(in_functions, "svgd", nngp),
    "map_ensemble": partial(in_weights, "ensemble"),
}


def _steps(method: str) -> int:
    return STEPS_AS_RELEASED if method.startswith("released") else STEPS


POSTERIORS: dict[str, Callable[[int, Problem, Watch], Found]] = {
    "nuts": nuts_posterior,
    "gp": gp_posterior,
    **{
        name: (lambda *args, name=name, make=make: particle_posterior(make, _steps(name), *args))
        for name, make in ALGORITHMS.items()
    },
}
PRESETS = {
    "quick": ("nuts", "gp", "f_svgd", "f_svgd_nngp", "w_svgd", "map_ensemble"),
    "paper": ("nuts", *(f"{space}_{flow}" for space in SPACES for flow in FLOWS)),
    "kernels": ("nuts", "f_svgd", *(f"w_{flow}{end}" for flow in COMPARED for end in CALLED)),
}
LABELS = {
    "nuts": "NUTS, 50 draws",
    "gp": "exact GP, 50 draws",
    "f_svgd": "f-SVGD",
    "f_svgd_nngp": "f-SVGD, Gaussian prior",
    "w_svgd": "weight-space SVGD",
    "map_ensemble": "MAP ensemble",
    **{f"w_{flow}": f"weight-space {label}" for flow, label in FLOWS.items()},
    **{f"w_{flow}{end}": f"weight-space {FLOWS[flow]}, {CALLED[end]}" for flow in COMPARED for end in CALLED if end},
    **{f"f_{flow}": f"f-{label}" for flow, label in FLOWS.items()},
    **{f"released_{flow}": f"f-{label}, as released" for flow, label in FLOWS.items()},
}


def cells(options: Options) -> list[Cell]:
    """The cells of a preset, the reference first."""
    methods, seed = lookup(PRESETS, options.preset, "preset"), SEED if options.seed is None else options.seed
    found = [Cell("synthetic", method, dataset="sine", seed=seed, preset=options.preset) for method in methods]
    return [reference_of(found[0]), *found[1:]]


def reference_of(cell: Cell) -> Cell:
    """The cell that ``cell`` is measured against: one for all presets, as its row is long."""
    return replace(cell, method="nuts", preset="quick")


def run_cell(cell: Cell, watch: Watch = silent, store: Store | None = None) -> dict[str, Any]:
    """Return the metrics of one cell; all but ``nuts`` need the row of ``nuts`` in ``store``."""
    found = lookup(POSTERIORS, cell.method, "method")(cell.seed, problem(cell.seed), watch)
    return judged(found, store.find(reference_of(cell)) if store else None, GRID, cell.seed)
