# SPDX-License-Identifier: Apache-2.0
"""The table and the figure of ``synthetic``, made from its rows."""

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from fpovi.data.sine import sine
from fpovi.experiments.store import Row
from fpovi.experiments.synthetic import ALGORITHMS, GRID, LABELS, REGIONS, problem
from fpovi.experiments.view import View, short
from fpovi.plots import FUNCTION_SPACE, MUTED, STYLE, TRUTH, WEIGHT_SPACE, fan, observations, outline

PANELS = ("f_svgd", "w_svgd", "map_ensemble")


def table(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """One line per method, in the order of the cells: W2 to NUTS and the ratio of spreads, by region."""
    return [
        {
            "method": LABELS[row.cell.method],
            **{f"w2_{region}": row.metrics["w2"][region] for region in REGIONS},
            **{f"spread_{region}": row.metrics["spread_ratio"][region] for region in REGIONS if region != "all"},
            "seconds": row.seconds,
        }
        for row in rows
    ]


def view(rows: Sequence[Row]) -> View:
    """The table for the eye, the closest method in bold."""
    regions = [region for region in REGIONS if region != "all"]
    records = table(rows)
    best = min(row.metrics["w2"]["all"] for row in rows if row.cell.method in ALGORITHMS)
    lines = [
        [
            line["method"],
            *(short(line[f"w2_{region}"], 3) for region in REGIONS),
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


def markdown(rows: Sequence[Row]) -> str:
    """W2 to NUTS, a line per method and a column per draw of the data."""
    seeds = list(dict.fromkeys(row.cell.seed for row in rows))
    found = {(row.cell.method, row.cell.seed): row.metrics["w2"]["all"] for row in rows}
    lines = ["| | " + " | ".join(f"draw {seed}" for seed in seeds) + " | mean |", "|---" * (len(seeds) + 2) + "|"]
    for method, label in LABELS.items():
        values = [found[method, seed] for seed in seeds if (method, seed) in found]
        if len(values) == len(seeds):
            numbers = [f"{value:.3f}" for value in (*values, sum(values) / len(values))]
            lines.append(f"| {label} | " + " | ".join(numbers) + " |")
    return "\n".join(lines)


def figure(rows: Sequence[Row]) -> Figure:
    """Each method's posterior in its own panel, NUTS dashed on top: do the bands agree where there are no data?"""
    by_method = {row.cell.method: row for row in rows}
    truth, panels = by_method["nuts"], [by_method[name] for name in PANELS if name in by_method]
    seed = truth.cell.seed
    scaling = problem(seed).y_scaling
    original = lambda values: np.asarray(values) * scaling.scale + scaling.shift  # noqa: E731
    with mpl.rc_context(STYLE):
        drawing = Figure(figsize=(3.7 * len(panels), 3.4), layout="constrained")
        axes = drawing.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for number, (panel, row) in enumerate(zip(axes, panels, strict=True)):
            colour = FUNCTION_SPACE if row.cell.method.startswith("f_") else WEIGHT_SPACE
            panel.axvspan(0.6, 0.8, color=MUTED, alpha=0.13, linewidth=0)
            metrics = row.metrics
            fan(panel, GRID, original(metrics["mean"]), [original(b) for b in metrics["band"]],
                [original(c) for c in metrics["curves"]], colour)  # fmt: skip
            outline(panel, GRID, [original(b) for b in truth.metrics["band"]], "NUTS, 95 %")
            observations(panel, *sine(seed))
            panel.set_title(LABELS[row.cell.method], color=colour)
            distance = f"distance to NUTS {metrics['w2']['all']:.2f}"
            panel.set_title(distance, loc="right", color=TRUTH, fontsize=9, fontweight="normal")
            panel.set(xlim=(GRID[0], GRID[-1]), xlabel="x")
            if number == 0:
                panel.set_ylabel("y")
                panel.legend(loc="lower left", fontsize=9)
    return drawing
