# SPDX-License-Identifier: Apache-2.0
"""Images that shift away from what was learnt, by severity: turned, moved, noisy and blurred."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy import ndimage

Pixels = Float[np.ndarray, "N H W"]
DIRECTIONS = ((0, 1), (0, -1), (1, 0), (-1, 0))


def rotated(images: Pixels, degrees: float) -> Pixels:
    """Return images turned counter-clockwise about their centre, black where nothing was."""
    return ndimage.rotate(images, degrees, axes=(2, 1), reshape=False, order=1)


def translated(images: Pixels, pixels: float, seed: int = 0) -> Pixels:
    """Return images moved up, down, left or right, at random, black where nothing was."""
    direction = np.random.default_rng(seed).integers(len(DIRECTIONS), size=len(images))
    moved = np.empty_like(images)
    for number, (down, right) in enumerate(DIRECTIONS):
        chosen = direction == number
        moved[chosen] = ndimage.shift(images[chosen], (0, down * pixels, right * pixels), order=0)
    return moved


def noisy(images: Pixels, std: float, seed: int = 0) -> Pixels:
    """Return images plus Gaussian noise, clipped to the range of pixels."""
    noise = np.random.default_rng(seed).standard_normal(images.shape, np.float32)
    return np.clip(images + np.float32(std) * noise, 0, 1)


def blurred(images: Pixels, std: float) -> Pixels:
    """Return images seen through a Gaussian blur with this standard deviation, in pixels."""
    return ndimage.gaussian_filter(images, (0, std, std))


# name -> how images shift, and by how much at severities 1 to 5
SHIFTS: dict[str, tuple[Callable[[Pixels, float], Pixels], tuple[float, ...]]] = {
    "rotation": (rotated, (15, 30, 45, 60, 90)),
    "translation": (translated, (2, 3, 4, 6, 8)),
    "noise": (noisy, (0.1, 0.2, 0.3, 0.45, 0.6)),
    "blur": (blurred, (0.5, 1.0, 1.5, 2.0, 3.0)),
}


def shifted(images: Pixels, name: str, severity: int) -> Pixels:
    """Return images at a severity of a shift; at 0 as they are.

    Args:
        images: pixels between 0 and 1.
        name: one of :data:`SHIFTS`.
        severity: 0 to 5.
    """
    shift, sizes = SHIFTS[name]
    return shift(images, sizes[severity - 1]) if severity else images
