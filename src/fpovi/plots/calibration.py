# SPDX-License-Identifier: Apache-2.0
"""Whether stated uncertainty comes true, from what :mod:`fpovi.calibration` computes."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

from fpovi.calibration import Reliability, ood_auroc
from fpovi.plots.style import DASHED, FUNCTION_SPACE, INK, MUTED, TRUTH, WEIGHT_SPACE


def reliability_diagram(axes: Axes, found: Reliability, colour: str = FUNCTION_SPACE) -> None:
    """Accuracy beside confidence; a dot's area is the share of predictions in its bin, the diagonal is perfect."""
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
    """The transform's histogram; if uniform, a bar ends in the grey binomial band with probability 95 %.

    A hump says that predictions are too wide, a valley too narrow, a slope biased.
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
    """Observed beside nominal coverage; with ``rows``, a band that holds a perfect model 95 % of the time."""
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
    """Held-out targets on their intervals, in the order of the predicted mean; those outside in the other colour."""
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
    """Scores of inputs from inside and from outside the training distribution, and how well they separate."""
    inside, outside = np.asarray(score_in, float), np.asarray(score_out, float)
    area = ood_auroc(inside, outside)
    edges = np.histogram_bin_edges(np.concatenate([inside, outside]), bins).tolist()
    for scores, colour, label in ((inside, FUNCTION_SPACE, "inside"), (outside, WEIGHT_SPACE, "outside")):
        axes.hist(scores, edges, density=True, color=colour, alpha=0.3, linewidth=0)
        axes.hist(scores, edges, density=True, color=colour, linewidth=1.4, histtype="step", label=label)
    room = 1.35 * axes.get_ylim()[1]  # for the legend: either heap may be the tall one
    axes.set(xlabel="score", ylabel="density", xlim=(edges[0], edges[-1]), ylim=(0, room))
    axes.legend(title=f"AUROC {area:.3f}", loc="upper center", ncols=2, fontsize=9)


def _binomial_band(rows: int, shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Lower and upper frequency, of ``rows`` trials, that hold 95 % of the binomial law for each share."""
    return np.clip(binom.ppf([[0.025], [0.975]], rows, shares) / rows, 0, 1)  # ppf of a share of 0 starts at −1


def _line_width(rows: int) -> float:
    """Bars that touch when there are few and stay visible when there are many."""
    return float(np.clip(250 / max(rows, 1), 0.6, 5))


def _diagonal(axes: Axes) -> None:
    axes.plot([0, 1], [0, 1], color=TRUTH, linewidth=1.1, linestyle=DASHED)


def _unit_square(axes: Axes) -> None:
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(1))
