# SPDX-License-Identifier: Apache-2.0
"""``synthetic``: the paper's one-dimensional sine data, every method against NUTS.

Measured is how close the marginals of f are to the exact posterior's, on the data, in their gap and outside. ``quick``
compares function space with the alternatives; ``paper`` is the grid of the paper's Figs. 1 and 4, four flows in both
spaces, with the settings of the paper's code as a third row; ``kernels`` is the figure of its appendix on kernels in
weight space that compare functions (k_f) or activations (k_a).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from fpovi._lookup import lookup
from fpovi.experiments.harness.experiment import Experiment, Options, Watch, silent
from fpovi.experiments.harness.store import Cell, Row, Store
from fpovi.experiments.harness.view import View, markdown, short
from fpovi.experiments.sine.comparison import (
    GAP,
    REGIONS,
    annotate_distance,
    evaluate_posterior,
    posterior_panel,
    predictive_band,
    rescale,
)
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
from fpovi.plots import FUNCTION_SPACE, MUTED, STYLE, TRUTH, WEIGHT_SPACE
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
# of weight space, by the end of a method's name: the kernel, and its label
KERNELS = {"": ("rbf", "RBF"), "_kf": ("function_value", "k_f"), "_ka": ("activation", "k_a")}
KERNEL_METHODS = {f"w_{flow}{end}": (flow, *kernel) for flow in ("svgd", "w_sgld_b") for end, kernel in KERNELS.items()}
ALGORITHMS: dict[str, MakeAlgorithm] = {
    **{f"{space}_{flow}": make(flow) for space, make in SPACES.items() for flow in FLOWS},
    **{name: partial(weight_space_ours, flow, kernel=kernel) for name, (flow, kernel, _) in KERNEL_METHODS.items()},
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
    "kernels": ("nuts", "f_svgd", *KERNEL_METHODS),
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
        name: f"weight-space {FLOWS[flow]}, {kernel}"
        for name, (flow, _, kernel) in KERNEL_METHODS.items()
        if name.endswith(("_kf", "_ka"))
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


PANELS = ("f_svgd", "w_svgd", "map_ensemble")
COLOURS = {"w": WEIGHT_SPACE, "f": FUNCTION_SPACE, "released": "#5b7f95", "map": WEIGHT_SPACE}
TITLES = {"w": "weight space", "f": "function space", "released": "function space,\nas released"}
# preset -> rows of panels: the title of each, its methods and their labels; the reference stands left of the first row
GRIDS = {
    "paper": {TITLES[space]: {f"{space}_{flow}": label for flow, label in FLOWS.items()} for space in SPACES},
    "kernels": {
        f"weight space,\n{FLOWS[flow]}": {f"w_{flow}{end}": label for end, (_, label) in KERNELS.items()}
        for flow in dict.fromkeys(flow for flow, *_ in KERNEL_METHODS.values())
    },
}
BESIDE = {"kernels": "f_svgd"}  # left of the second row


def table(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return a record per method, in the order of the cells: W2 to NUTS and the ratio of spreads, by region."""
    return [
        {
            "method": LABELS[row.cell.method],
            **{f"w2_{region}": row.metrics["w2"][region] for region in ("all", *REGIONS)},
            **{f"spread_{region}": row.metrics["spread_ratio"][region] for region in REGIONS},
            "seconds": row.seconds,
        }
        for row in rows
    ]


def view(rows: Sequence[Row]) -> View:
    """Return the table of all methods, the closest one in bold."""
    records, nuts = table(rows), rows[0].metrics
    best = min(row.metrics["w2"]["all"] for row in rows if row.cell.method in ALGORITHMS)
    return View(
        title="How far from the exact posterior?",
        explanation=(
            "W2: 2-Wasserstein distance to NUTS per grid point, averaged, in standardised y",
            "spread: standard deviation of f over that of NUTS (data/gap/outside)",
        ),
        columns=("method", "W2", *REGIONS, "spread", "s"),
        lines=[
            [
                line["method"],
                *(short(line[f"w2_{region}"], 3) for region in ("all", *REGIONS)),
                "/".join(short(line[f"spread_{region}"], 2) for region in REGIONS),
                f"{line['seconds']:.0f}",
            ]
            for line in records
        ],
        bold=frozenset(number for number, line in enumerate(records) if line["w2_all"] == best),
        notes=(f"NUTS: 4 chains, R̂ ≤ {nuts['rhat']:.3f}, at least {nuts['ess']:.0f} effective draws",),
        records=records,
    )


