# SPDX-License-Identifier: Apache-2.0
r"""Count what devices exchange in a step, from the compiled program, and compare it with the formula.

Every number of devices gets a process of its own, with as many devices made of the CPU: bytes and memory depend on the
program and not on the machine. A step of networks too large to be run is compiled all the same.
"""

import json
import math
import re
import sys
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.typing import NDArray

from fpovi.bench.contestants.ours import function_algorithm
from fpovi.bench.machine import run_alone
from fpovi.bench.settings import SETTINGS, Setting, make_workload, swept
from fpovi.experiments.harness.store import Cell, Row, versions
from fpovi.experiments.harness.view import View
from fpovi.inference import function_space
from fpovi.inference.particles import forward
from fpovi.inference.sharding import bytes_received, fetch, make_mesh, shard, state_shardings
from fpovi.types import PyTree

METHOD, STEPS = ("svgd", "nngp"), 10
KEY = jax.random.key(0)
# Exchanges and memory are settled before machine code is made, so that need not be fast.
QUICKLY = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
MOST_WEIGHTS = 10**6  # of a network that is also run, and compared with one device
BILLION = Setting("a billion weights", (1000, 30_000, 30_000, 2300, 10), batch=1024, extra=0, n=16, classes=True)

COLUMNS = (
    "networks", "p", "B", "P × D", "gathered", "by formula", "summed", "summed by formula", "difference", "held",
    "besides",
)  # fmt: skip

EXCHANGE = re.compile(r"= (.+?) (all-gather|all-reduce|reduce-scatter|all-to-all|collective-permute)(?:-start)?\(")
ARRAY = re.compile(r"(\w+)\[([0-9,]*)\]")
LISTED = re.compile(r"replica_groups=\{\{([0-9,]*)\}")
NAMED = re.compile(r"replica_groups=mesh\[(.*?)\].*?\{(.*?)\}")
WIDTH = {"pred": 1, "s32": 4, "u32": 4, "f32": 4, "f64": 8}  # bytes


def settings(quick: bool = False) -> list[Setting]:
    """Return settings with few, many and far too many weights, in 16 networks, which many numbers of devices divide."""
    small = swept(SETTINGS["boston"], "n", (16,))
    return small if quick else [*small, *swept(SETTINGS["wide"], "n", (16,)), BILLION]


