# SPDX-License-Identifier: Apache-2.0
"""A table of classifiers of images, a line for each method, with published errors beside ours."""

from collections.abc import Mapping, Sequence
from typing import Any

from fpovi.experiments.harness.statistics import as_record, best_methods, collect, mean_of, plus_minus
from fpovi.experiments.harness.store import Row
from fpovi.experiments.harness.view import View, name_once

# metric -> how columns call it, what it is multiplied by, whether more is better
METRICS: dict[str, tuple[str, float, bool]] = {
    "error": ("error, %", 100.0, False),
    "nll": ("NLL", 1.0, False),
    "ece": ("ECE", 1.0, False),
    "single_error": ("error of one, %", 100.0, False),
    "ood_entropy": ("AUROC, entropy", 1.0, True),
    "ood_information": ("AUROC, mutual information", 1.0, True),
}


def class_table(
    rows: Sequence[Row], labels: Mapping[str, str], title: str, published: Mapping[tuple[str, str], float]
) -> View:
    """Return means ± standard errors over seeds, the best of each column in bold.

    Args:
        rows: finished cells of one experiment and preset.
        labels: the methods to show, in this order, and their names in the table.
        title: stands above the table.
        published: errors in per cent that others print, by data set and method.
    """
    found = {metric: collect(rows, metric) for metric in METRICS}
    lines, records = [], []
    for dataset in dict.fromkeys(row.cell.dataset for row in rows):
        best = {name: _best(found[name].get(dataset, {}), more) for name, (_, _, more) in METRICS.items()}
        for method, label in labels.items():
            scores = {name: found[name].get(dataset, {}).get(method, {}) for name in METRICS}
            if not any(scores.values()):
                continue
            own = [row for row in rows if (row.cell.dataset, row.cell.method) == (dataset, method)]
            texts = [_text(scores[name].values(), factor, method in best[name])
                     for name, (_, factor, _) in METRICS.items()]  # fmt: skip
            printed = published.get((dataset, method))
            minutes = sum(row.seconds for row in own) / len(own) / 60
            lines.append([dataset, label, *texts, "" if printed is None else f"{printed:g}", f"{minutes:.1f}"])
            records += [
                {"dataset": dataset, "method": method, "metric": name, **as_record(mean_of(list(values.values())))}
                for name, values in scores.items()
                if values
            ]
    return View(
        title=title,
        explanation=(
            "mean ± standard error over seeds; bold: none is significantly better on the seeds they share (paired "
            "t-test, p < .05)",
        ),
        columns=(
            "set",
            "method",
            *(label for label, _, _ in METRICS.values()),
            "published error, %",
            "minutes",
        ),
        lines=name_once(lines),
        records=records,
        keys=2,
    )


def _best(scores: Mapping[str, Mapping[Any, float]], more: bool) -> set[str]:
    sign = -1 if more else 1
    return best_methods({name: {s: sign * value for s, value in each.items()} for name, each in scores.items()})


def _text(values: Any, factor: float, bold: bool) -> str:
    values = [factor * value for value in values]
    if not values:
        return ""
    text = plus_minus(mean_of(values))
    return f"**{text}**" if bold else text
