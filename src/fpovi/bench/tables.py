# SPDX-License-Identifier: Apache-2.0
"""The tables of a bench, made from its rows: one setting in full, and a line for each of many."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fpovi.bench.contestants import BARE, MATMUL, PEER
from fpovi.bench.settings import SETTINGS, Setting
from fpovi.experiments.harness.store import Row
from fpovi.experiments.harness.view import View

GOALS = {  # (contestant, ratio) -> what was aimed at
    ("function:svgd:nngp", "to_ensemble"): 1.15,
    ("function:svgd:moment_matched", "to_ensemble"): 1.3,
    ("function:svgd:nngp", "to_bare"): 1.3,
}
REFERENCE_NAMES = {"to_ensemble": "the ensemble", "to_bare": "the fastest bare pass"}
OURS, PAPER = "function:svgd:nngp", "function:svgd:moment_matched"
FRESH_DRAWS = "× ensemble, 40 prior networks a step"
PEERS = {
    "peer:torch-eager": "PyTorch",
    "peer:torch-compile": "torch.compile",
    "peer:blackjax": "BlackJAX",
    "peer:numpyro": "NumPyro",
    "peer:pyro": "Pyro",
}


def by_setting(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the rows of each setting, which were measured side by side."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.cell.dataset, []).append(row)
    return found


def table(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return a record for each row of one setting, with its ratios to the others of the same run.

    ``to_ensemble`` and ``to_bare`` are ratios to the plain ensemble and to the fastest bare pass, ``to_rival`` how many
    times longer than ours a peer takes: the median over rounds of the ratio within a round, as what disturbs a round
    disturbs all in it. ``share`` is the pass's share of the fastest product.
    """
    timed = {row.cell.method: row for row in rows if "median" in row.metrics}
    bare = min((row for row in timed.values() if row.metrics["kind"] == BARE), key=_median, default=None)
    peak = max((row.metrics["gflops"] for row in timed.values() if row.metrics["kind"] == MATMUL), default=None)
    return [_record(row, timed, bare, peak) for row in rows]


def _record(row: Row, timed: dict[str, Row], bare: Row | None, peak: float | None) -> dict[str, Any]:
    metrics, name = row.metrics, row.cell.method
    line: dict[str, Any] = {"setting": row.cell.dataset, "contestant": name, "kind": metrics["kind"]}
    if "missing" in metrics:
        return line | {"missing": metrics["missing"]}
    line |= {field: metrics[field] for field in ("median", "lower", "upper", "minimum", "gflops")}
    line["share"] = metrics["gflops"] / peak if peak else None
    if metrics["kind"] != MATMUL:
        line["to_ensemble"] = _ratio(row, timed.get("ensemble"))
        line["to_bare"] = _ratio(row, bare)
        line["to_rival"] = _ratio(row, timed.get(metrics["rival"]))
    return line


def _median(row: Row) -> float:
    median: float = row.metrics["median"]
    return median


def _ratio(row: Row, other: Row | None) -> float | None:
    """Return the median ratio within a round; a slow contestant takes part in the first rounds only."""
    if other is None:
        return None
    rounds = zip(row.metrics["samples"], other.metrics["samples"], strict=False)
    return float(np.median([mine / theirs for mine, theirs in rounds]))


def view(rows: Sequence[Row]) -> View:
    """Return the table of one setting, the fastest bare pass and the ensemble in bold."""
    records = table(rows)
    timed = [line for line in records if "missing" not in line]
    bare = min((line["median"] for line in timed if line["kind"] == BARE), default=None)
    setting, machine = rows[0].metrics["setting"], rows[0].metrics["machine"]
    shape = Setting.from_json(setting).layers
    return View(
        title=f"{setting['name']}: {setting['n']} networks {shape}, {setting['batch']}+{setting['extra']} points",
        explanation=(
            "ms: median of a step; ± %: half the distance of its quartiles",
            "× ens., × bare: over the plain ensemble, over the fastest bare pass",
            "% peak: the pass's share of the matmul peak; × ours: how much longer a peer takes than we do",
        ),
        columns=("step", "ms", "± %", "× ens.", "× bare", "% peak", "× ours"),
        lines=[_cells(line) for line in records],
        bold=frozenset(
            number
            for number, line in enumerate(records)
            if line["contestant"] == "ensemble" or (line["kind"] == BARE and line.get("median") == bare)
        ),
        notes=(*_remarks(records), _about(machine)),
        records=records,
    )


def _cells(line: dict[str, Any]) -> list[str]:
    if "missing" in line:
        return [line["contestant"], "–", *[""] * 5]
    return [
        line["contestant"],
        milliseconds(line["median"]),
        f"{50 * (line['upper'] - line['lower']) / line['median']:.0f}",
        _number(line, "to_ensemble"),
        _number(line, "to_bare"),
        "" if line["share"] is None else f"{100 * line['share']:.0f}",
        _number(line, "to_rival", 1),
    ]


