# SPDX-License-Identifier: Apache-2.0
"""Colours and style of all figures, and how they are saved."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

INK, MUTED, TRUTH = "#1b2733", "#8a97a6", "#6b7785"
FUNCTION_SPACE, WEIGHT_SPACE = "#1f6fb2", "#c2571a"
DASHED = (0, (4, 2))

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


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure as PNG and SVG, and make their folder if there is none.

    Args:
        figure: what to write.
        stem: path without suffix.

    Returns:
        The two paths, ``stem.png`` and ``stem.svg``.
    """
    paths = [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    save_png(figure, paths[0])
    with mpl.rc_context(STYLE):
        figure.savefig(paths[1], metadata={"Date": None})
    return paths


def save_png(figure: Figure, path: Path) -> None:
    """Write a figure as PNG alone, and make its folder if there is none.

    Args:
        figure: what to write.
        path: where to.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(STYLE):
        figure.savefig(path, dpi=160)
