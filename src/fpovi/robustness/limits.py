# SPDX-License-Identifier: Apache-2.0
"""How far an attack may go: its step, its ball, and the valid range of inputs."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fpovi.types import Numbers

EXCESS = 1e-6  # of the range, by which rounding may put an input outside of it

PerEntry = Float[Array | np.ndarray, "*row"]


class Limits(NamedTuple):
    """Where a step goes, in the units of the input; each a number, or one for each entry of a row.

    ``step`` is how far, negative where the loss is to fall; ``radius`` how far from the origin, infinite for any
    distance; ``low`` and ``high`` are the valid range.
    """

    step: PerEntry
    radius: PerEntry
    low: PerEntry
    high: PerEntry

    def clip(self, x: Float[Array, "B *d_x"], origin: Float[Array, "B *d_x"]) -> Float[Array, "B *d_x"]:
        """Return the point next to x that is in the ball about the origin and in the valid range."""
        return jnp.clip(jnp.clip(x, origin - self.radius, origin + self.radius), self.low, self.high)


def checked_limits(
    x: Float[np.ndarray, "N *d_x"], step: Numbers, radius: Numbers, low: Numbers, high: Numbers
) -> Limits:
    """Return limits in the dtype of the rows x, or raise a ``ValueError`` for such as make no sense."""
    given = {"step": step, "radius": radius, "low": low, "high": high}
    found = [_per_entry(value, x, name) for name, value in given.items()]
    far, wide, least, most = found
    if not np.all(far > 0) or not np.all(np.isfinite(far)):
        raise ValueError(f"the step is {step!r}, but it must be positive and finite")
    if not np.all(wide > 0):
        raise ValueError(f"radius={radius!r} must be positive")
    if not np.all(least < most):
        raise ValueError(f"low={low!r} must lie below high={high!r}")
    slack = EXCESS * np.where(np.isfinite(most - least), most - least, 0)
    if np.any(x < least - slack) or np.any(x > most + slack):
        raise ValueError(
            f"X has values from {x.min():g} to {x.max():g}, but low={low!r} and high={high!r}: "
            "give the valid range in the units of X"
        )
    return Limits(*map(jnp.asarray, found))


def _per_entry(value: Numbers, x: Float[np.ndarray, "N *d_x"], name: str) -> Float[np.ndarray, "*row"]:
    """Return one number, or as many as broadcast to a row, or raise a ``ValueError``."""
    found = np.asarray(value, x.dtype)
    try:
        fits = np.broadcast_shapes(found.shape, x.shape[1:]) == x.shape[1:]
    except ValueError:
        fits = False
    if not fits or np.any(np.isnan(found)):
        raise ValueError(
            f"{name} is {value!r:.40}, but one number is needed, or one for each entry of rows of shape {x.shape[1:]}"
        )
    return found
