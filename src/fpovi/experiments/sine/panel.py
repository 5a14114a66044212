# SPDX-License-Identifier: Apache-2.0
"""Panels of figures: a posterior of the sine data in the units of y, with the exact one dashed on top."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray

from fpovi.datasets.sine import sine
from fpovi.experiments.harness.store import Row
from fpovi.experiments.sine.posteriors import sine_task
from fpovi.plots import TRUTH, fan, observations, outline

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
