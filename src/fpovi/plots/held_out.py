# SPDX-License-Identifier: Apache-2.0
"""Pictures of how well predictions of held-out rows came true."""

from collections.abc import Sequence
from typing import Any

import jax
import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from fpovi.calibration import coverage, pit, reliability
from fpovi.plots import STYLE, coverage_curve, interval_fan, pit_histogram, reliability_diagram
from fpovi.predictive import Predictive

LEVEL = 0.95
LEVELS = np.append(np.arange(0.1, 1, 0.1), LEVEL)
SQUARE, WIDE = (4.6, 4.2), (8.0, 4.2)


def figures(predictive: Predictive, y: NDArray[Any], targets: Sequence[str]) -> dict[str, Figure]:
    """By name. Classes and 0 or 1: ``reliability``. Numbers: ``coverage``, ``pit``, ``intervals`` of each target."""
    if predictive.likelihood.classes or predictive.likelihood.binary:
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
