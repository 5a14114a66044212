# SPDX-License-Identifier: Apache-2.0
r"""Measure the memory of a step, each setting in a process of its own, and fit a model to it.

.. math:: \text{floats} = c_0 + c_1\, n p + c_2\, m B w + c_3\, n^2

with p weights and w units (hidden and output) in each of n networks, seen at B points: the particles and the
optimiser's memory of them, the activations of the m that are evaluated at a time (all n, or fewer where these would
outgrow the caches), and the matrix of distances. No term has n·B·p, which a Jacobian would.
"""

import json
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy.optimize import nnls

from fpovi.bench.contestants.ours import function_algorithm
from fpovi.bench.machine import run_alone
from fpovi.bench.settings import SETTINGS, Setting, make_workload, swept
from fpovi.experiments.harness.store import Cell, Row, versions
from fpovi.experiments.harness.view import View
from fpovi.inference.particles import at_a_time
from fpovi.types import Batch, State

METHOD, STEPS = ("svgd", "nngp"), 3
BROAD = Setting("400,000 weights", (100, 4000, 1), batch=10, extra=10)
LARGE = Setting("5 million weights", (784, 2100, 1600, 10), batch=100, extra=0, classes=True)
TERMS = ("weights (n·p)", "activations (m·B·w)", "pairs (n²)", "constant")
FLOAT = 4  # bytes


def settings(quick: bool = False) -> list[Setting]:
    """Return the settings to measure: sweeps at the shape of boston, and twenty networks of many weights."""
    base = SETTINGS["boston"]
    if quick:
        return [
            *swept(base, "n", (5, 100, 1000)),
            *swept(base, "batch", (1000,)),
            *swept(base, "width", (1600,)),
            BROAD,
        ]
    return [each for axis in ("n", "batch", "width") for each in swept(base, axis)] + [BROAD, LARGE]


def terms(setting: Setting) -> list[int]:
    """Return what the coefficients of the model multiply.

    >>> terms(Setting("tiny", (3, 5, 1), batch=7, extra=0, n=2))  # 26 weights, 6 units
    [52, 84, 4, 1]
    """
    n, activations = setting.n, setting.points * sum(setting.sizes[1:])
    return [n * setting.num_weights, at_a_time(n, activations) * activations, n * n, 1]


def measure(setting: Setting, machine: dict[str, Any], preset: str = "full") -> Row:
    """Measure a setting and return its row.

    Args:
        setting: the shapes.
        machine: :func:`~fpovi.bench.machine.describe_machine`, kept in the row.
        preset: what the row is filed under.
    """
    started = time.perf_counter()
    found = footprint(setting) | {"setting": setting._asdict(), "machine": machine}
    cell = Cell("bench-memory", "function:" + ":".join(METHOD), setting.name, preset=preset)
    return Row(cell, found, round(time.perf_counter() - started, 3), versions())


def footprint(setting: Setting) -> dict[str, int]:
    """Return bytes: ``growth`` from before the particles exist to the peak of three steps, ``peak`` of the process.

    ``planned`` is the compiler's own figure for the step: arguments, results and what it needs in between.
    """
    if not Path("/proc/self/clear_refs").exists():
        raise ValueError("memory is measured by what /proc says, which this system does not have")
    found: dict[str, int] = run_alone("memory", json.dumps(setting._asdict()), what=setting.name)
    return found


def fit(rows: Sequence[Row]) -> dict[str, float]:
    """Return the coefficients of the model, none negative, with the least relative errors."""
    growth = np.asarray([row.metrics["growth"] for row in rows]) / FLOAT
    design = np.asarray([terms(Setting.from_json(row.metrics["setting"])) for row in rows], float)
    coefficients, _ = nnls(design / growth[:, None], np.ones(len(rows)))
    return dict(zip(TERMS, map(float, coefficients), strict=True))


def predicted(row: Row, coefficients: dict[str, float]) -> float:
    """Return the bytes that the model predicts for the setting of a row."""
    return FLOAT * float(np.dot(terms(Setting.from_json(row.metrics["setting"])), list(coefficients.values())))


def view(rows: Sequence[Row]) -> View:
    """Return the table of what was measured beside the model's fit."""
    found = fit(rows)
    records = [
        {
            "setting": row.cell.dataset,
            **{name: row.metrics[name] for name in ("growth", "planned", "peak")},
            "model": predicted(row, found),
        }
        for row in rows
    ]
    megabytes = lambda size: f"{size / 1e6:.1f}" if size < 1e8 else f"{size / 1e6:.0f}"  # noqa: E731
    fields = ("growth", "model", "planned", "peak")
    return View(
        title="Memory of a step of f-SVGD",
        explanation=(
            "growth: of the resident memory, from before the particles to the peak; model: the fit to it below",
            "planned: the compiler's figure; peak: of the whole process, with Python, JAX and its compiler (MB)",
        ),
        columns=("setting", *fields),
        lines=[[str(line["setting"]), *(megabytes(line[field]) for field in fields)] for line in records],
        notes=("floats = " + " + ".join(f"{value:.3g} {name}" for name, value in found.items()),),
        records=records,
    )


def _status(field: str) -> int:
    """Return a field of /proc/self/status, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(field)).split()[1])


def _measure(setting: Setting) -> dict[str, int]:
    """Compile everything, then look at the memory, then run; in a process that does nothing else."""
    algorithm, rows = function_algorithm(*METHOD, setting), make_workload(setting).labelled
    key = jax.random.key(0)

    def one(i: Array, carry: tuple[State, Array], rows: Batch) -> tuple[State, Array]:
        state, info = algorithm.step(jax.random.fold_in(key, i), carry[0], rows)
        return state, carry[1] & info.finite

    def steps(state: State, rows: Batch) -> tuple[State, Array]:
        return jax.lax.fori_loop(0, STEPS, partial(one, rows=rows), (state, jnp.asarray(True)))

    begin = jax.jit(lambda key: algorithm.init(key, setting.n)).lower(key).compile()
    go = jax.jit(steps).lower(jax.eval_shape(lambda: algorithm.init(key, setting.n)), rows).compile()
    compiling = _status("VmHWM")
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    jax.block_until_ready(go(begin(key), rows))
    peak = _status("VmHWM")
    plan: Any = go.memory_analysis()
    planned = plan.argument_size_in_bytes + plan.output_size_in_bytes + plan.temp_size_in_bytes
    return {"growth": peak - before, "planned": planned, "peak": max(peak, compiling)}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_measure(Setting.from_json(json.loads(sys.argv[1])))))
