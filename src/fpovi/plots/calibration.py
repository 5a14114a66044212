# SPDX-License-Identifier: Apache-2.0
"""Draw whether stated uncertainty comes true, as :mod:`fpovi.calibration` computes it."""

from collections.abc import Sequence
from typing import Any

import jax
import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

from fpovi.calibration import Reliability, coverage, ood_auroc, pit, reliability
from fpovi.plots.style import DASHED, FUNCTION_SPACE, INK, MUTED, STYLE, TRUTH, WEIGHT_SPACE
from fpovi.predictive import Predictive

LEVEL = 0.95
LEVELS = np.append(np.arange(0.1, 1, 0.1), LEVEL)
SQUARE, WIDE = (4.6, 4.2), (8.0, 4.2)


def reliability_diagram(axes: Axes, found: Reliability, colour: str = FUNCTION_SPACE) -> None:
    """Draw accuracy over confidence; a dot's area is the share of predictions in its bin, the diagonal is perfect.

    Args:
        axes: where to draw.
        found: what :func:`~fpovi.calibration.reliability` returned.
        colour: of the dots.
    """
    filled = found.share > 0
    confidence, accuracy, share = (values[filled] for values in (found.confidence, found.accuracy, found.share))
    _diagonal(axes)
    axes.vlines(confidence, confidence, accuracy, color=colour, alpha=0.35, linewidth=2)
    axes.scatter(confidence, accuracy, s=12 + 300 * share, color=colour, edgecolor="white", linewidth=0.7, zorder=3,
                 clip_on=False)  # fmt: skip
    error = np.sum(share * np.abs(accuracy - confidence))
    axes.text(0.96, 0.04, f"ECE {error:.3f}", transform=axes.transAxes, ha="right")
    _unit_square(axes)
    axes.set(xlabel="confidence", ylabel="accuracy")


def pit_histogram(axes: Axes, values: ArrayLike, bins: int = 10, colour: str = FUNCTION_SPACE) -> None:
    """Draw a histogram of the probability integral transform.

    Where the model is right, a bar ends in the grey binomial band with probability 95 %. A hump says that predictions
    are too wide, a valley that they are too narrow, a slope that they are biased.

    Args:
        axes: where to draw.
        values: transforms between 0 and 1 of any shape, as :func:`~fpovi.calibration.pit` returns them.
        bins: number of bars.
        colour: of the bars.
    """
    values = np.asarray(values, float).ravel()
    if values.size == 0 or not np.all((values >= 0) & (values <= 1)):
        raise ValueError(f"values has {values.size} entries: at least one is needed, all between 0 and 1")
    counts, edges = np.histogram(values, bins, (0, 1))
    low, high = _binomial_band(values.size, np.full(1, 1 / bins)) * bins
    heights = counts * bins / values.size
    axes.bar(edges[:-1], heights, 1 / bins, align="edge", color=colour, alpha=0.55, edgecolor="white", linewidth=1)
    axes.axhspan(low[0], high[0], color=MUTED, alpha=0.25, linewidth=0, zorder=0)
    for edge in (low[0], high[0]):
        axes.axhline(edge, color=MUTED, linewidth=0.8)
    axes.axhline(1, color=TRUTH, linewidth=1.1, linestyle=DASHED)
    top = 1.1 * max(heights.max(), high[0])
    axes.set(xlim=(0, 1), ylim=(0, top), xlabel="probability integral transform", ylabel="density")


def coverage_curve(
    axes: Axes,
    levels: ArrayLike,
    observed: ArrayLike,
    rows: int | None = None,
    label: str | None = None,
    colour: str = FUNCTION_SPACE,
) -> None:
    """Draw observed over nominal coverage.

    Args:
        axes: where to draw.
        levels: nominal coverages ``(L,)``, between 0 and 1.
        observed: shares of targets inside, ``(L,)``, as :func:`~fpovi.calibration.coverage` returns them.
        rows: number of targets; draws a band that holds a perfect model 95 % of the time at each level.
        label: name in the legend.
        colour: of the curve.
    """
    levels, observed = np.asarray(levels, float), np.asarray(observed, float)
    if levels.shape != observed.shape or levels.ndim != 1:
        raise ValueError(f"levels has shape {levels.shape} and observed {observed.shape}, but both need the same one")
    if rows is not None:
        at = np.concatenate([[0], np.sort(levels), [1]])
        axes.fill_between(at, *_binomial_band(rows, at), color=MUTED, alpha=0.22, linewidth=0)
    _diagonal(axes)
    axes.plot(levels, observed, "o-", color=colour, linewidth=1.6, markersize=4.5, markeredgecolor="white",
              markeredgewidth=0.6, label=label, clip_on=False)  # fmt: skip
    _unit_square(axes)
    axes.set(xlabel="nominal coverage", ylabel="observed coverage")


