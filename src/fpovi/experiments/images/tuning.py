# SPDX-License-Identifier: Apache-2.0
"""Candidates for the settings of methods: a grid of values for each, tried on held-out training images."""

from collections.abc import Mapping
from itertools import product

Settings = dict[str, float]
Grid = Mapping[str, Mapping[str, tuple[float, ...]]]


def candidates(grid: Grid) -> dict[str, tuple[str, Settings]]:
    """Return every combination of a method's values by a name of its own: the method, and its settings.

    Args:
        grid: the values of each setting of each method.

    >>> candidates({"map": {"rate": (0.001, 0.003)}})
    {'map rate=0.001': ('map', {'rate': 0.001}), 'map rate=0.003': ('map', {'rate': 0.003})}
    """
    found = {}
    for method, values in grid.items():
        for chosen in product(*values.values()):
            settings = dict(zip(values, chosen, strict=True))
            found[" ".join([method, *(f"{name}={value:g}" for name, value in settings.items())])] = (method, settings)
    return found
