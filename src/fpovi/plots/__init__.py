# SPDX-License-Identifier: Apache-2.0
"""Pictures: one look, and panels to put together. Each draws on the axes it is given."""

from fpovi.plots.calibration import coverage_curve, interval_fan, ood_histogram, pit_histogram, reliability_diagram
from fpovi.plots.functions import fan, observations, outline, particle_curves
from fpovi.plots.style import FUNCTION_SPACE, INK, MUTED, STYLE, TRUTH, WEIGHT_SPACE, save, save_png
from fpovi.plots.training import PANELS, training_history

__all__ = [
    "FUNCTION_SPACE",
    "INK",
    "MUTED",
    "PANELS",
    "STYLE",
    "TRUTH",
    "WEIGHT_SPACE",
    "coverage_curve",
    "fan",
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
