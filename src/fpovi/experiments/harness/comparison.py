# SPDX-License-Identifier: Apache-2.0
"""Tables that compare methods on data sets."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fpovi.experiments.harness.statistics import (
    Scores,
    as_record,
    best_methods,
    collect,
    mean_of,
    p_value,
    paired_difference,
    plus_minus,
)
from fpovi.experiments.harness.store import Row
from fpovi.experiments.harness.view import View


class Score(NamedTuple):
    """A metric: its label in tables, and the value it should have where lower is not better."""

    label: str
    target: float | None = None


SCORES = {
    "rmse": Score("RMSE"),
    "nll": Score("NLL"),
    "crps": Score("CRPS"),
    "coverage_95": Score("95 % coverage", 0.95),
}


def compare(
    rows: Sequence[Row],
    labels: Mapping[str, str],
    title: str,
    scores: Mapping[str, Score] = SCORES,
    reference: str | None = None,
) -> View:
    """Return a table of means ± standard errors over splits, a line per data set and score, the best in bold.

    Args:
        rows: finished cells of one experiment and preset.
        labels: the methods to show, in this order, and their names in the table.
        title: stands above the table.
        scores: the metrics to show, and their names in the table.
        reference: a method; the records of all others have their paired difference to it on the splits they share.

    Raises:
        ValueError: rows of several experiments or presets are mixed, or ``reference`` is not in ``labels``.
    """
    kinds = {(row.cell.experiment, row.cell.preset) for row in rows}
    if len(kinds) > 1:
        raise ValueError(f"rows of {sorted(kinds)} are mixed, but a table is of one experiment and preset")
    if reference is not None and reference not in labels:
        raise ValueError(f"reference={reference!r} is not among the methods {', '.join(labels)}")
    methods = [name for name in labels if any(row.cell.method == name for row in rows)]
    found = {metric: collect(rows, metric) for metric in scores}
    lines: list[list[str]] = []
    records: list[dict[str, Any]] = []
    for dataset in dict.fromkeys(row.cell.dataset for row in rows):
        first = dataset
        for metric, score in scores.items():
            of_methods = {name: found[metric].get(dataset, {}).get(name, {}) for name in methods}
            best = best_methods(of_methods, score.target)
            most = max(map(len, of_methods.values()), default=0)
            if most == 0:
                continue
            lines.append(
                [first, score.label, *(_text(values, most, name in best) for name, values in of_methods.items())]
            )
            first = ""
            records += [
                _record(dataset, metric, name, of_methods, name in best, reference)
                for name in methods
                if of_methods[name]
            ]
    return View(
        title=title,
        explanation=(
            "mean ± standard error over splits, (n) where there are fewer; lower is better, coverage should be .95; "
            "bold: none is significantly better on the splits they share (paired t-test, p < .05)",
        ),
        columns=("set", "score", *(labels[name] for name in methods)),
        lines=lines,
        records=records,
        keys=2,
    )


def _text(values: Scores, most: int, bold: bool) -> str:
    if not values:
        return ""
    text = plus_minus(mean_of(list(values.values())), most)
    return f"**{text}**" if bold else text


def _record(
    dataset: str, metric: str, method: str, of_methods: Mapping[str, Scores], best: bool, reference: str | None
) -> dict[str, Any]:
    mean = mean_of(list(of_methods[method].values()))
    record: dict[str, Any] = {
        "dataset": dataset, "metric": metric, "method": method, **as_record(mean), "best": best,
    }  # fmt: skip
    if reference is not None and method != reference:
        difference = paired_difference(of_methods[method], of_methods.get(reference, {}))
        if difference is not None:
            record["difference"] = {"to": reference, **as_record(difference), "p": p_value(difference)}
    return record
