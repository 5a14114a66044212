# SPDX-License-Identifier: Apache-2.0
"""The one-dimensional toy data of the paper: twenty noisy points of a curve, with a gap."""

import numpy as np
from numpy.typing import NDArray


def sine_curve(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return x + sin 4x + sin 13x."""
    return x + np.sin(4 * x) + np.sin(13 * x)


def sine(seed: int = 3) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw 12 inputs uniform on (0, .6) and 8 on (.8, 1), with targets ``sine_curve(x + ε)``, ε ~ N(0, .03²).

    Args:
        seed: of NumPy's generator.

    Returns:
        x and y, each ``(20,)``, in their own units.
    """
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.uniform(0, 0.6, 12), rng.uniform(0.8, 1, 8)])
    return x, sine_curve(x + rng.normal(0, 0.03, 20))
