# SPDX-License-Identifier: Apache-2.0
"""What experiments show: titled tables, tables that compare methods on data sets, and charts of methods.

A table can be printed, written as Markdown, or returned as JSON records.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fpovi.experiments.harness.statistics import (
    Scores,
    as_record,
    best_methods,
    collect,
    difference_record,
    mean_of,
    plus_minus,
)
from fpovi.experiments.harness.store import Row
from fpovi.plots import MUTED, STYLE


class View(NamedTuple):
    """A table of text with a title.

    Attributes:
        title: stands above the table.
        explanation: lines between title and table.
        columns: the names of columns.
        lines: the text of every line, one string per column.
        bold: the numbers of lines to print in bold.
        notes: lines below the table.
        records: the same results for programs, in JSON types.
        keys: how many columns, from the first, say what a line is about.
    """

    title: str
    explanation: tuple[str, ...]
    columns: tuple[str, ...]
    lines: Sequence[Sequence[str]]
    bold: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()
    records: Sequence[dict[str, Any]] = ()
    keys: int = 1


def markdown(view: View) -> str:
    """Return the table as Markdown, without its title."""
    head = ["| " + " | ".join(view.columns) + " |", "|---" * len(view.columns) + "|"]
    return "\n".join([*head, *("| " + " | ".join(line) + " |" for line in view.lines)])


def name_once(lines: Iterable[Sequence[str]]) -> list[list[str]]:
    """Return the lines of a table, the first text left out where it is that of the line above.

    >>> name_once([["boston", "RMSE"], ["boston", "NLL"]])
    [['boston', 'RMSE'], ['', 'NLL']]
    """
    grouped = groupby(lines, key=itemgetter(0))
    return [[name if number == 0 else "", *rest] for name, group in grouped for number, (_, *rest) in enumerate(group)]


def short(value: float, digits: int) -> str:
    """Return a number with so many decimal places, and without a zero before the point.

    >>> short(-0.057, 2)
    '-.06'
    """
    text = f"{value:.{digits}f}"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


def column_groups(view: View, width: int, gap: int = 3) -> list[list[int]]:
    """Return groups of column numbers, the keys first in each, so that no group is wider than ``width`` characters.

    >>> view = View("", (), ("set", "method", "RMSE", "NLL"), [("boston", "gp", "2.50 ± 0.11", "2.30 ± 0.05")], keys=2)
    >>> column_groups(view, 80), column_groups(view, 40)
    ([[0, 1, 2, 3]], [[0, 1, 2], [0, 1, 3]])
    """
    needs = [
        gap + max(len(text.strip("*")) for text in (name, *(line[i] for line in view.lines)))
        for i, name in enumerate(view.columns)
    ]
    keys = list(range(view.keys))
    found = [keys]
    for column in range(view.keys, len(view.columns)):
        if sum(needs[i] for i in (*found[-1], column)) > width and len(found[-1]) > len(keys):
            found.append(keys)
        found[-1] = [*found[-1], column]
    return found


class Metric(NamedTuple):
    """A metric: its label in tables, and the value it should have where lower is not better."""

    label: str
    target: float | None = None


METRICS = {
    "rmse": Metric("RMSE"),
    "nll": Metric("NLL"),
    "crps": Metric("CRPS"),
    "coverage_95": Metric("95 % coverage", 0.95),
}


def compare(
    rows: Sequence[Row],
    labels: Mapping[str, str],
    title: str,
    scores: Mapping[str, Metric] = METRICS,
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
        for metric, score in scores.items():
            of_methods = {name: found[metric].get(dataset, {}).get(name, {}) for name in methods}
            best = best_methods(of_methods, score.target)
            most = max(map(len, of_methods.values()), default=0)
            if most == 0:
                continue
            texts = (_text(values, most, name in best) for name, values in of_methods.items())
            lines.append([dataset, score.label, *texts])
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
        lines=name_once(lines),
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
    mean = as_record(mean_of(list(of_methods[method].values())))
    record: dict[str, Any] = {"dataset": dataset, "metric": metric, "method": method, **mean, "best": best}
    if reference is not None and method != reference:
        difference = difference_record(of_methods[method], of_methods.get(reference, {}))
        if difference is not None:
            record["difference"] = {"to": reference, **difference}
    return record


def method_chart(
    datasets: Sequence[str], methods: Sequence[str], metrics: Mapping[str, str],
    draw: Callable[[Axes, str, str], None], size: tuple[float, float], note: str,
) -> Figure:  # fmt: skip
    """Draw a row of panels per metric, one per data set, with methods from top to bottom.

    Args:
        datasets: the titles of columns.
        methods: the labels of methods; the first has the height 0.
        metrics: the metric of each row, and its label.
        draw: ``draw(panel, dataset, metric)`` fills a panel.
        size: width and height.
        note: stands below.
    """
    with mpl.rc_context(STYLE):
        drawing = Figure(figsize=size, layout="constrained")
        axes = drawing.subplots(len(metrics), len(datasets), sharey=True, squeeze=False)
        for line, (metric, label) in zip(axes, metrics.items(), strict=True):
            for panel, dataset in zip(line, datasets, strict=True):
                draw(panel, dataset, metric)
                panel.set_xlabel(label)
                panel.grid(axis="x", color=MUTED, alpha=0.2)
        for panel, dataset in zip(axes[0], datasets, strict=True):
            panel.set_title(dataset)
        axes[0, 0].set_yticks(range(len(methods)), methods)
        axes[0, 0].set_ylim(len(methods) - 0.4, -0.6)  # the first on top, and room for its marker
        drawing.supxlabel(note, fontsize=9)
    return drawing
