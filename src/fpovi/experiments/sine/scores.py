# SPDX-License-Identifier: Apache-2.0
"""How draws of f compare with the exact posterior's, region by region, and what of them a figure needs.

A method is judged by 50 functions; one that can give more (NUTS, a Gaussian process) by the mean over random fifties,
so that NUTS itself shows what 50 independent draws can reach. All in standardised y.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fpovi.experiments.harness.store import Row
from fpovi.experiments.sine.distances import quantiles, wasserstein2
from fpovi.experiments.sine.posteriors import NOISE, PARTICLES, Draws, Found

GAP = (0.6, 0.8)  # in the data
FIFTIES = 20
CURVES = 8
NOISE_LEVELS = 101
Quantiles = NDArray[np.float64]
REGION_NAMES = ("all", "data", "gap", "outside")


def judged(found: Found, reference: Row | None, grid: NDArray[np.float64], seed: int) -> dict[str, Any]:
    """The numbers of a posterior beside the exact one's row; without that it is the exact one, and keeps quantiles."""
    draws, facts = found
    truth = quantiles(draws) if reference is None else np.asarray(reference.metrics["quantiles"])
    metrics = {**score(draws, truth, grid, seed), **outlines(draws), **facts}
    return metrics if reference is not None else {**metrics, "quantiles": [rounded(row) for row in truth]}


def regions(grid: NDArray[np.float64]) -> dict[str, NDArray[np.bool_]]:
    """Where the data are, their gap, and past them, beside the whole."""
    return {
        "all": np.ones_like(grid, bool),
        "data": (grid > 0) & (grid < GAP[0]),
        "gap": (grid > GAP[0]) & (grid < GAP[1]),
        "outside": (grid < 0) | (grid > 1),
    }


def score(draws: Draws, truth: Quantiles, grid: NDArray[np.float64], seed: int) -> dict[str, Any]:
    """W2 to ``truth``, the spread and its ratio to that of ``truth``, each a number per region."""
    distance = np.mean([wasserstein2(quantiles(some), truth) for some in _fifties(draws, seed)], axis=0)
    spread, true_spread = np.std(quantiles(draws), axis=0), np.std(truth, axis=0)
    means = lambda values: {  # noqa: E731
        region: round(float(values[where].mean()), 5) for region, where in regions(grid).items()
    }
    return {"w2": means(distance), "spread": means(spread), "spread_ratio": means(spread / true_spread)}


def outlines(draws: Draws) -> dict[str, Any]:
    """The mean, the 95 % bands of f and of a new observation, and a few functions."""
    return {
        "mean": rounded(draws.mean(axis=0)),
        "band": [rounded(row) for row in np.quantile(draws, (0.025, 0.975), axis=0)],
        "predictive": [rounded(row) for row in predictive_band(draws)],
        "curves": [rounded(row) for row in draws[:: max(1, len(draws) // CURVES)][:CURVES]],
    }


def predictive_band(draws: Draws) -> NDArray[np.float64]:
    """The 95 % band of f + noise: a mixture of normals, each stood for by its own quantiles. ``(2, G)``."""
    levels = (np.arange(NOISE_LEVELS) + 0.5) / NOISE_LEVELS
    noisy = draws[:, None, :] + NOISE * stats.norm.ppf(levels)[:, None]
    return np.quantile(noisy.reshape(-1, draws.shape[1]), (0.025, 0.975), axis=0)


def rounded(row: Draws) -> list[float]:
    """Three digits: all that a figure shows, and a row is short."""
    return [round(float(value), 3) for value in row]


def _fifties(draws: Draws, seed: int) -> list[Draws]:
    if len(draws) == PARTICLES:
        return [draws]
    rng = np.random.default_rng(seed)
    return [draws[rng.choice(len(draws), PARTICLES, replace=False)] for _ in range(FIFTIES)]
