# SPDX-License-Identifier: Apache-2.0
"""Between a table's own units and the units networks like."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fpovi.types import Numbers

ROUNDING = 10 * np.finfo(np.float64).eps


class Standardiser(NamedTuple):
    """The affine map (a − shift)/scale, per column; columns that do not vary keep scale 1."""

    shift: NDArray[np.float64]
    scale: NDArray[np.float64]

    def __call__(self, a: Numbers) -> NDArray[np.float64]:
        return (np.asarray(a, np.float64) - self.shift) / self.scale


def standardiser(a: Numbers) -> Standardiser:
    """The map that gives the columns of ``a`` mean 0 and variance 1.

    >>> standardiser(np.array([[1.0, 5.0], [3.0, 5.0]]))(np.array([[3.0, 6.0]]))
    array([[1., 1.]])
    """
    a = np.asarray(a, np.float64)
    if a.ndim < 1 or len(a) == 0:
        raise ValueError(f"a has shape {a.shape}, but at least one row is needed")
    # by range: the standard deviation of a constant column is the rounding error of its mean, rarely 0
    varies = np.ptp(a, axis=0) > ROUNDING * np.abs(a).max(axis=0)
    return Standardiser(np.asarray(a.mean(axis=0)), np.where(varies, a.std(axis=0), 1.0))