def interval_fan(
    axes: Axes, y: ArrayLike, mean: ArrayLike, low: ArrayLike, high: ArrayLike, colour: str = FUNCTION_SPACE
) -> None:
    """Draw held-out targets on their intervals, in the order of the predicted mean.

    Args:
        axes: where to draw.
        y: targets ``(N,)``; those outside of their interval get another colour.
        mean: predicted means ``(N,)``.
        low, high: ends of the intervals, each ``(N,)``.
        colour: of intervals and mean.
    """
    y, mean, low, high = (np.asarray(values, float).ravel() for values in (y, mean, low, high))
    if not y.size == mean.size == low.size == high.size:
        raise ValueError(f"y, mean, low and high have {y.size}, {mean.size}, {low.size} and {high.size} entries")
    order = np.argsort(mean, kind="stable")
    y, mean, low, high = (values[order] for values in (y, mean, low, high))
    place, inside = np.arange(y.size), (low <= y) & (y <= high)
    axes.vlines(place, low, high, color=colour, alpha=0.3, linewidth=_line_width(y.size))
    axes.plot(place, mean, color=colour, linewidth=1.6)
    dot: dict[str, Any] = {"markersize": 4, "markeredgecolor": "white", "markeredgewidth": 0.6}
    axes.plot(place[inside], y[inside], "o", color=INK, label=f"inside, {np.mean(inside):.0%}", **dot)
    axes.plot(place[~inside], y[~inside], "o", color=WEIGHT_SPACE, label=f"outside, {np.mean(~inside):.0%}", **dot)
    axes.legend(loc="upper left", fontsize=9)
    axes.set(xlim=(-1, y.size), xlabel="held-out rows, by predicted mean", ylabel="y")


def ood_histogram(axes: Axes, score_in: ArrayLike, score_out: ArrayLike, bins: int = 30) -> None:
    """Draw scores of inputs from inside and from outside the training distribution, and tell their AUROC.

    Args:
        axes: where to draw.
        score_in: scores of inputs from inside, one-dimensional.
        score_out: the same of inputs from outside.
        bins: number of bars.
    """
    inside, outside = np.asarray(score_in, float), np.asarray(score_out, float)
    area = ood_auroc(inside, outside)
    edges = np.histogram_bin_edges(np.concatenate([inside, outside]), bins).tolist()
    for scores, colour, label in ((inside, FUNCTION_SPACE, "inside"), (outside, WEIGHT_SPACE, "outside")):
        axes.hist(scores, edges, density=True, color=colour, alpha=0.3, linewidth=0)
        axes.hist(scores, edges, density=True, color=colour, linewidth=1.4, histtype="step", label=label)
    room = 1.35 * axes.get_ylim()[1]  # for the legend: either heap may be the tall one
    axes.set(xlabel="score", ylabel="density", xlim=(edges[0], edges[-1]), ylim=(0, room))
    axes.legend(title=f"AUROC {area:.3f}", loc="upper center", ncols=2, fontsize=9)


def held_out_figures(predictive: Predictive, y: NDArray[Any], targets: Sequence[str]) -> dict[str, Figure]:
    """Return figures of how well predictions of held-out rows came true, by name.

    Args:
        predictive: what was predicted for B rows.
        y: their targets ``(B, m)``; for classes, integers ``(B,)`` or ``(B, 1)``.
        targets: names of the m targets.

    Returns:
        For classes and 0 or 1: ``reliability``. For numbers and counts: ``coverage``, ``pit``, and ``intervals``, with
        several targets ``intervals-1`` and so on.
    """
    if predictive.likelihood.support.labels:
        return {
            "reliability": _figure("Are confidences right?", SQUARE, reliability_diagram, reliability(predictive, y))
        }
    observed = coverage(predictive, y, LEVELS)
    transformed = pit(predictive, y, jax.random.key(0))
    drawn = {
        "coverage": _figure("Do intervals hold what they say?", SQUARE, coverage_curve, LEVELS, observed, y.size),
        "pit": _figure("Where in its prediction does y fall?", SQUARE, pit_histogram, transformed),
    }
    mean, (low, high) = np.asarray(predictive.mean), map(np.asarray, predictive.interval(LEVEL))
    for i, target in enumerate(targets):
        name = "intervals" if len(targets) == 1 else f"intervals-{i + 1}"
        title = f"{target}: intervals of {LEVEL:.0%}"
        drawn[name] = _figure(title, WIDE, interval_fan, y[:, i], mean[:, i], low[:, i], high[:, i])
        drawn[name].axes[0].set_ylabel(target)
    return drawn


def _figure(title: str, size: tuple[float, float], draw: Any, *numbers: Any) -> Figure:
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots()
        draw(axes, *numbers)
        axes.set_title(title)
    return figure


def _binomial_band(rows: int, shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the lower and upper frequency, of ``rows`` trials, that hold 95 % of the binomial law for each share."""
    return np.clip(binom.ppf([[0.025], [0.975]], rows, shares) / rows, 0, 1)  # ppf of a share of 0 starts at −1


def _line_width(rows: int) -> float:
    """Return a width at which bars touch when there are few and stay visible when there are many."""
    return float(np.clip(250 / max(rows, 1), 0.6, 5))


def _diagonal(axes: Axes) -> None:
    axes.plot([0, 1], [0, 1], color=TRUTH, linewidth=1.1, linestyle=DASHED)


def _unit_square(axes: Axes) -> None:
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(1))
