# SPDX-License-Identifier: Apache-2.0
"""Pictures: one look, and the panels that experiments put together."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

INK, MUTED, TRUTH = "#1b2733", "#8a97a6", "#6b7785"
FUNCTION_SPACE, WEIGHT_SPACE = "#1f6fb2", "#c2571a"

STYLE: Any = {  # rcParams
    "font.size": 10,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "legend.frameon": False,
    "figure.facecolor": "white",
    "savefig.bbox": "tight",
    "svg.hashsalt": "fpovi",
}


def fan(
    axes: Axes,
    x: ArrayLike,
    mean: ArrayLike,
    band: Sequence[ArrayLike],
    curves: Sequence[ArrayLike] = (),
    colour: str = FUNCTION_SPACE,
) -> None:
    """A posterior over functions: its mean, a credible band (lower, upper), and a few of its members."""
    axes.fill_between(x, band[0], band[1], color=colour, alpha=0.22, linewidth=0)
    for curve in curves:
        axes.plot(x, curve, color=colour, alpha=0.35, linewidth=0.6)
    axes.plot(x, mean, color=colour, linewidth=1.8)


def outline(axes: Axes, x: ArrayLike, band: Sequence[ArrayLike], label: str | None = None) -> None:
    """The edges of a band to compare with, dashed."""
    axes.plot(x, band[0], color=TRUTH, linewidth=1.1, linestyle=(0, (4, 2)), label=label)
    axes.plot(x, band[1], color=TRUTH, linewidth=1.1, linestyle=(0, (4, 2)))


def observations(axes: Axes, x: ArrayLike, y: ArrayLike) -> None:
    """The data."""
    axes.plot(x, y, "o", color=INK, markersize=4, markeredgecolor="white", markeredgewidth=0.6, zorder=5)


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write ``stem.png`` and ``stem.svg``."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    with mpl.rc_context(STYLE):
        figure.savefig(paths[0], dpi=160)
        figure.savefig(paths[1], metadata={"Date": None})
    return paths
