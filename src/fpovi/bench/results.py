# SPDX-License-Identifier: Apache-2.0
"""From contestants to rows: one for each contestant and setting, all of a run measured side by side."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from fpovi.bench.contestants import MATMUL, Contestant
from fpovi.bench.machine import matmul_flops
from fpovi.bench.measure import SAMPLE_SECONDS, take_turns
from fpovi.bench.repeated import UnavailableError
from fpovi.bench.settings import Setting
from fpovi.experiments.harness.store import Cell, Row, versions

Watch = Callable[[str], None]


def measure(
    setting: Setting,
    contestants: Sequence[Contestant],
    machine: dict[str, Any],
    rounds: int,
    preset: str = "full",
    sample_seconds: float = SAMPLE_SECONDS,
    watch: Watch = lambda name: None,
) -> list[Row]:
    """The rows of all contestants at a setting; of one that cannot run here, the reason."""
    started = time.perf_counter()
    runs, missing = {}, {}
    for contestant in contestants:
        try:
            runs[contestant.name] = contestant.prepare(setting)
        except UnavailableError as error:
            missing[contestant.name] = str(error)
    longer = {contestant.name: contestant.longer for contestant in contestants if contestant.longer is not None}
    timings = take_turns(runs, rounds, sample_seconds, longer, watch)
    seconds = round((time.perf_counter() - started) / len(contestants), 3)
    common = {"setting": setting._asdict(), "machine": machine, "run": round(time.time())}

    def row(contestant: Contestant) -> Row:
        name = contestant.name
        found: dict[str, Any] = {"kind": contestant.kind, "rival": contestant.rival}
        if name in missing:
            found["missing"] = missing[name]
        else:
            found |= timings[name].summary()
            found["flops"] = step_flops(contestant, setting)
            found["gflops"] = found["flops"] / found["median"] / 1e9
        cell = Cell("bench", name, setting.name, preset=preset)
        return Row(cell, found | common, seconds, versions())

    return [row(contestant) for contestant in contestants]


def step_flops(contestant: Contestant, setting: Setting) -> int:
    """The useful work of a step: the pass through the networks. What comes on top of it is what a method costs."""
    return matmul_flops(int(contestant.name.split(":")[1])) if contestant.kind == MATMUL else setting.pass_flops
