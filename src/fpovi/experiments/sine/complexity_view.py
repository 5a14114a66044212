# SPDX-License-Identifier: Apache-2.0
"""The table and the figure of ``complexity``, made from its rows."""

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from fpovi.experiments.harness.store import Row
from fpovi.experiments.harness.view import View, short
from fpovi.experiments.sine.complexity import COARSE_GRID, LABELS
from fpovi.experiments.sine.panel import annotate_distance, posterior_panel, rescale
from fpovi.plots import FUNCTION_SPACE, INK, MUTED, STYLE, TRUTH, WEIGHT_SPACE

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
REGIONS = ("data", "gap", "outside")


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
        for (width, method), metrics in sorted(
            found.items(), key=lambda item: (item[0][0], [*LABELS].index(item[0][1]))
        )
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
    panel.set_ylim(_limits(rescale(truth.cell.seed)(truth.metrics["quantiles"])))


def _limits(values: ArrayLike) -> tuple[float, float]:
    low, high = np.quantile(np.asarray(values), (0.002, 0.998))
    return low - 0.15 * (high - low), high + 0.15 * (high - low)


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