def mesh_shapes(devices: int) -> list[tuple[int, int]]:
    """Return meshes to count: all devices along particles, and half of them with two devices for the rows of each.

    >>> mesh_shapes(2), mesh_shapes(8)
    ([(2, 1)], [(8, 1), (4, 2)])
    """
    return [(devices, 1), (devices // 2, 2)] if devices >= 4 and devices % 2 == 0 else [(devices, 1)]


def check_split(counts: Sequence[int], chosen: Sequence[Setting]) -> None:
    """Raise a ``ValueError`` unless each number of devices divides the networks of each setting."""
    for count in counts:
        for setting in chosen:
            if setting.n % count:
                raise ValueError(f"devices={count} cannot share {setting.n} networks evenly: use a divisor of that")


def measure(devices: int, chosen: Sequence[Setting], command: str, preset: str = "full") -> list[Row]:
    """Count the exchanges of settings and return a row for each mesh.

    Args:
        devices: how many.
        chosen: the settings.
        command: what a reader types to make these rows again, kept in them.
        preset: what the rows are filed under.
    """
    environment = {**QUICKLY, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": str(devices)}
    shapes = json.dumps([setting._asdict() for setting in chosen])
    counted = run_alone("exchange", str(devices), shapes, what=f"{devices} devices", environment=environment)
    return [Row(_cell(found, preset), {**found, "command": command}, seconds, versions()) for found, seconds in counted]


def _cell(found: dict[str, Any], preset: str) -> Cell:
    mesh = "x".join(map(str, found["mesh"]))
    return Cell("bench-devices", f"function:{':'.join(METHOD)} on {mesh}", found["setting"]["name"], preset=preset)


def received(hlo: str) -> dict[str, float]:
    r"""Return the bytes that every device receives when the program runs once, by kind of exchange.

    Of a result of s bytes among g devices, a gather brings :math:`s (1 - 1/g)`, a sum around a ring twice as much.

    >>> received("%all = f32[8,5]{1,0} all-gather(%own), replica_groups={{0,1,2,3}}, dimensions={0}")
    {'all-gather': 120.0}
    >>> received("%sum = f32[7]{0} all-reduce(%part), replica_groups=mesh['a'=2,'b'=4] {'a'}, to_apply=%add")
    {'all-reduce': 28.0}
    """
    total: dict[str, float] = {}
    for line in hlo.splitlines():
        if found := EXCHANGE.search(line):
            result, kind = found.groups()
            size = sum(WIDTH[dtype] * math.prod(_whole(shape)) for dtype, shape in ARRAY.findall(result))
            total[kind] = total.get(kind, 0) + _share(kind, size, _devices(line))
    return total


def _share(kind: str, size: int, group: int) -> float:
    """Return the bytes one of ``group`` devices receives of a result of ``size`` bytes, on average."""
    if kind == "reduce-scatter":  # its result is a part already
        return size * (group - 1)
    return (2 if kind == "all-reduce" else 1) * size * (group - 1) / group


def _devices(line: str) -> int:
    """Return how many take part in an exchange: XLA lists them, or names axes of a mesh."""
    if listed := LISTED.search(line):
        return len(_whole(listed[1]))
    named = NAMED.search(line)
    if named is None:
        raise ValueError(f"no groups of devices in {line.strip()[:200]!r}: XLA writes them in a way unknown here")
    sizes = dict(re.findall(r"'(\w+)'=(\d+)", named[1]))
    return math.prod(int(sizes[axis]) for axis in re.findall(r"'(\w+)'", named[2]))


def _whole(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


def view(rows: Sequence[Row]) -> View:
    """Return the table of what was counted beside the formula, network by network."""
    rows = sorted(
        rows, key=lambda row: (row.metrics["weights"], math.prod(row.metrics["mesh"]), row.metrics["mesh"][1])
    )
    return View(
        title="What a device receives in a step of f-SVGD",
        explanation=(
            "P × D: devices along particles times those along rows; p: weights of a network; B: points",
            "gathered, summed: bytes that a device receives, counted in the program and by the formula",
            f"difference: of f from that of one device, the largest after {STEPS} steps in float64; – where not run",
            "held: bytes of particles and optimiser per weight of a device's own particles, and what is needed besides",
        ),
        columns=COLUMNS,
        lines=[_line(row.metrics) for row in rows],
        notes=(f"made by `{rows[0].metrics['command']}`",),
        records=[row.metrics for row in rows],
        keys=4,
    )


def _line(found: dict[str, Any]) -> list[str]:
    setting = found["setting"]
    own = setting["n"] * found["weights"] / found["mesh"][0]
    return [
        f"{setting['n']} × {'-'.join(map(str, setting['sizes']))}",
        f"{found['weights']:,}",
        str(setting["batch"] + setting["extra"]),
        " × ".join(map(str, found["mesh"])),
        *(f"{found[name]:,.0f}" for name in ("gathered", "values", "summed")),
        f"{found['gradients'] + found['checks']:,.0f}",
        "–" if found["difference"] is None else f"{found['difference']:.0e}" if found["difference"] else "0",
        *(f"{found[name] / own:.1f}" for name in ("held", "besides")),
    ]


def _count(setting: Setting, shape: tuple[int, int]) -> tuple[dict[str, Any], float]:
    """Return the numbers of a row and the seconds they took, in a process that has the devices."""
    started, mesh = time.perf_counter(), make_mesh(*shape)
    algorithm = function_algorithm(*METHOD, setting, make=shard(function_space, mesh))
    state = jax.eval_shape(lambda: algorithm.init(KEY, setting.n))
    placed = jax.tree.map(
        lambda leaf, place: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place),
        state,
        state_shardings(state, mesh),
    )
    key, rows = _on_all(mesh, KEY, make_workload(setting).labelled)
    compiled: Any = jax.jit(algorithm.step).lower(key, placed, rows).compile()
    plan = compiled.memory_analysis()
    crossing = received(compiled.as_text())
    values, gradients = bytes_received(setting.n, setting.points, setting.sizes[-1], setting.num_weights, *shape)
    arrays = len(jax.tree.leaves(state.particles))
    found = {
        "setting": setting._asdict(),
        "mesh": shape,
        "weights": setting.num_weights,
        "gathered": crossing.pop("all-gather", 0.0),
        "summed": crossing.pop("all-reduce", 0.0),
        "otherwise": sum(crossing.values()),
        "values": values,
        "gradients": gradients,
        "checks": 8 * arrays * (1 - 1 / shape[0]),
        "held": plan.argument_size_in_bytes,
        "besides": plan.temp_size_in_bytes,
        "returned": plan.output_size_in_bytes,
        "difference": _difference(setting, mesh) if setting.num_weights <= MOST_WEIGHTS else None,
    }
    return found, round(time.perf_counter() - started, 3)


def _on_all(mesh: Mesh, *trees: PyTree) -> tuple[PyTree, ...]:
    """Put whole copies on every device."""
    return jax.device_put(trees, NamedSharding(mesh, PartitionSpec()))


def _difference(setting: Setting, mesh: Mesh) -> float:
    """Return the largest difference of f after some steps over ``mesh`` from f after the same steps on one device.

    In double precision: Adam takes a step of full length even where a gradient is hardly more than rounding.
    """
    with jax.enable_x64(True):
        there, here = _values(setting, mesh), _values(setting, None)
    return float(np.max(np.abs(there - here)))


@cache
def _values(setting: Setting, mesh: Mesh | None) -> NDArray[np.float64]:
    """Return f after some steps; without a mesh, on a device that knows of no others."""
    make = function_space if mesh is None else shard(function_space, mesh)
    algorithm, parts = function_algorithm(*METHOD, setting, make=make), make_workload(setting, np.float64)
    state = jax.jit(algorithm.init, static_argnums=1)(KEY, setting.n)
    step = jax.jit(algorithm.step)
    for i in range(STEPS):
        state, _ = step(jax.random.fold_in(KEY, i), state, parts.labelled)
    state = fetch(state)
    return np.asarray(forward(parts.network, state.particles, state.network_state, parts.labelled.x)[0])


if __name__ == "__main__":
    devices, chosen = map(json.loads, sys.argv[1:])
    shapes = mesh_shapes(devices)
    sys.stdout.write(json.dumps([_count(Setting.from_json(fields), shape) for fields in chosen for shape in shapes]))
