# SPDX-License-Identifier: Apache-2.0
"""One line for each setting of a bench: what people ask first."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from fpovi.bench.tables import milliseconds, table
from fpovi.experiments.store import Row
from fpovi.experiments.view import View

OURS, PAPERS = "function:svgd:nngp", "function:svgd:moment_matched"
PEERS = {
    "peer:torch-eager": "PyTorch",
    "peer:torch-compile": "torch.compile",
    "peer:blackjax": "BlackJAX",
    "peer:numpyro": "NumPyro",
    "peer:pyro": "Pyro",
}


def summary(rows: Sequence[Row]) -> View:
    """The ratios that matter, per setting: our step to what it cannot do without, and peers to ours."""
    settings = [list(some) for _, some in groupby(rows, key=lambda row: row.cell.dataset)]
    return View(
        title="A step of f-SVGD",
        explanation=(
            "ms: median of a step with an analytic prior; % peak: its share of the matmul peak of the same run",
            "peers: how many times longer than ours the same step takes; SVGD on weights for the last three",
        ),
        columns=(
            "setting",
            "ms",
            "× ensemble",
            "× ensemble, 40 prior networks a step",
            "× bare pass",
            "% peak",
            *PEERS.values(),
        ),
        lines=[_line(some) for some in settings],
        records=[record for some in settings for record in table(some)],
    )


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
