# SPDX-License-Identifier: Apache-2.0
"""The tables and the figures of ``synthetic``, made from its rows."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from fpovi.experiments.harness.store import Row
from fpovi.experiments.harness.view import View, markdown, short
from fpovi.experiments.sine.panel import annotate_distance, posterior_panel, rescale
from fpovi.experiments.sine.posteriors import GRID
from fpovi.experiments.sine.scores import GAP, REGION_NAMES, predictive_band
from fpovi.experiments.sine.synthetic import ALGORITHMS, FLOWS, KERNEL_FLOWS, KERNEL_LABELS, LABELS, SPACES
from fpovi.plots import FUNCTION_SPACE, MUTED, STYLE, TRUTH, WEIGHT_SPACE

PANELS = ("f_svgd", "w_svgd", "map_ensemble")
COLOURS = {"w": WEIGHT_SPACE, "f": FUNCTION_SPACE, "released": "#5b7f95"}
TITLES = {"w": "weight space", "f": "function space", "released": "function space,\nas released"}


class PanelRow(NamedTuple):
    """Panels side by side: methods and the label of each."""

    title: str
    panels: dict[str, str]


class PanelGrid(NamedTuple):
    """Rows of panels; the reference stands left of the first, and ``beside`` left of the second."""

    lines: tuple[PanelRow, ...]
    beside: str | None = None


GRIDS = {
    "paper": PanelGrid(
        tuple(PanelRow(TITLES[space], {f"{space}_{flow}": label for flow, label in FLOWS.items()}) for space in SPACES)
    ),
    "kernels": PanelGrid(
        tuple(
            PanelRow(f"weight space,\n{FLOWS[flow]}", {f"w_{flow}{end}": label for end, label in KERNEL_LABELS.items()})
            for flow in KERNEL_FLOWS
        ),
        beside="f_svgd",
    ),
}


def table(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return a record per method, in the order of the cells: W2 to NUTS and the ratio of spreads, by region."""
    return [
        {
            "method": LABELS[row.cell.method],
            **{f"w2_{region}": row.metrics["w2"][region] for region in REGION_NAMES},
            **{f"spread_{region}": row.metrics["spread_ratio"][region] for region in REGION_NAMES if region != "all"},
            "seconds": row.seconds,
        }
        for row in rows
    ]


def view(rows: Sequence[Row]) -> View:
    """Return the table of all methods, the closest one in bold."""
    regions = [region for region in REGION_NAMES if region != "all"]
    records = table(rows)
    best = min(row.metrics["w2"]["all"] for row in rows if row.cell.method in ALGORITHMS)
    lines = [
        [
            line["method"],
            *(short(line[f"w2_{region}"], 3) for region in REGION_NAMES),
            "/".join(short(line[f"spread_{region}"], 2) for region in regions),
            f"{line['seconds']:.0f}",
        ]
        for line in records
    ]
    nuts = rows[0].metrics
    return View(
        title="How far from the exact posterior?",
        explanation=(
            "W2: 2-Wasserstein distance to NUTS per grid point, averaged, in standardised y",
            "spread: standard deviation of f over that of NUTS (data/gap/outside)",
        ),
        columns=("method", "W2", *regions, "spread", "s"),
        lines=lines,
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
    grid = next((GRIDS[row.cell.preset] for row in rows if row.cell.preset in GRIDS), None)
    with mpl.rc_context(STYLE):
        return _three_panels(rows) if grid is None else _many_panels(rows, grid)


def _three_panels(rows: Sequence[Row]) -> Figure:
    by_method = {row.cell.method: row for row in rows}
    truth, panels = by_method["nuts"], [by_method[name] for name in PANELS if name in by_method]
    drawing = Figure(figsize=(3.7 * len(panels), 3.4), layout="constrained")
    axes = drawing.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for panel, row in zip(axes, panels, strict=True):
        colour = COLOURS["f" if row.cell.method.startswith("f_") else "w"]
        _panel(panel, row.metrics, truth, colour, row.metrics["curves"])
        panel.set_title(LABELS[row.cell.method], color=colour)
        annotate_distance(panel, row.metrics, "distance to NUTS")
        panel.set_xlabel("x")
    axes[0].set_ylabel("y")
    axes[0].legend(loc="lower left", fontsize=9)
    return drawing


def _many_panels(rows: Sequence[Row], grid: PanelGrid) -> Figure:
    """Draw a panel per method, and left of them the reference. Dark: f; light: a new y."""
    by_method = {row.cell.method: row for row in rows}
    truth = by_method["nuts"]
    columns = 1 + len(grid.lines[0].panels)
    drawing = Figure(figsize=(2.7 * columns, 0.4 + 2.6 * len(grid.lines)), layout="constrained")
    axes = drawing.subplots(len(grid.lines), columns, sharex=True, sharey=True)

    def draw(panel: Axes, method: str, label: str) -> str:
        metrics, colour = by_method[method].metrics, COLOURS[method.split("_")[0]]
        _panel(panel, metrics, truth, colour)
        panel.set_title(label, color=colour)
        annotate_distance(panel, metrics)
        return colour

    exact = np.asarray(truth.metrics["quantiles"])
    _panel(axes[0, 0], {**truth.metrics, "predictive": predictive_band(exact)}, truth, TRUTH)
    axes[0, 0].set_title("NUTS", color=TRUTH)
    if grid.beside is None:
        axes[1, 0].legend(*axes[0, 0].get_legend_handles_labels(), loc="upper left", fontsize=9)
    else:
        draw(axes[1, 0], grid.beside, LABELS[grid.beside])
        axes[0, 0].legend(loc="upper left", fontsize=7)
    for unused in axes[1 if grid.beside is None else 2 :, 0]:
        unused.set_axis_off()
    for places, line in zip(axes[:, 1:], grid.lines, strict=True):
        colours = [draw(panel, *named) for panel, named in zip(places, line.panels.items(), strict=True)]
        places[0].tick_params(labelleft=True)
        places[0].set_ylabel(line.title, color=colours[0], fontsize=11, fontweight="bold")
    axes[0, 0].set_ylim(rescale(truth.cell.seed)([exact.min(), exact.max()]))
    return drawing


def _panel(panel: Axes, metrics: dict[str, Any], truth: Row, colour: str, curves: Sequence[ArrayLike] = ()) -> None:
    panel.axvspan(*GAP, color=MUTED, alpha=0.13, linewidth=0)
    posterior_panel(panel, GRID, metrics, truth, colour, curves)
