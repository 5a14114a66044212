# SPDX-License-Identifier: Apache-2.0
"""The figures of a bench, made from its rows."""

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fpovi.bench import contestants
from fpovi.bench.tables import by_setting, milliseconds
from fpovi.experiments.harness.store import Row
from fpovi.plots import FUNCTION_SPACE, INK, MUTED, STYLE, TRUTH, WEIGHT_SPACE

COLOURS = {
    contestants.FUNCTION_SPACE: FUNCTION_SPACE,
    contestants.WEIGHT_SPACE: WEIGHT_SPACE,
    contestants.REFERENCE: INK,
    contestants.BARE: MUTED,
    contestants.PEER: TRUTH,
}


def comparison(rows: Sequence[Row]) -> Figure:
    """Draw a panel for each setting: everyone's time per step, fastest at the top, the ensemble's as a line."""
    settings = {
        name: sorted((row for row in found if "median" in row.metrics and row.metrics["kind"] in COLOURS), key=_median)
        for name, found in by_setting(rows).items()
    }
    with mpl.rc_context(STYLE):
        longest = max(len(found) for found in settings.values())
        drawing = Figure(figsize=(5.2 * len(settings), 1.2 + 0.2 * longest), layout="constrained")
        for axes, (name, found) in zip(
            drawing.subplots(1, len(settings), squeeze=False)[0], settings.items(), strict=True
        ):
            _bars(axes, name, found)
    return drawing


def _median(row: Row) -> float:
    return row.metrics["median"]


def _bars(axes: Axes, name: str, rows: Sequence[Row]) -> None:
    median, lower, upper = (1e3 * np.asarray([row.metrics[q] for row in rows]) for q in ("median", "lower", "upper"))
    places = np.arange(len(rows))
    axes.barh(
        places,
        median,
        xerr=(median - lower, upper - median),
        color=[COLOURS[row.metrics["kind"]] for row in rows],
        error_kw={"ecolor": INK, "elinewidth": 0.8},
        height=0.7,
    )
    for place, value, end in zip(places, median, upper, strict=True):
        axes.annotate(f" {milliseconds(value / 1e3)}", (end, place), va="center", fontsize=7, color=INK)
    for row in rows:
        if row.cell.method == "ensemble":
            axes.axvline(1e3 * row.metrics["median"], color=INK, linewidth=0.8, linestyle=":")
    axes.set_yticks(places, [row.cell.method for row in rows], fontsize=7)
    axes.set(xscale="log", xlabel="ms per step", title=name, ylim=(len(rows) - 0.4, -0.6))
    axes.set_xlim(right=3 * upper.max())


def growth(rows: Sequence[Row], axis: str) -> Figure:
    """Draw the time per step as one thing grows, and a dashed line in proportion to it from the ensemble's first."""
    with mpl.rc_context(STYLE):
        drawing = Figure(figsize=(5.4, 3.8), layout="constrained")
        axes = drawing.subplots()
        names = [name for name in dict.fromkeys(row.cell.method for row in rows) if not name.startswith("matmul")]
        shown = [name for name in names if not name.startswith("bare")]
        for name in shown:
            found = [row for row in rows if row.cell.method == name and "median" in row.metrics]
            sizes = [value_on(row, axis) for row in found]
            low, middle, high = ([1e3 * row.metrics[q] for row in found] for q in ("lower", "median", "upper"))
            (line,) = axes.plot(sizes, middle, marker="o", markersize=4, label=name)
            axes.fill_between(sizes, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
            if name == "ensemble":
                straight = [middle[0] * size / sizes[0] for size in sizes]
                axes.plot(sizes, straight, color=MUTED, linestyle="--", label="in proportion")
        axes.set(xscale="log", yscale="log", xlabel=axis, ylabel="ms per step")
        axes.legend(fontsize=8)
    return drawing


def value_on(row: Row, axis: str) -> int:
    """Return the value of a row's setting on the axis of a sweep."""
    setting = row.metrics["setting"]
    return setting["sizes"][1] if axis == "width" else setting[axis]
