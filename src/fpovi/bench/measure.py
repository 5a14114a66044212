# SPDX-License-Identifier: Apache-2.0
"""Times that can be compared: contestants take turns, so that what disturbs one round disturbs all of them."""

import math
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from fpovi.bench.repeated import Run

SAMPLE_SECONDS = 0.05  # at least so long: many times the clock's grain and the cost of one call
FEW_STEPS = 8  # at least so many, unless they last for seconds: a call copies all networks once, like part of a step
LONG_SECONDS = 1.0  # a sample of which any number of steps will do
WARM_UP = 0.1  # share of a sample that is run before it and not timed: the last contestant left its data in the cache
MOST_SECONDS = 20.0  # whoever has been timed for so long sits out the remaining rounds


class Timing(NamedTuple):
    """Seconds per step, a sample for each round; ``first_call`` includes the compiler."""

    samples: list[float]
    steps: int
    first_call: float

    def summary(self) -> dict[str, float | int | list[float]]:
        """Median, quartiles and minimum, and the samples themselves."""
        lower, median, upper = np.quantile(self.samples, (0.25, 0.5, 0.75))
        return {
            "median": float(median),
            "lower": float(lower),
            "upper": float(upper),
            "minimum": float(np.min(self.samples)),
            "steps": self.steps,
            "samples": [float(f"{sample:.4g}") for sample in self.samples],
            "first_call": round(self.first_call, 3),
        }


def take_turns(
    runs: Mapping[str, Run],
    rounds: int,
    sample_seconds: float = SAMPLE_SECONDS,
    longer: Mapping[str, float] | None = None,
    watch: Callable[[str], None] = lambda name: None,
) -> dict[str, Timing]:
    """Time everyone in ``rounds`` rounds, A B C A B C …, after a first call and a choice of steps per sample.

    ``longer`` has the seconds per sample of those for whom a call costs more than the others' does.
    """
    first, steps = {}, {}
    for name, run in runs.items():
        watch(name)
        first[name] = _seconds(run, 1)
        steps[name] = enough_steps(run, (longer or {}).get(name, sample_seconds))
    samples: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            watch(name)
            if samples[name] and steps[name] * sum(samples[name]) > MOST_SECONDS:
                continue
            if warm_up := int(WARM_UP * steps[name]):
                run(warm_up)
            samples[name].append(_seconds(run, steps[name]) / steps[name])
    return {name: Timing(samples[name], steps[name], first[name]) for name in runs}


def enough_steps(run: Run, sample_seconds: float) -> int:
    """How many steps take ``sample_seconds``. The faster of two trials counts, as one may be held up."""
    steps = 1
    while not _is_enough(taken := _seconds(run, steps), steps, sample_seconds):
        taken = min(taken, _seconds(run, steps))
        wanted = 1.2 * steps * sample_seconds / max(taken, sample_seconds / 10)
        steps = max(2 * steps, math.ceil(wanted))
    return steps


def _is_enough(taken: float, steps: int, sample_seconds: float) -> bool:
    return taken >= sample_seconds and (steps >= FEW_STEPS or taken >= LONG_SECONDS)


def _seconds(run: Run, steps: int) -> float:
    started = time.perf_counter()
    run(steps)
    return time.perf_counter() - started
