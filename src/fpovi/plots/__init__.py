# SPDX-License-Identifier: Apache-2.0
"""Figures in one style. Every panel draws on the axes it is given."""

from fpovi.plots.calibration import (
    coverage_curve,
    held_out_figures,
    interval_fan,
    ood_histogram,
    pit_histogram,
    reliability_diagram,
)
from fpovi.plots.curves import PANELS, fan, observations, outline, particle_curves, training_history
from fpovi.plots.style import DASHED, FUNCTION_SPACE, INK, MUTED, STYLE, TRUTH, WEIGHT_SPACE, save, save_png

__all__ = [
    "DASHED",
    "FUNCTION_SPACE",
    "INK",
    "MUTED",
    "PANELS",
    "STYLE",
    "TRUTH",
    "WEIGHT_SPACE",
    "coverage_curve",
    "fan",
    "held_out_figures",
    "interval_fan",
    "observations",
    "ood_histogram",
    "outline",
    "particle_curves",
    "pit_histogram",
    "reliability_diagram",
    "save",
    "save_png",
    "training_history",
]
