# SPDX-License-Identifier: Apache-2.0
"""Tables of classifiers of images, a line for each method, and the curves of what attacks and shifts do to them."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from fpovi.experiments.harness.statistics import as_record, best_methods, collect, mean_of, plus_minus
from fpovi.experiments.harness.store import Row
from fpovi.experiments.harness.view import View, name_once
from fpovi.plots import FUNCTION_SPACE, INK, MUTED, STYLE, WEIGHT_SPACE


class Column(NamedTuple):
    """A metric as a column: its label, what it is multiplied by, and whether more is better."""

    label: str
    factor: float = 1.0
    more: bool = False


CLEAN = {"error": Column("error, %", 100.0), "nll": Column("NLL"), "ece": Column("ECE")}
ATTACKS = {
    "own": "gradient of the mean probability",
    "mean_log": "gradient of the mean log-probability",
    "transfer": "transfer from another ensemble",
}
COLOURS = {"f-": FUNCTION_SPACE, "w-": WEIGHT_SPACE}
DASHES = ("-", "--", ":", "-.")
CURVE_LABELS = {"accuracy": "accuracy", "nll": "NLL", "ece": "ECE"}
FAMILY = (FUNCTION_SPACE, WEIGHT_SPACE, MUTED, INK)


def method_table(
    rows: Sequence[Row],
    labels: Mapping[str, str],
    title: str,
    columns: Mapping[str, Column],
    published: Mapping[str, Mapping[tuple[str, str], float]] | None = None,
    notes: tuple[str, ...] = (),
) -> View:
    """Return means ± standard errors over seeds, the best of each column in bold.

    Args:
        rows: finished cells of one experiment and preset.
        labels: the methods to show, in this order, and their names in the table.
        title: stands above the table.
        columns: the metrics to show.
        published: numbers that others print, by column, and then by data set and method.
        notes: lines below the table.
    """
    found = {metric: collect(rows, metric) for metric in columns}
    lines, records = [], []
    for dataset in dict.fromkeys(row.cell.dataset for row in rows):
        best = {name: _best(found[name].get(dataset, {}), column.more) for name, column in columns.items()}
        for method, label in labels.items():
            own = [row for row in rows if (row.cell.dataset, row.cell.method) == (dataset, method)]
            if not own:
                continue
            scores = {name: list(found[name].get(dataset, {}).get(method, {}).values()) for name in columns}
            texts = [_text(scores[name], column.factor, method in best[name]) for name, column in columns.items()]
            printed = [str(each.get((dataset, method), "")) for each in (published or {}).values()]
            minutes = sum(row.seconds for row in own) / len(own) / 60
            lines.append([dataset, label, *texts, *printed, f"{minutes:.1f}"])
            records += [
                {"dataset": dataset, "method": method, "metric": name, **as_record(mean_of(values))}
                for name, values in scores.items()
                if values
            ]
    return View(
        title=title,
        explanation=(
            "mean ± standard error over seeds; bold: none is significantly better on the seeds they share (paired "
            "t-test, p < .05), or the best of single runs",
        ),
        columns=(
            "set",
            "method",
            *(column.label for column in columns.values()),
            *(published or {}),
            "minutes",
        ),
        lines=name_once(lines),
        notes=notes,
        records=records,
        keys=2,
    )


def attack_curves(rows: Sequence[Row], labels: Mapping[str, str]) -> Figure:
    """Draw accuracy and mean entropy against steps of each attack, a line per method.

    Args:
        rows: finished cells of one data set and preset, with ``curves`` by attack.
        labels: the methods to show, in this order, and their names.
    """
    methods = [name for name in labels if any(row.cell.method == name for row in rows)]
    with mpl.rc_context(STYLE):
        drawing = Figure(figsize=(4.2 * len(ATTACKS), 6.4), layout="constrained")
        axes = drawing.subplots(2, len(ATTACKS), sharex=True, sharey="row", squeeze=False)
        for column, (attack, title) in enumerate(ATTACKS.items()):
            for line, measure in enumerate(("accuracy", "entropy")):
                panel = axes[line, column]
                for number, method in enumerate(methods):
                    curves = [row.metrics["curves"][attack][measure] for row in rows if row.cell.method == method]
                    panel.plot(
                        np.mean(curves, axis=0), DASHES[number % len(DASHES)], label=labels[method], linewidth=1.8,
                        color=_colour(method),
                    )  # fmt: skip
                panel.grid(axis="y", color=MUTED, alpha=0.2)
            axes[0, column].set_title(title)
            axes[1, column].set_xlabel("steps of .01 towards 0")
        axes[0, 0].set(ylabel="accuracy", ylim=(0, 1))
        axes[1, 0].set(ylabel="entropy, nats", ylim=(0, None))
        if methods:
            axes[0, -1].legend(fontsize=9)
    return drawing


def radius_figure(
    rows: Sequence[Row],
    labels: Mapping[str, str],
    radii: Sequence[float],
    points: Mapping[str, str],
    with_curves: Collection[str],
) -> Figure:
    """Draw accuracy against the radius of a step along each gradient, and below a point per method for some metrics.

    Args:
        rows: finished cells of one data set and preset, with ``curves`` by attack.
        labels: the methods to show, in this order, and their names.
        radii: of the steps, in any unit.
        points: metrics and their labels, as many as there are attacks.
        with_curves: the methods that have curves, no more than can be told apart.
    """
    methods = [name for name in labels if any(row.cell.method == name for row in rows)]
    of_method = {name: [row.metrics for row in rows if row.cell.method == name] for name in methods}
    with mpl.rc_context(STYLE):
        drawing = Figure(figsize=(4.2 * len(ATTACKS), 4 + 0.35 * len(methods)), layout="constrained")
        axes = drawing.subplots(2, len(ATTACKS), sharey="row", squeeze=False)
        for column, (attack, title) in enumerate(ATTACKS.items()):
            panel = axes[0, column]
            for number, name in enumerate(name for name in methods if name in with_curves):
                accuracy = np.mean([metrics["curves"][attack]["accuracy"] for metrics in of_method[name]], axis=0)
                panel.plot(accuracy, DASHES[number % len(DASHES)], color=_colour(name), label=labels[name])
            panel.set(title=title, xlabel="radius", xticks=range(len(radii)), xticklabels=[f"{r:g}" for r in radii])
        for column, (metric, title) in enumerate(points.items()):
            panel = axes[1, column]
            for height, (name, found) in enumerate(of_method.items()):
                mean = mean_of([metrics[metric] for metrics in found])
                error = np.nan_to_num(mean.error)
                panel.errorbar(mean.value, height, xerr=error, fmt="o", color=_colour(name))
            panel.set(xlabel=title, ylim=(len(methods) - 0.4, -0.6))
        for panel in axes.flat:
            panel.grid(axis="both", color=MUTED, alpha=0.2)
        axes[0, 0].set(ylabel="accuracy", ylim=(0, 1))
        axes[1, 0].set_yticks(range(len(methods)), [labels[name] for name in methods])
        if methods:
            axes[0, -1].legend(fontsize=8)
    return drawing


def _colour(method: str) -> str:
    return COLOURS.get(method[:2], MUTED)


def shift_curves(rows: Sequence[Row], families: Sequence[Mapping[str, str]]) -> Figure:
    """Draw accuracy, NLL and ECE against the severity of each shift: a column per data set and shift.

    Args:
        rows: finished cells of one preset, with ``curves`` by shift.
        families: the methods of each kind of network and their names. Methods have colours, in the order of a family;
            networks have dashes, in the order of families.
    """
    datasets = dict.fromkeys(row.cell.dataset for row in rows)
    panels = [(dataset, shift) for dataset in datasets for shift in rows[0].metrics["curves"]]
    with mpl.rc_context(STYLE):
        drawing = Figure(figsize=(2.1 * len(panels), 6.4), layout="constrained")
        axes = drawing.subplots(len(CURVE_LABELS), len(panels), sharex=True, sharey="row", squeeze=False)
        for column, (dataset, shift) in enumerate(panels):
            for line, score in enumerate(CURVE_LABELS):
                panel = axes[line, column]
                for dash, methods in zip(DASHES, families, strict=False):
                    for colour, (method, label) in zip(FAMILY, methods.items(), strict=False):
                        curves = [
                            row.metrics["curves"][shift][score]
                            for row in rows
                            if (row.cell.dataset, row.cell.method) == (dataset, method)
                        ]
                        if curves:
                            panel.plot(np.mean(curves, axis=0), dash, color=colour, label=label, linewidth=1.6)
                panel.grid(axis="y", color=MUTED, alpha=0.2)
            axes[0, column].set_title(f"{dataset}:\n{shift}")
            axes[-1, column].set(xlabel="severity", xticks=range(6))
        for line, label in enumerate(CURVE_LABELS.values()):
            axes[line, 0].set(ylabel=label, ylim=(0, None))
        drawing.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=9)
    return drawing


def _best(scores: Mapping[str, Mapping[Any, float]], more: bool) -> set[str]:
    sign = -1 if more else 1
    return best_methods({name: {s: sign * value for s, value in each.items()} for name, each in scores.items()})


def _text(values: Sequence[float], factor: float, bold: bool) -> str:
    if not values:
        return ""
    text = plus_minus(mean_of([factor * value for value in values]))
    return f"**{text}**" if bold else text
