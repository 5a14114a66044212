# SPDX-License-Identifier: Apache-2.0
"""One line for each setting of a bench: what people ask first."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from fpovi.bench.settings import SETTINGS
from fpovi.bench.tables import milliseconds, table
from fpovi.experiments.harness.store import Row
from fpovi.experiments.harness.view import View

OURS, PAPERS = "function:svgd:nngp", "function:svgd:moment_matched"
FRESH = "× ensemble, 40 prior networks a step"
PEERS = {
    "peer:torch-eager": "PyTorch",
    "peer:torch-compile": "torch.compile",
    "peer:blackjax": "BlackJAX",
    "peer:numpyro": "NumPyro",
    "peer:pyro": "Pyro",
}


def summary(rows: Sequence[Row]) -> View:
    """The ratios that matter, per setting: our step to what it cannot do without, and peers to ours."""
    order = list(SETTINGS)
    ours = [row for row in rows if row.cell.dataset in order]
    settings = _together(sorted(ours, key=lambda row: order.index(row.cell.dataset)))
    return View(
        title="A step of f-SVGD",
        explanation=(
            "ms: median of a step with an analytic prior; % peak: its share of the matmul peak of the same run",
            "peers: how many times longer than ours the same step takes; SVGD on weights for the last three",
        ),
        columns=("setting", "ms", "× ensemble", FRESH, "× bare pass", "% peak", *PEERS.values()),
        lines=[_line(some) for some in settings],
        records=[record for some in settings for record in table(some)],
    )


def sweep_summary(rows: Sequence[Row], axis: str) -> View:
    """How a step of f-SVGD grows with the particles, the labelled rows, or whatever else was varied."""
    settings = _together(row for row in rows if f" {axis}=" in row.cell.dataset)
    found = [{line["contestant"]: line for line in table(some)} for some in settings]
    alone = next((step[OURS]["median"] for step, some in zip(found, settings, strict=True) if _networks(some) == 1), 0)
    return View(
        title=f"A step of f-SVGD by {axis}",
        explanation=(
            "ms: median of a step with an analytic prior, and divided by the number of networks",
            "× one: how many steps of a single network it costs",
        ),
        columns=("setting", "ms", "ms a network", "× one network", "× ensemble", FRESH, "× bare pass"),
        lines=[
            [
                some[0].cell.dataset,
                milliseconds(step[OURS]["median"]),
                milliseconds(step[OURS]["median"] / _networks(some)),
                f"{step[OURS]['median'] / alone:.1f}" if alone else "",
                _number(step[OURS], "to_ensemble", 2),
                _number(step.get(PAPERS), "to_ensemble", 2),
                _number(step[OURS], "to_bare", 2),
            ]
            for some, step in zip(settings, found, strict=True)
        ],
        records=[line for step in found for line in step.values()],
    )


def _together(rows: Iterable[Row]) -> list[list[Row]]:
    return [list(some) for _, some in groupby(rows, key=lambda row: row.cell.dataset)]


def _networks(rows: Sequence[Row]) -> int:
    networks: int = rows[0].metrics["setting"]["n"]
    return networks


def _line(rows: list[Row]) -> list[str]:
    found = {record["contestant"]: record for record in table(rows) if "missing" not in record}
    setting = rows[0].metrics["setting"]
    step = found[OURS]
    ratio = lambda name, field, digits=2: _number(found.get(name), field, digits)  # noqa: E731
    shape = "-".join(map(str, setting["sizes"]))
    return [
        f"{setting['name']}: {shape}, {setting['batch']}+{setting['extra']} points",
        milliseconds(step["median"]),
        ratio(OURS, "to_ensemble"),
        ratio(PAPERS, "to_ensemble"),
        ratio(OURS, "to_bare"),
        "" if step["share"] is None else f"{100 * step['share']:.0f}",
        *(ratio(name, "to_rival", 1) for name in PEERS),
    ]


def _number(record: dict[str, Any] | None, field: str, digits: int) -> str:
    value = None if record is None else record.get(field)
    return "" if value is None else f"{value:.{digits}f}"
