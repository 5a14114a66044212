# SPDX-License-Identifier: Apache-2.0
"""Measurement sets: the inputs at which functions are compared in a step.

A sampler maps this step's labelled inputs x' to ``x = x' ∪ ν-draws``, the labelled rows first. Where ν puts no
points, nothing pulls the particles towards the prior and nothing holds them apart, and what they predict there is
an accident of the network: ν should cover the inputs one will ask about, with a margin.
"""

from collections.abc import Callable

from fpovi.measurement.any_shape import halo, kde, mixup, points, train_only, uniform_box
from fpovi.measurement.images import shifts, shuffled_patches
from fpovi.types import Measurement

MEASUREMENTS: dict[str, Callable[..., Measurement]] = {
    "train_only": train_only,
    "halo": halo,
    "kde": kde,
    "uniform_box": uniform_box,
    "mixup": mixup,
    "shifts": shifts,
    "shuffled_patches": shuffled_patches,
    "points": points,
}

__all__ = [
    "MEASUREMENTS",
    "halo",
    "kde",
    "mixup",
    "points",
    "shifts",
    "shuffled_patches",
    "train_only",
    "uniform_box",
]
