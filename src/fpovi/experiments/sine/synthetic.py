# SPDX-License-Identifier: Apache-2.0
"""``synthetic``: the paper's one-dimensional sine data, every method against NUTS.

Measured is how close the marginals of f are to the exact posterior's, on the data, in their gap and outside. ``quick``
compares function space with the alternatives; ``paper`` is the grid of the paper's Figs. 1 and 4, four flows in both
spaces, with the settings of the paper's code as a third row; ``kernels`` is the figure of its appendix on kernels in
weight space that compare functions (k_f) or activations (k_a).
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from fpovi._lookup import lookup
from fpovi.experiments.harness.experiment import Options, Watch, silent
from fpovi.experiments.harness.store import Cell, Store
from fpovi.experiments.sine.posteriors import (
    GRID,
    MakeAlgorithm,
    PosteriorDraws,
    SineTask,
    function_space_as_released,
    function_space_ours,
    gp_posterior,
    nuts_posterior,
    particle_posterior,
    sine_task,
    weight_space_ours,
)
from fpovi.experiments.sine.scores import evaluate_posterior
from fpovi.priors import nngp, width_aware

SEED = 3
STEPS, STEPS_AS_RELEASED = 2000, 5000
FLOWS = {"svgd": "SVGD", "w_sgld_b": "w-SGLD-B", "pi_sgld": "pi-SGLD", "gfsf": "GFSF"}
PRIOR = partial(width_aware, jitter=1e-3, step_size=0.01)
SPACES: dict[str, Callable[[str], MakeAlgorithm]] = {
    "w": lambda flow: partial(weight_space_ours, flow),
    "f": lambda flow: partial(function_space_ours, flow, PRIOR),
    "released": lambda flow: partial(function_space_as_released, flow),
}
KERNEL_FLOWS = ("svgd", "w_sgld_b")  # the flows with which several kernels are tried
KERNELS = {"": "rbf", "_kf": "function_value", "_ka": "activation"}  # by the end of a method's name
KERNEL_LABELS = {"": "RBF", "_kf": "k_f", "_ka": "k_a"}
ALGORITHMS: dict[str, MakeAlgorithm] = {
    **{f"{space}_{flow}": make(flow) for space, make in SPACES.items() for flow in FLOWS},
    **{
        f"w_{flow}{end}": partial(weight_space_ours, flow, kernel=kernel)
        for flow in KERNEL_FLOWS
        for end, kernel in KERNELS.items()
    },
    "f_svgd_nngp": partial(function_space_ours, "svgd", partial(nngp, jitter=1e-4)),
    "map_ensemble": partial(weight_space_ours, "ensemble"),
}


def _steps(method: str) -> int:
    return STEPS_AS_RELEASED if method.startswith("released") else STEPS


POSTERIORS: dict[str, Callable[[int, SineTask, Watch], PosteriorDraws]] = {
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
    "kernels": ("nuts", "f_svgd", *(f"w_{flow}{end}" for flow in KERNEL_FLOWS for end in KERNEL_LABELS)),
}
LABELS = {
    "nuts": "NUTS, 50 draws",
    "gp": "exact GP, 50 draws",
    "f_svgd": "f-SVGD",
    "f_svgd_nngp": "f-SVGD, Gaussian prior",
    "w_svgd": "weight-space SVGD",
    "map_ensemble": "MAP ensemble",
    **{f"w_{flow}": f"weight-space {label}" for flow, label in FLOWS.items()},
    **{
        f"w_{flow}{end}": f"weight-space {FLOWS[flow]}, {KERNEL_LABELS[end]}"
        for flow in KERNEL_FLOWS
        for end in KERNEL_LABELS
        if end
    },
    **{f"f_{flow}": f"f-{label}" for flow, label in FLOWS.items()},
    **{f"released_{flow}": f"f-{label}, as released" for flow, label in FLOWS.items()},
}


def cells(options: Options) -> list[Cell]:
    """Return the cells of a preset, the reference first."""
    methods, seed = lookup(PRESETS, options.preset, "preset"), SEED if options.seed is None else options.seed
    found = [Cell("synthetic", method, dataset="sine", seed=seed, preset=options.preset) for method in methods]
    return [reference_of(found[0]), *found[1:]]


def reference_of(cell: Cell) -> Cell:
    """Return the cell that ``cell`` is measured against: one for all presets, as its row is long."""
    return replace(cell, method="nuts", preset="quick")


def run_cell(cell: Cell, watch: Watch = silent, store: Store | None = None) -> dict[str, Any]:
    """Return the metrics of one cell; all but ``nuts`` need the row of ``nuts`` in ``store``."""
    posterior = lookup(POSTERIORS, cell.method, "method")(cell.seed, sine_task(cell.seed), watch)
    return evaluate_posterior(posterior, store.find(reference_of(cell)) if store else None, GRID, cell.seed)
