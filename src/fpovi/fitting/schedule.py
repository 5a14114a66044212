# SPDX-License-Identifier: Apache-2.0
"""What "auto" means, from the training data alone."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from fpovi.networks import fan_in_scales
from fpovi.types import Scales

FULL_BATCH, MINI_BATCH = 1024, 512
STEPS, STEPS_PER_ROW, MOST_STEPS = 5000, 0.5, 25000
WARM_SHARE, MOST_ROWS_AT_START = 0.4, 2048
LOGIT_WEIGHT = 10.0  # variance of the first and last layer's weights, times their number
RATE, FLOW_RATE = 0.01, 0.3  # and after a warm-up, the share of it that the flow takes


def padded_rows(rows: int) -> int:
    """The bucket of a number of rows: the next power of two, so that few programs serve all tables.

    >>> [padded_rows(rows) for rows in (3, 33, 1000)]
    [32, 64, 1024]
    """
    return max(32, 2 ** math.ceil(math.log2(rows)))


def rows_per_step(batch_size: Any, rows: int) -> int:
    """All rows where they are few, else a mini-batch."""
    if batch_size == "auto":
        return padded_rows(rows) if rows <= FULL_BATCH else MINI_BATCH
    if isinstance(batch_size, bool) or not isinstance(batch_size, int | np.integer) or batch_size < 1:
        raise ValueError(f'batch_size={batch_size!r} must be a positive whole number, or "auto"')
    return padded_rows(rows) if batch_size >= rows else int(batch_size)


def total_steps(max_epochs: Any, rows: int, size: int) -> int:
    """How many steps a fit takes."""
    per_epoch = max(-(-rows // size), 1)
    if max_epochs == "auto":
        return int(min(STEPS + STEPS_PER_ROW * rows, MOST_STEPS))
    if isinstance(max_epochs, bool) or not isinstance(max_epochs, int | np.integer) or max_epochs < 1:
        raise ValueError(f'max_epochs={max_epochs!r} must be a positive whole number, or "auto"')
    return int(max_epochs) * per_epoch


def class_scales(sizes: tuple[int, ...]) -> Scales:
    """Prior scales for logits: wide enough that a network may be certain of a class."""
    scales = fan_in_scales(sizes)
    ends = jnp.arange(len(sizes) - 1) % max(len(sizes) - 2, 1) == 0
    return scales._replace(weight_variance=jnp.where(ends, LOGIT_WEIGHT, 2.0).astype(scales.weight_variance.dtype))


def warm_steps(steps: int) -> int:
    """How many of all steps are the warm-up's."""
    return max(int(WARM_SHARE * steps), 1) if steps > 1 else 0


def peak_rate(learning_rate: Any) -> float:
    """The largest step size of Adam; it warms up and decays by itself."""
    if learning_rate == "auto":
        return RATE
    if isinstance(learning_rate, str) or not 0 < learning_rate < math.inf:
        raise ValueError(f'learning_rate={learning_rate!r} must be a positive number, or "auto"')
    return float(learning_rate)
