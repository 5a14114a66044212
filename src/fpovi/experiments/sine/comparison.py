# SPDX-License-Identifier: Apache-2.0
"""Posteriors of the sine data beside the exact one: metrics, region by region, and panels of figures.

A method is scored by 50 functions; one that can give more (NUTS, a Gaussian process) by the mean over random subsets of
50, so that NUTS itself shows what 50 independent draws can reach. Metrics are in standardised y, panels in its own
units.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from fpovi.datasets.sine import sine
from fpovi.experiments.harness.store import Row
from fpovi.experiments.sine.posteriors import NOISE, PARTICLES, Draws, PosteriorDraws, sine_task
from fpovi.plots import TRUTH, fan, observations, outline

GAP = (0.6, 0.8)  # in the data
SUBSETS = 20  # of 50 draws
CURVES = 8
NOISE_LEVELS = 101
Quantiles = NDArray[np.float64]
REGIONS = ("data", "gap", "outside")

LEVELS = (np.arange(100) + 0.5) / 100


def evaluate_posterior(
    posterior: PosteriorDraws, reference: Row | None, grid: NDArray[np.float64], seed: int
) -> dict[str, Any]:
    """Return the metrics of a posterior against the exact one's row.

    Without ``reference`` the posterior is the exact one, and its metrics contain its quantiles.
    """
    draws, own_metrics = posterior
    truth = quantiles(draws) if reference is None else np.asarray(reference.metrics["quantiles"])
    metrics = {**score(draws, truth, grid, seed), **figure_data(draws), **own_metrics}
    return metrics if reference is not None else {**metrics, "quantiles": [rounded(row) for row in truth]}


def regions(grid: NDArray[np.float64]) -> dict[str, NDArray[np.bool_]]:
    """Return the grid points of every region: all, where the data are, in their gap, and outside."""
    return {
        "all": np.ones_like(grid, bool),
        "data": (grid > 0) & (grid < GAP[0]),
        "gap": (grid > GAP[0]) & (grid < GAP[1]),
        "outside": (grid < 0) | (grid > 1),
    }


def score(draws: Draws, truth: Quantiles, grid: NDArray[np.float64], seed: int) -> dict[str, Any]:
    """Return W2 to ``truth``, the spread and its ratio to that of ``truth``, each a number per region."""
    distance = np.mean([wasserstein2(quantiles(subset), truth) for subset in _subsets(draws, seed)], axis=0)
    spread, true_spread = np.std(quantiles(draws), axis=0), np.std(truth, axis=0)
    means = lambda values: {  # noqa: E731
        region: round(float(values[where].mean()), 5) for region, where in regions(grid).items()
    }
    return {"w2": means(distance), "spread": means(spread), "spread_ratio": means(spread / true_spread)}


def figure_data(draws: Draws) -> dict[str, Any]:
    """Return the mean, the 95 % bands of f and of a new observation, and a few functions."""
    return {
        "mean": rounded(draws.mean(axis=0)),
        "band": [rounded(row) for row in np.quantile(draws, (0.025, 0.975), axis=0)],
        "predictive": [rounded(row) for row in predictive_band(draws)],
        "curves": [rounded(row) for row in draws[:: max(1, len(draws) // CURVES)][:CURVES]],
    }


def predictive_band(draws: Draws) -> NDArray[np.float64]:
    """Return the 95 % band of f + noise, ``(2, G)``: of a mixture of normals, each represented by its quantiles."""
    levels = (np.arange(NOISE_LEVELS) + 0.5) / NOISE_LEVELS
    noisy = draws[:, None, :] + NOISE * stats.norm.ppf(levels)[:, None]
    return np.quantile(noisy.reshape(-1, draws.shape[1]), (0.025, 0.975), axis=0)


def rounded(row: Draws) -> list[float]:
    """Round to the three digits that a figure shows, to keep rows short."""
    return [round(float(value), 3) for value in row]


def _subsets(draws: Draws, seed: int) -> list[Draws]:
    if len(draws) == PARTICLES:
        return [draws]
    rng = np.random.default_rng(seed)
    return [draws[rng.choice(len(draws), PARTICLES, replace=False)] for _ in range(SUBSETS)]


def quantiles(draws: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the 100 mid-point quantiles of ``draws (n, G)`` at every grid point, ``(100, G)``."""
    return np.quantile(np.asarray(draws, np.float64), LEVELS, axis=0)


def wasserstein2(a: NDArray[np.floating], b: NDArray[np.floating]) -> NDArray[np.float64]:
    r"""Return the 2-Wasserstein distance per grid point between marginals given by their :func:`quantiles`.

    .. math:: W_2^2 = \int_0^1 (F^{-1}(q) - G^{-1}(q))^2 dq \approx \frac1{100} \sum_q (a_q - b_q)^2
    """
    return np.sqrt(np.mean((np.asarray(a) - np.asarray(b)) ** 2, axis=0))


Rescale = Callable[[ArrayLike], NDArray[np.float64]]


def posterior_panel(
    panel: Axes,
    x: NDArray[np.float64],
    metrics: dict[str, Any],
    truth: Row,
    colour: str,
    curves: Sequence[ArrayLike] = (),
) -> None:
    """Draw 95 % of f in dark, and in light 95 % of a new y or, if given, ``curves`` (some of the functions)."""
    original = rescale(truth.cell.seed)
    if not curves:
        lower, upper = (original(edge) for edge in metrics["predictive"])
        panel.fill_between(x, lower, upper, color=colour, alpha=0.13, linewidth=0, label="95 % of a new y")
    shown = [original(curve) for curve in curves]
    fan(panel, x, original(metrics["mean"]), [original(edge) for edge in metrics["band"]], shown, colour)
    outline(panel, x, [original(edge) for edge in truth.metrics["band"]], "NUTS, 95 %")
    observations(panel, *sine(truth.cell.seed))
    panel.set_xlim(x[0], x[-1])


def annotate_distance(panel: Axes, metrics: dict[str, Any], name: str = "W2") -> None:
    """Write the distance to the exact posterior into a corner."""
    text = f"{name} {metrics['w2']['all']:.2f}"
    panel.set_title(text, loc="right", color=TRUTH, fontsize=9, fontweight="normal")


def rescale(seed: int) -> Rescale:
    """Return the map from standardised y to its own units."""
    scaling = sine_task(seed).y_scaling
    return lambda values: np.asarray(values) * scaling.scale + scaling.shift
