# SPDX-License-Identifier: Apache-2.0
"""How long a fit is, and at which rates: what "auto" means, from the number of rows."""

import math
from typing import Any

import numpy as np

from fpovi.fitting.fit import FitSchedule, padded_rows

FULL_BATCH, MINI_BATCH = 1024, 512
LEAST_BATCH, ENOUGH_STEPS = 128, 2000  # how small a mini-batch gets where a few epochs would be fewer steps
STEPS, STEPS_PER_ROW, MOST_STEPS = 5000, 0.5, 25000
WARM_SHARE = 0.4
RATE, FLOW_RATE = 0.01, 0.3  # and after a warm-up, the share of it that the flow takes


def make_schedule(learning_rate: Any, batch_size: Any, max_epochs: Any, rows: int) -> FitSchedule:
    """Return the schedule of a fit to so many rows.

    Args:
        learning_rate, batch_size, max_epochs: an estimator's settings: numbers, or "auto".
        rows: how many rows there are to learn from.

    >>> make_schedule("auto", "auto", "auto", 300)
    FitSchedule(batch_size=512, steps=5150, warm_up_steps=2060, rate=0.01, rate_after_warm_up=0.003)
    >>> [make_schedule("auto", "auto", epochs, 10_000).batch_size for epochs in (20, 80, 1000)]
    [128, 256, 512]
    """
    size, rate = _rows_per_step(batch_size, max_epochs, rows), _rate(learning_rate)
    steps = _steps(max_epochs, rows, size)
    warm_up = max(int(WARM_SHARE * steps), 1) if steps > 1 else 0
    return FitSchedule(size, steps, warm_up, rate, rate * FLOW_RATE)


def _rows_per_step(batch_size: Any, max_epochs: Any, rows: int) -> int:
    """Return all rows where they are few, else a mini-batch, the smaller the fewer epochs there are."""
    if batch_size == "auto":
        return padded_rows(rows) if rows <= FULL_BATCH else _mini_batch(max_epochs, rows)
    if not _is_whole(batch_size):
        raise ValueError(f'batch_size={batch_size!r} must be a positive whole number, or "auto"')
    return padded_rows(rows) if batch_size >= rows else int(batch_size)


def _mini_batch(max_epochs: Any, rows: int) -> int:
    size = MINI_BATCH
    while _is_whole(max_epochs) and size > LEAST_BATCH and max_epochs * rows < ENOUGH_STEPS * size:
        size //= 2
    return size


def _steps(max_epochs: Any, rows: int, size: int) -> int:
    if max_epochs == "auto":
        return int(min(STEPS + STEPS_PER_ROW * rows, MOST_STEPS))
    if not _is_whole(max_epochs):
        raise ValueError(f'max_epochs={max_epochs!r} must be a positive whole number, or "auto"')
    return int(max_epochs) * max(-(-rows // size), 1)


def _rate(learning_rate: Any) -> float:
    """Return the largest step size of Adam; it warms up and decays by itself."""
    if learning_rate == "auto":
        return RATE
    if isinstance(learning_rate, str) or not 0 < learning_rate < math.inf:
        raise ValueError(f'learning_rate={learning_rate!r} must be a positive number, or "auto"')
    return float(learning_rate)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= 1)
