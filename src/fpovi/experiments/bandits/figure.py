# SPDX-License-Identifier: Apache-2.0
"""Pictures: regret against rounds, propensities against choices, and where agents explored the wheel."""

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fpovi.experiments.bandits.methods import LABELS
from fpovi.experiments.harness.store import Row
from fpovi.plots import DASHED, FUNCTION_SPACE, INK, MUTED, STYLE, WEIGHT_SPACE

NOT_SEEN = "#e4e8ec"  # where no context lay
LOOKS = {
    "f-svgd": (FUNCTION_SPACE, "-"),
    "f-svgd-best": (FUNCTION_SPACE, "-"),
    "w-svgd": (WEIGHT_SPACE, "-"),
    "bbb": (WEIGHT_SPACE, "--"),
    "gp": (MUTED, "--"),
    "bootstrap": (INK, "-"),
    "mc-dropout": (WEIGHT_SPACE, ":"),
    "neural-linear": (INK, "--"),
    "linear": (MUTED, "-"),
    "greedy": (MUTED, ":"),
}


def figure(rows: Sequence[Row]) -> Figure:
    """Draw a panel of regret per problem, one of propensities, and the wheel with most explored.

    Args:
        rows: finished cells of one preset.
    """
    datasets = list(dict.fromkeys(row.cell.dataset for row in rows))
    methods = [name for name in LABELS if any(row.cell.method == name for row in rows)]
    wheels = [name for name in datasets if name.startswith("wheel")]
    across = max(len(datasets) + 1, 4)
    with mpl.rc_context(STYLE):
        drawing = Figure(figsize=(2.9 * across, 2.9 + 2.2 * len(methods) * bool(wheels)), layout="constrained")
        heights = [2.9, *([2.2 * len(methods)] * bool(wheels))]
        top, *below = drawing.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
        panels = top.subplots(1, len(datasets) + 1)
        for panel, dataset in zip(panels, datasets, strict=False):
            draw_regret(panel, [row for row in rows if row.cell.dataset == dataset], methods)
            panel.set_title(dataset)
        panels[0].set_ylabel("regret, % of uniform choice")
        panels[0].legend(fontsize=8)
        draw_propensities(panels[-1], rows, methods)
        for part in below:
            draw_wheels(part, [row for row in rows if row.cell.dataset == wheels[0]], methods)
    return drawing


def draw_regret(panel: Axes, rows: Sequence[Row], methods: Sequence[str]) -> None:
    """Draw cumulative regret against rounds: means over seeds, with a band of one standard error.

    Args:
        panel: where to.
        rows: finished cells of one problem.
        methods: which agents, in this order.
    """
    for method in methods:
        curves = [row.metrics["curve"] for row in rows if row.cell.method == method]
        if not curves:
            continue
        values, (colour, dash) = np.array([curve["regret"] for curve in curves]), LOOKS[method]
        rounds, mean = curves[0]["rounds"], values.mean(axis=0)
        panel.plot(rounds, mean, dash, color=colour, label=LABELS[method], linewidth=1.6)
        if len(curves) > 1:
            error = values.std(axis=0, ddof=1) / len(curves) ** 0.5
            panel.fill_between(rounds, mean - error, mean + error, color=colour, alpha=0.2, linewidth=0)
    panel.set(xlabel="rounds", ylim=(0, 110))
    panel.grid(axis="y", color=MUTED, alpha=0.2)


def draw_propensities(panel: Axes, rows: Sequence[Row], methods: Sequence[str]) -> None:
    """Draw how often arms were chosen against the probability that agents stated, over all problems.

    Args:
        panel: where to.
        rows: finished cells.
        methods: which agents, in this order.
    """
    panel.plot([0, 1], [0, 1], color=MUTED, linestyle=DASHED, linewidth=1)
    for method in methods:
        found = [row.metrics["propensities"] for row in rows if row.cell.method == method]
        count = np.array([one["count"] for one in found])
        stated, chosen = (
            (np.array([one[name] for one in found]) * count).sum(axis=0) / np.maximum(count.sum(axis=0), 1)
            for name in ("stated", "chosen")
        )
        some = count.sum(axis=0) > 0
        panel.plot(stated[some], chosen[some], "o", color=LOOKS[method][0], markersize=4)
    panel.set(xlabel="stated probability", ylabel="share chosen", xlim=(0, 1), ylim=(0, 1))
    panel.set_title("propensities")


def draw_wheels(part: mpl.figure.SubFigure, rows: Sequence[Row], methods: Sequence[str]) -> None:
    """Draw where agents chose another arm than the one that is best inside, in four parts of a run.

    Args:
        part: where to.
        rows: finished cells of one wheel.
        methods: which agents, from top to bottom.
    """
    shown = [name for name in methods if any(row.cell.method == name for row in rows)]
    axes = part.subplots(len(shown), len(rows[0].metrics["wheel"]["all"]), squeeze=False)
    for panel, number in zip(axes[0], range(1, axes.shape[1] + 1), strict=True):
        panel.set_title(f"part {number} of {axes.shape[1]}")
    for line, method in zip(axes, shown, strict=True):
        found = [row.metrics["wheel"] for row in rows if row.cell.method == method]
        total, explored = (np.sum([one[name] for one in found], axis=0) for name in ("all", "explored"))
        for number, panel in enumerate(line):
            share = np.where(total[number] > 0, explored[number] / np.maximum(total[number], 1), np.nan)
            panel.imshow(share.T, origin="lower", extent=(-1, 1, -1, 1), vmin=0, vmax=1, cmap="Blues")
            panel.set(xticks=[], yticks=[], facecolor=NOT_SEEN)
        line[0].set_ylabel(LABELS[method], fontsize=9)
    part.suptitle(f"{rows[0].cell.dataset}: share of rounds in which one of the outer arms was chosen", fontsize=10)
