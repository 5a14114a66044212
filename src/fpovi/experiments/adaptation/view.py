# SPDX-License-Identifier: Apache-2.0
"""The table and the figure of ``adaptation``: each method with the target's inputs and without, on the same rows."""

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fpovi.experiments.adaptation.run import LABELS, TARGET
from fpovi.experiments.harness.statistics import (
    LEVEL,
    as_record,
    collect,
    from_record,
    mean_of,
    p_value,
    paired_difference,
    plus_minus,
)
from fpovi.experiments.harness.store import Row
from fpovi.experiments.harness.view import View
from fpovi.plots import FUNCTION_SPACE, INK, MUTED, STYLE

COLUMNS = (
    "set", "method", "NLL", "with inputs", "difference", "CRPS", "with inputs", "difference", "95 % coverage",
    "with inputs", "NLL at home", "difference",
)  # fmt: skip
PAIRED = ("nll", "crps", "coverage_95", "source_nll")
COLOURS = {"f-svgd": FUNCTION_SPACE, "fpovi": INK}
Record = dict[str, Any]


def view(rows: Sequence[Row]) -> View:
    """Return a table with a line per set and method; bold differences are significant improvements (paired t-test)."""
    records = _records(rows)
    lines, last = [], ""
    for record in records:
        nll, crps, coverage, home = (record[metric] for metric in PAIRED)
        lines.append([
            record["dataset"] if record["dataset"] != last else "", LABELS[record["method"]],
            *_texts(nll), *_texts(crps), *_texts(coverage)[:2], _texts(home)[0], _texts(home)[2],
        ])  # fmt: skip
        last = record["dataset"]
    return View(
        title="Another region of the inputs: does it help to know its inputs without targets?",
        explanation=(
            "trained below the quantile .7 of the first principal component of the inputs, asked above it",
            "with inputs: half of the rows there, without their targets, are measurement points; the other half test",
            "at home: on rows like the training rows; lower is better, coverage should be .95",
            "mean ± standard error over divisions, differences on the same ones; bold where the inputs help (paired "
            "t-test, p < .05)",
        ),
        columns=COLUMNS,
        lines=lines,
        notes=_summary(records),
        records=records,
        keys=2,
    )


def _records(rows: Sequence[Row]) -> list[Record]:
    found = {metric: collect(rows, metric) for metric in PAIRED}
    records = []
    for dataset in dict.fromkeys(row.cell.dataset for row in rows):
        for method in LABELS:
            with_inputs = method + TARGET
            if method.endswith(TARGET) or method not in found["nll"][dataset]:
                continue
            record: Record = {"dataset": dataset, "method": method}
            for metric in PAIRED:
                without, given = (found[metric][dataset].get(name, {}) for name in (method, with_inputs))
                record[metric] = {
                    "without": as_record(mean_of(list(without.values()))),
                    **({"with": as_record(mean_of(list(given.values())))} if given else {}),
                }
                if difference := paired_difference(given, without):
                    record[metric]["difference"] = {**as_record(difference), "p": p_value(difference)}
            records.append(record)
    return records


def _texts(score: Record) -> list[str]:
    """Return the score without the inputs, with them, and the difference; empty texts for what is missing."""
    texts = [plus_minus(from_record(score[name])) if name in score else "" for name in ("without", "with")]
    if "difference" not in score:
        return [*texts, ""]
    text = plus_minus(from_record(score["difference"]), signed=True)
    return [*texts, f"**{text}**" if _helps(score["difference"]) else text]


def _helps(difference: Record) -> bool:
    return difference["mean"] < 0 and difference["p"] < LEVEL


def _summary(records: Sequence[Record]) -> tuple[str, ...]:
    """Count the sets on which the inputs help, by method; nothing where no set has two divisions."""
    notes = []
    for method in dict.fromkeys(record["method"] for record in records):
        pairs = [record["nll"]["difference"] for record in records if record["method"] == method
                 and record["nll"].get("difference", {"splits": 0})["splits"] > 1]  # fmt: skip
        if pairs:
            helps = sum(map(_helps, pairs))
            harms = sum(pair["mean"] > 0 and pair["p"] < LEVEL for pair in pairs)
            notes.append(
                f"{LABELS[method]}: the inputs lower the NLL on {helps} of {len(pairs)} sets, raise it on {harms}"
            )
    return tuple(notes)


def figure(rows: Sequence[Row]) -> Figure:
    """Draw NLL above coverage, a panel per set: hollow without the inputs, filled with them."""
    records = _records(rows)
    datasets = list(dict.fromkeys(record["dataset"] for record in records))
    methods = [name for name in LABELS if any(record["method"] == name for record in records)]
    with mpl.rc_context(STYLE):
        drawing = Figure(figsize=(1.4 + 2 * len(datasets), 2 + 0.6 * len(methods)), layout="constrained")
        axes = drawing.subplots(2, len(datasets), sharey=True, squeeze=False)
        for line, (metric, label) in zip(axes, (("nll", "NLL"), ("coverage_95", "95 % coverage")), strict=True):
            for panel, dataset in zip(line, datasets, strict=True):
                for record in (record for record in records if record["dataset"] == dataset):
                    _draw(panel, methods.index(record["method"]), record["method"], record[metric])
                if metric == "coverage_95":
                    panel.axvline(0.95, color=MUTED, linewidth=1, linestyle=":")
                panel.set_title(dataset if metric == "nll" else "")
                panel.set_xlabel(label)
                panel.grid(axis="x", color=MUTED, alpha=0.2)
        axes[0, 0].set_yticks(range(len(methods)), [LABELS[name] for name in methods])
        axes[0, 0].set_ylim(len(methods) - 0.4, -0.6)
        drawing.supxlabel(
            "target region; hollow: without its inputs, filled: with them as measurement points", fontsize=9
        )
    return drawing


def _draw(panel: Axes, place: int, method: str, score: Record) -> None:
    colour = COLOURS.get(method, MUTED)
    ends = {name: from_record(score[name]) for name in ("without", "with") if name in score}
    panel.plot([end.value for end in ends.values()], [place] * len(ends), color=colour, linewidth=1, alpha=0.6)
    for name, end in ends.items():
        hollow = {"mfc": "white"} if name == "without" else {}
        error = end.error if end.splits > 1 else None
        panel.errorbar(end.value, place, xerr=error, fmt="o", color=colour, **hollow)  # type: ignore[arg-type]
