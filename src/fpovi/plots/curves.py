# SPDX-License-Identifier: Apache-2.0
"""Posteriors over functions of one input."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from fpovi.plots.style import DASHED, FUNCTION_SPACE, INK, TRUTH


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
    axes.plot(x, band[0], color=TRUTH, linewidth=1.1, linestyle=DASHED, label=label)
    axes.plot(x, band[1], color=TRUTH, linewidth=1.1, linestyle=DASHED)


def observations(axes: Axes, x: ArrayLike, y: ArrayLike) -> None:
    """The data."""
    axes.plot(x, y, "o", color=INK, markersize=4, markeredgecolor="white", markeredgewidth=0.6, zorder=5)


def particle_curves(
    axes: Axes, x: ArrayLike, curves: ArrayLike, seen: ArrayLike = (), colour: str = FUNCTION_SPACE
) -> None:
    """Every particle along one feature, curves ``(n, B)``, and their mean; ticks where the feature was ``seen``."""
    curves = np.asarray(curves)
    if curves.ndim != 2 or curves.shape[1] != np.size(x):
        raise ValueError(f"curves has shape {curves.shape}, but (n, {np.size(x)}) is needed: a row for every particle")
    axes.plot(x, curves.T, color=colour, alpha=0.45, linewidth=0.8)
    axes.plot(x, curves.mean(axis=0), color=colour, linewidth=2.2)
    if np.size(seen):
        axes.plot(seen, np.zeros(np.size(seen)), "|", color=INK, alpha=0.35, markersize=7, clip_on=False,
                  transform=axes.get_xaxis_transform())  # fmt: skip