def milliseconds(seconds: float) -> str:
    """Return a time in milliseconds with three digits.

    >>> milliseconds(0.00012345), milliseconds(1.5)
    ('0.123', '1500')
    """
    value = 1e3 * seconds
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}" if value >= 1 else f"{value:.3f}"


def _remarks(records: Sequence[dict[str, Any]]) -> list[str]:
    """Return what was aimed at, by how much it is met or missed, and what could not be compared."""
    found = {line["contestant"]: line for line in records}
    notes = []
    for (name, ratio), goal in GOALS.items():
        value = found.get(name, {}).get(ratio)
        if value is not None:
            verdict = "met" if value <= goal else f"missed by {100 * (value / goal - 1):.0f} %"
            notes.append(f"{name} takes {value:.2f} × {REFERENCE_NAMES[ratio]}, goal {goal}: {verdict}")
    notes.extend(f"{line['contestant']}: {line['missing']}" for line in records if "missing" in line)
    slower = [line for line in records if line["kind"] == PEER and (line.get("to_rival") or 1) < 1]
    notes.extend(f"{line['contestant']} is faster than we are" for line in slower)
    return notes


def _about(machine: dict[str, Any]) -> str:
    one = machine.get("single_core_gflops")
    peak = f", {one:.0f} GFLOP/s on one core" if one else ""
    return f"{machine['cores']} core(s) of {machine['cpu']}{peak}; load average {machine['load']} before the start"


def summary(rows: Sequence[Row]) -> View:
    """Return the table with a line for each setting: our step over its references, and peers over our step."""
    measured = by_setting(rows)
    settings = [measured[name] for name in SETTINGS if name in measured]
    return View(
        title="A step of f-SVGD",
        explanation=(
            "ms: median of a step with an analytic prior; % peak: its share of the matmul peak of the same run",
            "peers: how many times longer than ours the same step takes; SVGD on weights for the last three",
        ),
        columns=("setting", "ms", "× ensemble", FRESH_DRAWS, "× bare pass", "% peak", *PEERS.values()),
        lines=[_summary_cells(some) for some in settings],
        records=[record for some in settings for record in table(some)],
    )


def sweep_summary(rows: Sequence[Row], axis: str) -> View:
    """Return the table of how a step of f-SVGD grows along the ``axis`` of a sweep."""
    settings = [some for name, some in by_setting(rows).items() if f" {axis}=" in name]
    found = [{line["contestant"]: line for line in table(some)} for some in settings]
    alone = next((step[OURS]["median"] for step, some in zip(found, settings, strict=True) if _networks(some) == 1), 0)
    return View(
        title=f"A step of f-SVGD by {axis}",
        explanation=(
            "ms: median of a step with an analytic prior, and divided by the number of networks",
            "× one: how many steps of a single network it costs",
        ),
        columns=("setting", "ms", "ms a network", "× one network", "× ensemble", FRESH_DRAWS, "× bare pass"),
        lines=[
            [
                some[0].cell.dataset,
                milliseconds(step[OURS]["median"]),
                milliseconds(step[OURS]["median"] / _networks(some)),
                f"{step[OURS]['median'] / alone:.1f}" if alone else "",
                _number(step[OURS], "to_ensemble"),
                _number(step.get(PAPER), "to_ensemble"),
                _number(step[OURS], "to_bare"),
            ]
            for some, step in zip(settings, found, strict=True)
        ],
        records=[line for step in found for line in step.values()],
    )


def _networks(rows: Sequence[Row]) -> int:
    networks: int = rows[0].metrics["setting"]["n"]
    return networks


def _summary_cells(rows: list[Row]) -> list[str]:
    found = {record["contestant"]: record for record in table(rows) if "missing" not in record}
    setting = rows[0].metrics["setting"]
    step = found.get(OURS) or found[PAPER]
    shape = Setting.from_json(setting).layers
    return [
        f"{setting['name']}: {shape}, {setting['batch']}+{setting['extra']} points",
        milliseconds(step["median"]),
        _number(step, "to_ensemble"),
        _number(found.get(PAPER), "to_ensemble"),
        _number(step, "to_bare"),
        "" if step["share"] is None else f"{100 * step['share']:.0f}",
        *(_number(found.get(name), "to_rival", 1) for name in PEERS),
    ]


def _number(record: dict[str, Any] | None, field: str, digits: int = 2) -> str:
    value = None if record is None else record.get(field)
    return "" if value is None else f"{value:.{digits}f}"