def by_draw(rows: Sequence[Row]) -> str:
    """Return W2 to NUTS in the rows of ``quick`` as Markdown: a line per method and a column per draw of the data."""
    rows = [row for row in rows if row.cell.preset == "quick"]
    seeds = list(dict.fromkeys(row.cell.seed for row in rows))
    found = {(row.cell.method, row.cell.seed): row.metrics["w2"]["all"] for row in rows}
    lines = ["| | " + " | ".join(f"draw {seed}" for seed in seeds) + " | mean |", "|---" * (len(seeds) + 2) + "|"]
    for method, label in LABELS.items():
        values = [found[method, seed] for seed in seeds if (method, seed) in found]
        if len(values) == len(seeds):
            numbers = [f"{value:.3f}" for value in (*values, sum(values) / len(values))]
            lines.append(f"| {label} | " + " | ".join(numbers) + " |")
    return "\n".join(lines)


def of_preset(preset: str, rows: Sequence[Row]) -> str:
    """Return the rows of a preset as Markdown, with the reference they were measured against, for the first draw."""
    seed = next(row.cell.seed for row in rows if row.cell.preset == preset)
    kept = [row for row in rows if row.cell.seed == seed]
    return markdown(view([*(row for row in kept if row.cell.method == "nuts"),
                          *(row for row in kept if row.cell.preset == preset)]))  # fmt: skip


def figure(rows: Sequence[Row]) -> Figure:
    """Draw each method's posterior in a panel, NUTS dashed on top: do the bands agree where there are no data?"""
    preset = next((row.cell.preset for row in rows if row.cell.preset in GRIDS), None)
    by_method = {row.cell.method: row for row in rows}
    with mpl.rc_context(STYLE):
        return _three_panels(by_method) if preset is None else _many_panels(by_method, preset)


def _three_panels(by_method: dict[str, Row]) -> Figure:
    methods = [name for name in PANELS if name in by_method]
    drawing = Figure(figsize=(3.7 * len(methods), 3.4), layout="constrained")
    axes = drawing.subplots(1, len(methods), sharey=True, squeeze=False)[0]
    for panel, method in zip(axes, methods, strict=True):
        curves = by_method[method].metrics["curves"]
        _draw(panel, by_method, method, LABELS[method], curves, distance="distance to NUTS")
        panel.set_xlabel("x")
    axes[0].set_ylabel("y")
    axes[0].legend(loc="lower left", fontsize=9)
    return drawing


def _many_panels(by_method: dict[str, Row], preset: str) -> Figure:
    """Draw a panel per method, and left of them the reference. Dark: f; light: a new y."""
    truth, grid, beside = by_method["nuts"], GRIDS[preset], BESIDE.get(preset)
    columns = 1 + len(next(iter(grid.values())))
    drawing = Figure(figsize=(2.7 * columns, 0.4 + 2.6 * len(grid)), layout="constrained")
    axes = drawing.subplots(len(grid), columns, sharex=True, sharey=True)
    exact = np.asarray(truth.metrics["quantiles"])
    _panel(axes[0, 0], {**truth.metrics, "predictive": predictive_band(exact)}, truth, TRUTH)
    axes[0, 0].set_title("NUTS", color=TRUTH)
    if beside is None:
        axes[1, 0].legend(*axes[0, 0].get_legend_handles_labels(), loc="upper left", fontsize=9)
    else:
        _draw(axes[1, 0], by_method, beside, LABELS[beside])
        axes[0, 0].legend(loc="upper left", fontsize=7)
    for unused in axes[1 if beside is None else 2 :, 0]:
        unused.set_axis_off()
    for places, (title, panels) in zip(axes[:, 1:], grid.items(), strict=True):
        for panel, (method, label) in zip(places, panels.items(), strict=True):
            colour = _draw(panel, by_method, method, label)
        places[0].tick_params(labelleft=True)
        places[0].set_ylabel(title, color=colour, fontsize=11, fontweight="bold")
    axes[0, 0].set_ylim(rescale(truth.cell.seed)([exact.min(), exact.max()]))
    return drawing


def _draw(
    panel: Axes, by_method: dict[str, Row], method: str, label: str, curves: Sequence[ArrayLike] = (),
    distance: str = "W2",
) -> str:  # fmt: skip
    """Draw the posterior of a method under its label, and return its colour."""
    metrics, colour = by_method[method].metrics, COLOURS[method.split("_")[0]]
    _panel(panel, metrics, by_method["nuts"], colour, curves)
    panel.set_title(label, color=colour)
    annotate_distance(panel, metrics, distance)
    return colour


def _panel(panel: Axes, metrics: dict[str, Any], truth: Row, colour: str, curves: Sequence[ArrayLike] = ()) -> None:
    panel.axvspan(*GAP, color=MUTED, alpha=0.13, linewidth=0)
    posterior_panel(panel, GRID, metrics, truth, colour, curves)


EXPERIMENT = Experiment(
    cells=cells,
    run=run_cell,
    label=lambda cell: LABELS[cell.method],
    view=view,
    figure=figure,
    needs=lambda cell: () if cell.method == "nuts" else (reference_of(cell),),
)
