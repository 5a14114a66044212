# SPDX-License-Identifier: Apache-2.0
"""The figure of the tables on UCI sets: the paper's chart of methods over data sets."""

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fpovi.experiments.harness.store import Row
from fpovi.experiments.harness.view import METRICS, method_chart
from fpovi.experiments.uci.published import ROUNDING
from fpovi.experiments.uci.setups import CITED, Setup
from fpovi.experiments.uci.view import NAMES, Record, view
from fpovi.plots import FUNCTION_SPACE, INK, MUTED, WEIGHT_SPACE

COLOURS = {"f-": FUNCTION_SPACE, "w-": WEIGHT_SPACE, "fp": INK}  # by the start of a method's name


def figure(setup: Setup, rows: Sequence[Row]) -> Figure:
    """Draw RMSE above NLL, a panel per set with a scale of its own: ours filled, the paper's hollow."""
    records = view(setup, rows).records
    datasets = list(dict.fromkeys(record["dataset"] for record in records))
    methods = [name for name in NAMES if any(record["method"] == name for record in records)]
    counts = {record["splits"] for record in records if "splits" in record}
    over = f"{min(counts)}" if len(counts) == 1 else f"{min(counts)} to {max(counts)}"

    def draw(panel: Axes, dataset: str, metric: str) -> None:
        _draw(panel, [r for r in records if r["dataset"] == dataset and r["metric"] == metric], methods)

    return method_chart(
        datasets,
        [NAMES[name] for name in methods],
        {metric: METRICS[metric].label for metric in ("rmse", "nll")},
        draw,
        (1.2 + 1.5 * len(datasets), 1.6 + 0.36 * len(methods)),
        f"filled: measured here, means over {over} splits; hollow: published by Wang et al. (2019)",
    )


def _draw(panel: Axes, records: Sequence[Record], methods: Sequence[str]) -> None:
    low, high = _limits(records)
    panel.set_xlim(low, high)
    for record in records:
        place = methods.index(record["method"])
        colour = COLOURS.get(record["method"][:2], MUTED)
        if ours := _measured(record):
            if low <= ours[0] <= high:
                panel.errorbar(ours[0], place, xerr=ours[1], fmt="o", color=colour)
            else:
                _draw_arrow(panel, ours[0], place, colour)
        if theirs := _published(record):
            hollow: dict[str, Any] = {"fmt": "o", "color": colour, "mfc": "white", "alpha": 0.6}
            panel.errorbar(theirs[0], place + (0.3 if ours else 0.0), xerr=theirs[1], **hollow)


def _limits(records: Sequence[Record]) -> tuple[float, float]:
    """Return limits with room for all particle methods and what is published.

    Others may be far off, and would make these one dot. They are seldom better: the room on the left is half of that on
    the right.
    """
    particles = [record for record in records if record["method"][:2] in COLOURS or record["method"] in CITED]
    spans = [span for record in particles or records for span in (_measured(record), _published(record)) if span]
    low, high = min((v - e for v, e in spans), default=0.0), max((v + e for v, e in spans), default=1.0)
    room = (high - low) or abs(high) or 1.0
    return low - 0.3 * room, high + 0.6 * room


def _measured(record: Record) -> tuple[float, float] | None:
    """Return mean and error (0 of a single split), or None where the mean is not finite."""
    if "mean" not in record or not math.isfinite(record["mean"]):
        return None
    return record["mean"], record["standard_error"] or 0.0


def _published(record: Record) -> tuple[float, float] | None:
    """Return the printed mean, and the printed error plus that of rounding."""
    theirs = record.get("published")
    return None if theirs is None else (theirs["mean"], theirs["standard_error"] + ROUNDING)


def _draw_arrow(panel: Axes, value: float, place: int, colour: str) -> None:
    """Draw an arrow at the edge, and the number."""
    low, high = panel.get_xlim()
    right = value > high
    at, inwards = (high, -1) if right else (low, 1)
    panel.plot(at, place, marker=">" if right else "<", color=colour, clip_on=False)
    panel.text(
        at + inwards * 0.06 * (high - low), place, f"{value:.3g}",
        ha="right" if right else "left", va="center", color=colour, fontsize=8,
    )  # fmt: skip
