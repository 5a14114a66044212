# SPDX-License-Identifier: Apache-2.0
"""The figure of ``uci`` and its kin: the paper's chart of methods over data sets."""

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fpovi.experiments.comparison import SCORES
from fpovi.experiments.statistics import from_record
from fpovi.experiments.store import Row
from fpovi.experiments.uci_setups import CITED, Setup
from fpovi.experiments.uci_view import NAMES, Record, view
from fpovi.plots import FUNCTION_SPACE, INK, MUTED, STYLE, WEIGHT_SPACE

COLOURS = {"f-": FUNCTION_SPACE, "w-": WEIGHT_SPACE, "fp": INK}  # by the start of a method's name


def figure(setup: Setup, rows: Sequence[Row]) -> Figure:
    """RMSE above NLL, a panel per set with a scale of its own: ours filled, the paper's hollow."""
    records = view(setup, rows).records
    datasets = list(dict.fromkeys(record["dataset"] for record in records))
    methods = [name for name in NAMES if any(record["method"] == name for record in records)]
    with mpl.rc_context(STYLE):
        drawing = Figure(figsize=(1.2 + 1.5 * len(datasets), 1.6 + 0.36 * len(methods)), layout="constrained")
        axes = drawing.subplots(2, len(datasets), sharey=True, squeeze=False)
        for line, metric in zip(axes, ("rmse", "nll"), strict=True):
            for panel, dataset in zip(line, datasets, strict=True):
                here = [r for r in records if r["dataset"] == dataset and r["metric"] == metric]
                _draw(panel, here, methods)
                panel.set_title(dataset if metric == "rmse" else "")
                panel.set_xlabel(SCORES[metric].label)
        axes[0, 0].set_yticks(range(len(methods)), [NAMES[name] for name in methods])
        axes[0, 0].set_ylim(len(methods) - 0.4, -0.6)  # the first on top, and room for its marker
        drawing.supxlabel("filled: measured here; hollow: published by Wang et al. (2019)", fontsize=9)
    return drawing


def _draw(panel: Axes, records: Sequence[Record], methods: Sequence[str]) -> None:
    low, high = _limits(records)
    panel.set_xlim(low, high)
    for record in records:
        place = methods.index(record["method"])
        colour = COLOURS.get(record["method"][:2], MUTED)
        if "mean" in record:
            ours = from_record(record)
            if low <= ours.value <= high:
                panel.errorbar(ours.value, place, xerr=ours.error if ours.splits > 1 else None, fmt="o", color=colour)
            else:
                _beyond(panel, ours.value, place, colour)
        if theirs := record.get("published"):
            hollow: dict[str, Any] = {"fmt": "o", "color": colour, "mfc": "white", "alpha": 0.6}
            below = 0.3 if "mean" in record else 0.0
            panel.errorbar(theirs["mean"], place + below, xerr=theirs["standard_error"], **hollow)
    panel.grid(axis="x", color=MUTED, alpha=0.2)


def _limits(records: Sequence[Record]) -> tuple[float, float]:
    """Room for all particle methods and what is published; others may be far off, and would make these one dot."""
    spans = []
    for record in records:
        if record["method"][:2] in COLOURS or record["method"] in CITED:
            ours = [from_record(record)] if "mean" in record else []
            theirs = [from_record({**record["published"], "splits": 2})] if "published" in record else []
            spans += [(m.value, m.error if m.splits > 1 else 0.0) for m in (*ours, *theirs)]
    if not spans:
        spans = [(record["mean"], record["standard_error"] or 0.0) for record in records]
    low, high = min(value - error for value, error in spans), max(value + error for value, error in spans)
    room = (high - low) or abs(high) or 1.0
    return low - 0.3 * room, high + 0.6 * room


def _beyond(panel: Axes, value: float, place: int, colour: str) -> None:
    """An arrow at the edge, and the number."""
    low, high = panel.get_xlim()
    right = value > high
    at, inwards = (high, -1) if right else (low, 1)
    panel.plot(at, place, marker=">" if right else "<", color=colour, clip_on=False)
    panel.text(
        at + inwards * 0.06 * (high - low), place, f"{value:.3g}",
        ha="right" if right else "left", va="center", color=colour, fontsize=8,
    )  # fmt: skip
