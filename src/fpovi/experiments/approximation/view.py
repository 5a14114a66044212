# SPDX-License-Identifier: Apache-2.0
"""The table and the figure of ``approximation``, made from its rows."""

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from fpovi.experiments.approximation.run import LABELS, PRESETS
from fpovi.experiments.harness.store import Row
from fpovi.experiments.harness.view import View, short
from fpovi.plots import FUNCTION_SPACE, INK, STYLE, WEIGHT_SPACE

LINES = {
    "exact": {"color": INK},
    "parametric": {"color": FUNCTION_SPACE},
    "mini_batch": {"color": WEIGHT_SPACE},
    "moments": {"color": WEIGHT_SPACE, "linestyle": ":"},
}


def table(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return a record per draw of the targets: the KL of each version at the end, and the baseline's."""
    found: dict[int, dict[str, Row]] = {}
    for row in rows:
        found.setdefault(row.cell.seed, {})[row.cell.method] = row
    return [
        {
            "draw": seed,
            "baseline": next(iter(of.values())).metrics["baseline"],
            **{method: of[method].metrics["kl"] for method in LABELS if method in of},
            "seconds": sum(row.seconds for row in of.values()),
        }
        for seed, of in found.items()
    ]


def view(rows: Sequence[Row]) -> View:
    """Return a table of KL(q‖p) by draw and version."""
    records = table(rows)
    preset = PRESETS[rows[0].cell.preset]
    methods = [method for method in LABELS if any(row.cell.method == method for row in rows)]
    lines = [
        [
            str(line["draw"]),
            short(line["baseline"], 3),
            *(short(line[method], 5) if method in line else "" for method in methods),
            f"{line['seconds']:.0f}",
        ]
        for line in records
    ]
    return View(
        title="What networks and mini-batches cost, against a posterior in closed form",
        explanation=(
            f"KL(q‖p) at three test inputs after {preset.steps:,} steps of {preset.particles:,} particles",
            "baseline: the posterior that was given every second training point",
        ),
        columns=("draw", "baseline", *(LABELS[method] for method in methods), "s"),
        lines=lines,
        records=records,
    )


def figure(rows: Sequence[Row]) -> Figure:
    """Draw KL over iterations, all versions in one panel per draw, the baseline dashed: the paper's curve."""
    seeds = list(dict.fromkeys(row.cell.seed for row in rows))
    with mpl.rc_context(STYLE):
        drawing = Figure(figsize=(4.2 * len(seeds) + 2.4, 3.8), layout="constrained")
        panels = drawing.subplots(1, len(seeds), sharey=True, squeeze=False)[0]
        for panel, seed in zip(panels, seeds, strict=True):
            of_draw = [row for row in rows if row.cell.seed == seed]
            for row in of_draw:
                line: dict[str, Any] = {**LINES[row.cell.method], "linewidth": 1.8, "label": LABELS[row.cell.method]}
                panel.plot(row.metrics["steps"], row.metrics["curve"], **line)
            panel.axhline(of_draw[0].metrics["baseline"], color=INK, linestyle="--", linewidth=1, label="half the data")
            panel.set(
                yscale="log", xlabel="iteration", xlim=(0, max(map(np.max, (r.metrics["steps"] for r in of_draw))))
            )
            panel.locator_params(axis="x", nbins=4)
            panel.set_title(f"draw {seed}")
        panels[0].set_ylabel("KL(q‖p)")
        drawing.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", fontsize=9)
    return drawing
