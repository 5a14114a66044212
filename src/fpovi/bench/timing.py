# SPDX-License-Identifier: Apache-2.0
"""Time steps so that they can be compared: compiled loops, timed in turns."""

import math
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

import jax
import numpy as np
from jaxtyping import Array

from fpovi.types import PyTree

Run: TypeAlias = Callable[[int], None]  # run(steps) returns when that many steps are done

SAMPLE_SECONDS = 0.05  # at least so long: many times the clock's grain and the cost of one call
FEW_STEPS = 8  # at least so many, unless they last for seconds: a call copies all networks once, like part of a step
LONG_SECONDS = 1.0  # a sample of which any number of steps will do
WARM_UP = 0.1  # share of a sample that is run before it and not timed: the last contestant left its data in the cache
MOST_SECONDS = 20.0  # whoever has been timed for so long sits out the remaining rounds


class UnavailableError(Exception):
    """A contestant that cannot run here; the message says what would help."""


class Timing(NamedTuple):
    """Seconds per step, a sample for each round; ``first_call`` includes the compiler."""

    samples: list[float]
    steps: int
    first_call: float

    def summary(self) -> dict[str, float | int | list[float]]:
        """Return median, quartiles and minimum, and the samples themselves."""
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


def compile_run(step: Callable[..., PyTree], carry: PyTree, *data: PyTree) -> Run:
    """Return ``run(steps)``, which starts at ``carry``, applies ``carry = step(i, carry, *data)`` and waits.

    One compiled program serves any number of steps, so nothing of Python's between two steps is timed. ``data`` are its
    arguments, so that the compiler knows their shape alone.
    """

    @jax.jit
    def many(steps: Array, carry: PyTree, *data: PyTree) -> PyTree:
        return jax.lax.fori_loop(0, steps, lambda i, carry: step(i, carry, *data), carry)

    def run(steps: int) -> None:
        jax.block_until_ready(many(steps, carry, *data))

    return run


def time_in_turns(
    runs: Mapping[str, Run],
    rounds: int,
    sample_seconds: float = SAMPLE_SECONDS,
    longer: Mapping[str, float] | None = None,
    watch: Callable[[str], None] = lambda name: None,
) -> dict[str, Timing]:
    """Time all ``runs`` in turns, A B C A B C …, so that what disturbs one round disturbs all of them.

    Args:
        runs: what to time, by name.
        rounds: samples of each; fewer for those that take longer than 20 seconds in all.
        sample_seconds: how long a sample lasts at least.
        longer: the seconds per sample of those for whom a call by itself costs more than the others' does.
        watch: called with a name whenever it is that one's turn.
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
    """Return how many steps take ``sample_seconds``. The faster of two trials counts, as one may be held up."""
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
