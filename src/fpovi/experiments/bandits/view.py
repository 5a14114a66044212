# SPDX-License-Identifier: Apache-2.0
"""The table of regrets, the paper's numbers beside ours."""

from collections.abc import Sequence
from typing import Any

from fpovi.experiments.bandits.methods import LABELS
from fpovi.experiments.bandits.problems import PUBLISHED
from fpovi.experiments.harness.statistics import as_record, best_methods, collect, mean_of, plus_minus
from fpovi.experiments.harness.store import Row
from fpovi.experiments.harness.view import View, name_once

COLUMNS = {
    "regret": "regret, %",
    "regret_of_script": "after 40,000",
    "pseudo_regret": "pseudo-regret, %",
    "simple_regret": "of the last 500, %",
}


def view(rows: Sequence[Row]) -> View:
    """Return means ± standard errors over seeds, a line per problem and agent, the best in bold.

    Args:
        rows: finished cells of one preset.
    """
    columns = {metric: label for metric, label in COLUMNS.items() if any(metric in row.metrics for row in rows)}
    found = {metric: collect(rows, metric) for metric in columns}
    lines, records = [], []
    for dataset in dict.fromkeys(row.cell.dataset for row in rows):
        best = {metric: best_methods(found[metric].get(dataset, {})) for metric in columns}
        for method, label in LABELS.items():
            own = [row for row in rows if (row.cell.dataset, row.cell.method) == (dataset, method)]
            if not own:
                continue
            scores = {metric: list(found[metric].get(dataset, {}).get(method, {}).values()) for metric in columns}
            texts = [_text(values, method in best[metric]) for metric, values in scores.items()]
            minutes = sum(row.seconds for row in own) / len(own) / 60
            rounds = f"{own[0].metrics['rounds']:,}"
            printed = PUBLISHED.get((dataset, method), "")
            lines.append([dataset, label, *texts, printed, rounds, str(len(own)), f"{minutes:.1f}"])
            records += [_record(dataset, method, metric, values) for metric, values in scores.items() if values]
    return View(
        title="Regret of agents, in per cent of that of uniform choice",
        explanation=(
            "mean ± standard error over seeds; bold: none is significantly better on the seeds they share (paired "
            "t-test, p < .05), or the best of single runs",
        ),
        columns=("problem", "agent", *columns.values(), "published regret, %", "rounds", "seeds", "minutes"),
        lines=name_once(lines),
        records=records,
        keys=2,
    )


def _text(values: Sequence[float], bold: bool) -> str:
    if not values:
        return ""
    text = plus_minus(mean_of(values))
    return f"**{text}**" if bold else text


def _record(dataset: str, method: str, metric: str, values: Sequence[float]) -> dict[str, Any]:
    record = {"dataset": dataset, "method": method, "metric": metric, **as_record(mean_of(values))}
    return record | {"published": PUBLISHED.get((dataset, method)) if metric == "regret" else None}
