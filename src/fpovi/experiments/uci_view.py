# SPDX-License-Identifier: Apache-2.0
"""The table and the figure of ``uci``, made from its rows, with the paper's numbers beside ours."""

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fpovi.experiments.comparison import SCORES, compare
from fpovi.experiments.published import PUBLISHED, errors_apart
from fpovi.experiments.statistics import Mean, mean_of, plus_minus
from fpovi.experiments.store import Row
from fpovi.experiments.uci import LABELS, PRESETS
from fpovi.experiments.view import View
from fpovi.plots import FUNCTION_SPACE, MUTED, STYLE, WEIGHT_SPACE

REFERENCE = "f-svgd"
COLUMNS = (
    "set", "method", "RMSE", "published", "NLL", "published", "CRPS", "95 % coverage", "NLL less f-SVGD", "s",
)  # fmt: skip
EXPLANATION = (
    "published: as Wang et al. (2019) print it, SVGD largely cited from elsewhere; their ± has n where ours "
    "has n − 1, and their splits are random",
    "same network, prior and epochs, {few:,} or above 1,000 rows {many:,}, for all but the Gaussian process, which "
    "sees at most {rows:,} rows; published are 500 and 3,000 epochs",
)
Record = dict[str, Any]


def view(rows: Sequence[Row]) -> View:
    """A line per set and method, the significantly best of each set in bold."""
    title = "UCI regression: one hidden layer, 20 networks"
    found = compare(rows, LABELS, title, SCORES, REFERENCE)
    records = [_with_published(record) for record in found.records]
    by_place = {(record["dataset"], record["method"], record["metric"]): record for record in records}
    seconds = _mean_seconds(rows)
    preset = PRESETS[rows[0].cell.preset]
    facts = {"few": preset.epochs[0], "many": preset.epochs[1], "rows": preset.gp_rows}
    return View(
        title=title,
        explanation=(*(text.format(**facts) for text in EXPLANATION), *found.explanation),
        columns=COLUMNS,
        lines=_lines(by_place, seconds),
        notes=_agreement(records) if preset.epochs == PRESETS["paper"].epochs else (),
        records=records,
    )


def _lines(by_place: dict[tuple[str, str, str], Record], seconds: dict[tuple[str, str], float]) -> list[list[str]]:
    lines, last = [], ""
    most = {dataset: 0 for dataset, _, _ in by_place}
    for (dataset, _, _), record in by_place.items():
        most[dataset] = max(most[dataset], record["splits"])
    for dataset in most:
        for method in LABELS:
            if (dataset, method, "nll") not in by_place:
                continue
            rmse, nll, crps, coverage = (by_place[dataset, method, metric] for metric in SCORES)
            own = lambda record, most=most[dataset]: _own(record, most)  # noqa: E731
            lines.append([
                dataset if dataset != last else "", LABELS[method], own(rmse), _theirs(rmse), own(nll), _theirs(nll),
                own(crps), own(coverage), _difference(nll, most[dataset]), f"{seconds[dataset, method]:.0f}",
            ])  # fmt: skip
            last = dataset
    return lines


def _with_published(record: Record) -> Record:
    """What the paper prints there, and how far from it we are."""
    theirs = PUBLISHED.get((record["dataset"], record["metric"], record["method"]))
    if theirs is None:
        return record
    ours = _mean(record)
    apart = errors_apart(ours, theirs) if ours.splits > 1 else None
    return {**record, "published": {"mean": theirs.value, "standard_error": theirs.error, "errors_apart": apart}}


def _agreement(records: Sequence[Record]) -> tuple[str, ...]:
    """How many cells of the paper's tables we meet; a single split cannot tell."""
    notes = []
    for space, name in (("f-", "function"), ("w-", "weight")):
        apart = [
            record["published"]["errors_apart"]
            for record in records
            if record["method"].startswith(space) and record.get("published", {}).get("errors_apart") is not None
        ]
        if apart:
            close = sum(distance <= 2 for distance in apart)
            notes.append(f"{name} space: {close} of {len(apart)} published means within two standard errors of ours")
    return tuple(notes)


def _mean(record: Record) -> Mean:
    error = record["standard_error"]
    return Mean(record["mean"], float("nan") if error is None else error, record["splits"])


def _own(record: Record, most: int) -> str:
    text = plus_minus(_mean(record), most)
    return f"**{text}**" if record["best"] else text


def _theirs(record: Record) -> str:
    theirs = record.get("published")
    return "" if theirs is None else f"{theirs['mean']:.2f} ± {theirs['standard_error']:.2f}"


def _difference(record: Record, most: int) -> str:
    return plus_minus(_mean(record["difference"]), most, signed=True) if "difference" in record else ""


def _mean_seconds(rows: Sequence[Row]) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        found.setdefault((row.cell.dataset, row.cell.method), []).append(row.seconds)
    return {place: mean_of(values).value for place, values in found.items()}


def figure(rows: Sequence[Row]) -> Figure:
    """RMSE above NLL, a panel per set with a scale of its own: ours filled, the paper's hollow."""
    records = view(rows).records
    datasets = list(dict.fromkeys(record["dataset"] for record in records))
    methods = [name for name in LABELS if any(record["method"] == name for record in records)]
    with mpl.rc_context(STYLE):
        drawing = Figure(figsize=(1.2 + 1.5 * len(datasets), 1.6 + 0.36 * len(methods)), layout="constrained")
        axes = drawing.subplots(2, len(datasets), sharey=True, squeeze=False)
        for line, metric in zip(axes, ("rmse", "nll"), strict=True):
            for panel, dataset in zip(line, datasets, strict=True):
                here = [r for r in records if r["dataset"] == dataset and r["metric"] == metric]
                _draw(panel, here, methods)
                panel.set_title(dataset if metric == "rmse" else "")
                panel.set_xlabel(SCORES[metric].label)
        axes[0, 0].set_yticks(range(len(methods)), [LABELS[name] for name in methods])
        axes[0, 0].set_ylim(len(methods) - 0.4, -0.6)  # the first on top, and room for its marker
        drawing.supxlabel("filled: measured here; hollow: published by Wang et al. (2019)", fontsize=9)
    return drawing


def _draw(panel: Axes, records: Sequence[Record], methods: Sequence[str]) -> None:
    for record in records:
        place, ours = methods.index(record["method"]), _mean(record)
        colour = {"f-": FUNCTION_SPACE, "w-": WEIGHT_SPACE}.get(record["method"][:2], MUTED)
        panel.errorbar(ours.value, place, xerr=ours.error if ours.splits > 1 else None, fmt="o", color=colour)
        if theirs := record.get("published"):
            hollow: dict[str, Any] = {"fmt": "o", "color": colour, "mfc": "white", "alpha": 0.6}
            panel.errorbar(theirs["mean"], place + 0.3, xerr=theirs["standard_error"], **hollow)
    panel.grid(axis="x", color=MUTED, alpha=0.2)
