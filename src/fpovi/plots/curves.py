# SPDX-License-Identifier: Apache-2.0
"""Draw functions of one input, and how a run went."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from fpovi.plots.style import DASHED, FUNCTION_SPACE, INK, MUTED, TRUTH, WEIGHT_SPACE
from fpovi.types import Info

# fields of Info that share one axis
PANELS = (("log_likelihood",), ("likelihood_norm", "prior_norm", "repulsion_norm"), ("similarity",), ("noise",))
COLOURS = (FUNCTION_SPACE, WEIGHT_SPACE, INK, MUTED)
MOST_POINTS = 200


def fan(
    axes: Axes,
    x: ArrayLike,
    mean: ArrayLike,
    band: Sequence[ArrayLike],
    curves: Sequence[ArrayLike] = (),
    colour: str = FUNCTION_SPACE,
) -> None:
    """Draw a posterior over functions: its mean, a credible band, and a few of its members.

    Args:
        axes: where to draw.
        x: B inputs, in order.
        mean: posterior mean ``(B,)``.
        band: lower and upper end, each ``(B,)``.
        curves: single functions, each ``(B,)``, drawn thin.
        colour: of all of it.
    """
    axes.fill_between(x, band[0], band[1], color=colour, alpha=0.22, linewidth=0)
    for curve in curves:
        axes.plot(x, curve, color=colour, alpha=0.35, linewidth=0.6)
    axes.plot(x, mean, color=colour, linewidth=1.8)


def outline(axes: Axes, x: ArrayLike, band: Sequence[ArrayLike], label: str | None = None) -> None:
    """Draw the edges of a band to compare with, dashed.

    Args:
        axes: where to draw.
        x: B inputs, in order.
        band: lower and upper end, each ``(B,)``.
        label: name in the legend.
    """
    axes.plot(x, band[0], color=TRUTH, linewidth=1.1, linestyle=DASHED, label=label)
    axes.plot(x, band[1], color=TRUTH, linewidth=1.1, linestyle=DASHED)


def observations(axes: Axes, x: ArrayLike, y: ArrayLike) -> None:
    """Draw data as dots.

    Args:
        axes: where to draw.
        x: inputs ``(N,)``.
        y: targets ``(N,)``.
    """
    axes.plot(x, y, "o", color=INK, markersize=4, markeredgecolor="white", markeredgewidth=0.6, zorder=5)


def particle_curves(
    axes: Axes, x: ArrayLike, curves: ArrayLike, seen: ArrayLike = (), colour: str = FUNCTION_SPACE
) -> None:
    """Draw the function of every particle along one feature, and their mean.

    Args:
        axes: where to draw.
        x: B values of the feature, in order.
        curves: predictions of n particles, ``(n, B)``.
        seen: values of the feature in the training rows, drawn as ticks.
        colour: of all curves.
    """
    curves = np.asarray(curves)
    if curves.ndim != 2 or curves.shape[1] != np.size(x):
        raise ValueError(f"curves has shape {curves.shape}, but (n, {np.size(x)}) is needed: a row for every particle")
    axes.plot(x, curves.T, color=colour, alpha=0.45, linewidth=0.8)
    axes.plot(x, curves.mean(axis=0), color=colour, linewidth=2.2)
    if np.size(seen):
        axes.plot(seen, np.zeros(np.size(seen)), "|", color=INK, alpha=0.35, markersize=7, clip_on=False,
                  transform=axes.get_xaxis_transform())  # fmt: skip


def training_history(axes: Axes, history: Info, fields: Sequence[str] = PANELS[0]) -> None:
    """Draw fields of :class:`~fpovi.types.Info` over the steps of a run.

    Long runs are thinned to running medians with the range between the 5 % and 95 % quantiles behind them.

    Args:
        axes: where to draw.
        history: the Info of all steps, as :func:`fpovi.inference.run` returns it.
        fields: one to four names of fields; several share a logarithmic axis. :data:`PANELS` are good choices.
    """
    unknown = [name for name in fields if name not in Info._fields]
    if unknown or not 1 <= len(fields) <= len(COLOURS):
        raise ValueError(f"fields={tuple(fields)} must be one to four of {', '.join(Info._fields)}")
    for name, colour in zip(fields, COLOURS, strict=False):
        values = np.asarray(getattr(history, name), float)
        if values.ndim != 1 or values.size == 0:
            raise ValueError(f"history.{name} has shape {values.shape}, but one value per step is needed")
        chunks = np.array_split(values, min(values.size, MOST_POINTS))
        ends = np.cumsum([chunk.size for chunk in chunks])
        low, middle, high = np.transpose([np.quantile(chunk, (0.05, 0.5, 0.95)) for chunk in chunks])
        axes.fill_between(ends, low, high, color=colour, alpha=0.22, linewidth=0)
        axes.plot(ends, middle, color=colour, linewidth=1.5, label=name.replace("_", " "))
    if len(fields) > 1:
        axes.set_yscale("log")
        axes.legend(fontsize=9)
    else:
        axes.set_ylabel(fields[0].replace("_", " "))
    axes.set(xlabel="step")
