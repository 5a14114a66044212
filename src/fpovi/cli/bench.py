# SPDX-License-Identifier: Apache-2.0
"""``fpovi bench``: time a step on this machine, beside other libraries and the limits of the hardware."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from fpovi._lookup import lookup
from fpovi._progress import progress_bar
from fpovi.bench import exchange
from fpovi.bench import memory as step_memory
from fpovi.bench.contestants import QUICK, SWEPT, Contestant, choose, left_out, measure
from fpovi.bench.figures import comparison, growth
from fpovi.bench.machine import busy_warning, describe_machine, single_core_peak
from fpovi.bench.settings import LONG, SETTINGS, SWEEPS, Setting, swept
from fpovi.bench.tables import view
from fpovi.cli.options import AsJson, Names, Out, one_line_errors, say, whole_numbers
from fpovi.cli.reproduce import show_view
from fpovi.experiments.harness.store import Row, Store
from fpovi.experiments.harness.view import View
from fpovi.plots import save

ROUNDS = {"full": 15, "quick": 5}
Parts = Mapping[str, Callable[[], list[Row]]]


def bench(
    settings: Names = None,
    contestants: Annotated[
        list[str] | None, typer.Option(help="Only these and the references; * stands for anything.")
    ] = None,
    sweep: Annotated[str | None, typer.Option(help=f"Vary one thing: {', '.join(SWEEPS)}.")] = None,
    memory: Annotated[bool, typer.Option("--memory", help="Measure memory instead of time.")] = False,
    devices: Annotated[
        str | None,
        typer.Option(
            help="Count the bytes that devices exchange instead: numbers of devices made of the CPU, such as 1,2,4,16."
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer contestants, rounds and sizes.")] = False,
    out: Out = Path("results"),
    as_json: AsJson = False,
) -> None:
    """Time a step against a plain ensemble, the bare pass, the matmul peak and other libraries.

    Contestants take turns, and medians are reported with their quartiles. Run it on a machine that does nothing else.
    The settings mnist-adversarial and resnet take an hour, and are timed by name only.
    """
    with one_line_errors():
        preset = "quick" if quick else "full"
        if memory:
            _one_by_one(_memory(preset), Store(out / "bench-memory.jsonl"), step_memory.view, as_json)
            return
        if devices is not None:
            parts = _devices(whole_numbers(devices, "--devices"), preset)
            _one_by_one(parts, Store(out / "bench-devices.jsonl"), exchange.view, as_json)
            return
        usual = ["boston"] if sweep else [name for name in SETTINGS if name not in LONG]
        shapes = [lookup(SETTINGS, name, "settings") for name in settings or usual]
        shapes = [each for shape in shapes for each in swept(shape, sweep)] if sweep else shapes
        patterns = contestants or (SWEPT if sweep else QUICK if quick else ("*",))
        takes_part = choose(patterns)
        for reason in left_out(patterns):
            say(reason)
        store = Store(out / "bench.jsonl")
        rows = _time(shapes, takes_part, store, preset, quiet=as_json)
        drawing = growth(rows, sweep) if sweep else comparison(rows)
        paths = [store.path, *save(drawing, out / (f"bench-{sweep}" if sweep else "bench"))]
        if as_json:
            typer.echo(json.dumps({"rows": [asdict(row) for row in rows]}))
            return
        for number, shape in enumerate(shapes):
            shown = [row for row in rows if row.cell.dataset == shape.name]
            show_view(view(shown), paths if number == len(shapes) - 1 else [])


def _time(shapes: list[Setting], takes_part: list[Contestant], store: Store, preset: str, quiet: bool) -> list[Row]:
    machine = describe_machine()
    if warning := busy_warning(machine):
        say(warning)
    machine["single_core_gflops"] = single_core_peak()
    rows = []
    with progress_bar(quiet) as bar:
        for shape in shapes:
            task = bar.add_task(shape.name, total=len(takes_part) * (ROUNDS[preset] + 1), note="")
            watch = lambda name, task=task: bar.update(task, advance=1, note=name)  # noqa: E731
            found = measure(shape, takes_part, machine, ROUNDS[preset], preset, watch=watch)
            _keep(store, found)
            rows += found
    return rows


def _memory(preset: str) -> Parts:
    def row_of(shape: Setting) -> list[Row]:
        return [step_memory.measure(shape, describe_machine(), preset)]

    return {shape.name: partial(row_of, shape) for shape in step_memory.settings(preset == "quick")}


def _devices(counts: Sequence[int], preset: str) -> Parts:
    quick = preset == "quick"
    shapes = exchange.settings(quick)
    exchange.check_split(counts, shapes)
    command = f"fpovi bench --devices {','.join(map(str, counts))}{' --quick' if quick else ''}"
    return {f"{count} devices": partial(exchange.measure, count, shapes, command, preset) for count in counts}


def _one_by_one(parts: Parts, store: Store, view: Callable[[Sequence[Row]], View], as_json: bool) -> None:
    """Measure each part in its own process, keep its rows at once, and show all of them."""
    rows = []
    with progress_bar(quiet=as_json) as bar:
        task = bar.add_task(store.path.stem, total=len(parts), note="")
        for name, measure_part in parts.items():
            bar.update(task, note=name)
            found = measure_part()
            _keep(store, found)
            rows += found
            bar.advance(task)
    shown = view(rows)
    if as_json:
        typer.echo(json.dumps({"rows": [asdict(row) for row in rows], "table": shown.records}))
    else:
        show_view(shown, [store.path])


def _keep(store: Store, rows: list[Row]) -> None:
    """Store rows in the place of what was measured earlier."""
    store.drop(row.cell for row in rows)
    for row in rows:
        store.append(row)
