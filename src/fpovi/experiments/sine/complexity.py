# SPDX-License-Identifier: Apache-2.0
"""``complexity``: the sine data under networks of growing width (the paper's Fig. 5), and how much spread they lose.

Two hidden layers of equal width, 50 particles, the paper's prior, on several draws of the data. Every width has a
posterior and a NUTS reference of its own. Narrow networks are hard to fit from draws of the prior: weight space has
4,000 steps, function space as many, the first half of them in weight space.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from fpovi._lookup import lookup
from fpovi.experiments.harness.experiment import Experiment, Options, Watch, silent
from fpovi.experiments.harness.store import Cell, Row, Store
from fpovi.experiments.harness.view import View, short
from fpovi.experiments.sine.comparison import REGIONS, annotate_distance, evaluate_posterior, posterior_panel, rescale
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
from fpovi.plots import FUNCTION_SPACE, INK, MUTED, STYLE, TRUTH, WEIGHT_SPACE
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


SHOWN = {  # method: the label of its panels, and its colour
    "w_svgd": ("weights, SVGD", WEIGHT_SPACE),
    "f_svgd": ("functions, SVGD", FUNCTION_SPACE),
    "f_gfsf": ("functions, GFSF", FUNCTION_SPACE),
}
LINES: dict[str, dict[str, Any]] = {
    "w_svgd": {"color": WEIGHT_SPACE, "marker": "o"},
    "w_gfsf": {"color": WEIGHT_SPACE, "marker": "D", "markersize": 4},
    "f_svgd": {"color": FUNCTION_SPACE, "marker": "o"},
    "f_gfsf": {"color": FUNCTION_SPACE, "marker": "D", "markersize": 4},
    "gp": {"color": MUTED, "marker": "s", "markersize": 4},
    "nuts": {"color": TRUTH, "linestyle": "--"},
}
PARTICLES = [method for method in LABELS if method[:2] in ("w_", "f_")]


def table(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return a record per width and method: means over draws of the data."""
    found: dict[tuple[int, str], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((int(row.cell.dataset), row.cell.method), []).append(row.metrics)
    return [
        {
            "width": width,
            "method": method,
            "draws": len(metrics),
            "w2": float(np.mean([one["w2"]["all"] for one in metrics])),
            "w2_of_draws": [one["w2"]["all"] for one in metrics],
            **{f"spread_{r}": float(np.mean([one["spread_ratio"][r] for one in metrics])) for r in REGIONS},
            "rhat": max((one["rhat"] for one in metrics if "rhat" in one), default=None),
        }
        for width in sorted({width for width, _ in found})
        for method in LABELS
        if (metrics := found.get((width, method)))
    ]


def view(rows: Sequence[Row]) -> View:
    """Return a table of W2 and spread ratios by width; of the particle methods the closest is bold."""
    records = table(rows)
    found = {(line["width"], line["method"]): line["w2"] for line in records if line["method"] in PARTICLES}
    best = {(w, m) for (w, m), d in found.items() if d == min(v for (width, _), v in found.items() if width == w)}
    lines = [
        [
            str(line["width"]),
            LABELS[line["method"]],
            short(line["w2"], 3),
            " ".join(short(value, 2) for value in line["w2_of_draws"]),
            "/".join(short(line[f"spread_{region}"], 2) for region in REGIONS),
            "" if line["rhat"] is None else f"{line['rhat']:.3f}",
        ]
        for line in records
    ]
    return View(
        title="Wider networks: which space keeps its spread?",
        explanation=(
            "W2: 2-Wasserstein distance to NUTS of the same width, in standardised y: mean, and each draw of the data",
            "spread: standard deviation of f over that of NUTS (data/gap/outside), 1 is right, 0 is collapse",
        ),
        columns=("width", "method", "W2", "draws", "spread", "R̂"),
        lines=lines,
        bold=frozenset(n for n, line in enumerate(records) if (line["width"], line["method"]) in best),
        records=records,
        keys=2,
    )


def figure(rows: Sequence[Row]) -> Figure:
    """Draw the paper's Fig. 5, a column per width and a row per method; below, distance and spread over width."""
    seed = rows[0].cell.seed
    shown = {(int(row.cell.dataset), row.cell.method): row for row in rows if row.cell.seed == seed}
    widths = sorted({width for width, _ in shown})
    with mpl.rc_context(STYLE):
        drawing = Figure(figsize=(2.7 * max(len(widths), 3), 10.4), layout="constrained")
        above, below = drawing.subfigures(2, 1, squeeze=False, height_ratios=(2.4, 1))[:, 0]
        axes = above.subplots(len(SHOWN), len(widths), sharex=True, sharey="col", squeeze=False)
        for line, method in zip(axes, SHOWN, strict=True):
            for panel, width in zip(line, widths, strict=True):
                if (width, method) in shown:
                    _panel(panel, shown[width, method], shown[width, "nuts"])
                panel.set_title(f"width {width}")
            name, colour = SHOWN[method]
            line[0].set_ylabel(name, color=colour, fontsize=11, fontweight="bold")
        _over_width(below.subplots(1, 2), rows)
    return drawing


def _panel(panel: Axes, row: Row, truth: Row) -> None:
    posterior_panel(panel, COARSE_GRID, row.metrics, truth, SHOWN[row.cell.method][1])
    annotate_distance(panel, row.metrics)
    low, high = np.quantile(rescale(truth.cell.seed)(truth.metrics["quantiles"]), (0.002, 0.998))
    panel.set_ylim(low - 0.15 * (high - low), high + 0.15 * (high - low))


def _over_width(panels: NDArray[Any], rows: Sequence[Row]) -> None:
    records = table(rows)
    distance, spread = panels
    for method, style in LINES.items():
        lines = [line for line in records if line["method"] == method]
        widths = [line["width"] for line in lines]
        distance.plot(widths, [line["w2"] for line in lines], label=LABELS[method], **style)
        if method in SHOWN:
            on_data, outside = ([line[f"spread_{region}"] for line in lines] for region in ("data", "outside"))
            spread.plot(widths, on_data, label=f"{LABELS[method]}, on the data", **style)
            spread.plot(widths, outside, label=f"{LABELS[method]}, outside", **{**style, "linestyle": ":"})
    spread.axhline(1, color=INK, linewidth=0.8)
    widths = sorted({line["width"] for line in records})
    for panel, title in (
        (distance, "W2 to NUTS, mean over draws of the data"),
        (spread, "spread of f over that of NUTS"),
    ):
        panel.set(xscale="log", yscale="log", xlabel="units in each hidden layer", xticks=widths)
        panel.set_xticklabels([str(width) for width in widths])
        panel.minorticks_off()
        panel.set_title(title)
        panel.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))  # beside the lines, which go everywhere


EXPERIMENT = Experiment(
    cells=cells,
    run=run_cell,
    label=lambda cell: f"width {cell.dataset}, draw {cell.seed}: {LABELS[cell.method]}",
    view=view,
    figure=figure,
    needs=lambda cell: () if cell.method == "nuts" else (reference_of(cell),),
)
