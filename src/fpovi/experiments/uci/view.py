# SPDX-License-Identifier: Apache-2.0
"""The tables on UCI sets, made from rows, with the paper's numbers beside ours."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fpovi.experiments.harness.statistics import Scores, collect, from_record, mean_of, paired_difference, plus_minus
from fpovi.experiments.harness.store import Row
from fpovi.experiments.harness.view import METRICS, View, compare, name_once
from fpovi.experiments.uci.published import Published, errors_apart
from fpovi.experiments.uci.setups import CITED, LABELS, PAPER_PRESET, Preset, Setup

REFERENCE = "f-svgd"
COLUMNS = (
    "set", "method", "RMSE", "published RMSE", "NLL", "published NLL", "CRPS", "95 % coverage",
    "NLL minus f-SVGD's", "s",
)  # fmt: skip
NAMES = {**LABELS, **CITED}
Record = dict[str, Any]
Place = tuple[str, str, str]  # set, method, metric


def view(setup: Setup, rows: Sequence[Row]) -> View:
    """Return a table with a line per set and method, the significantly best of each set in bold."""
    name, rows = _as_one_preset(setup, rows)
    found = compare(rows, LABELS, setup.title, METRICS, REFERENCE)
    records = [_with_published(setup, record) for record in found.records]
    records += _cited(setup, dict.fromkeys(row.cell.dataset for row in rows))
    full_length = setup.presets[name].epochs == setup.presets[PAPER_PRESET].epochs
    return View(
        title=setup.title,
        explanation=(*_explanation(setup, name), *found.explanation),
        columns=COLUMNS,
        lines=_lines({(r["dataset"], r["method"], r["metric"]): r for r in records}, _mean_seconds(rows)),
        notes=(*(_agreement(records) if full_length else ()), *_chosen_candidates(rows)),
        records=records,
        keys=2,
    )


def best_beside_paper(rows: Sequence[Row]) -> View:
    """Return a table of ``fpovi`` of the preset ``best`` beside the paper's f-SVGD, on the splits that both have."""

    def scores_of(method: str, preset: str) -> dict[str, dict[str, Scores]]:
        wanted = (method, preset, "standard")
        own = [row for row in rows if (row.cell.method, row.cell.preset, row.cell.split_kind) == wanted]
        return {metric: {set_: found[method] for set_, found in collect(own, metric).items()} for metric in METRICS}

    ours, theirs = scores_of("fpovi", "best"), scores_of(REFERENCE, PAPER_PRESET)
    lines = []
    for dataset in sorted(ours["nll"].keys() & theirs["nll"].keys()):
        own, other = ours["nll"][dataset], theirs["nll"][dataset]
        shared = [split for split in own if split in other]
        difference = paired_difference(own, other)
        if difference is None:
            continue
        mean = lambda scores: plus_minus(mean_of([scores[dataset][split] for split in shared]))  # noqa: B023, E731
        lines.append([
            dataset, mean(theirs["rmse"]), mean(ours["rmse"]), mean(theirs["crps"]), mean(ours["crps"]),
            mean(theirs["nll"]), mean(ours["nll"]), plus_minus(difference, signed=True),
            f"{sum(own[s] < other[s] for s in shared)} of {len(shared)}", mean(ours["coverage_95"]),
        ])  # fmt: skip
    columns = (
        "set", "f-SVGD RMSE", "fpovi RMSE", "f-SVGD CRPS", "fpovi CRPS", "f-SVGD NLL", "fpovi NLL",
        "NLL minus f-SVGD's", "lower NLL on", "95 % coverage",
    )  # fmt: skip
    return View("fpovi beside the paper's f-SVGD", (), columns, lines)


def _as_one_preset(setup: Setup, rows: Sequence[Row]) -> tuple[str, list[Row]]:
    """Return the preset that is shown, and all rows as of this preset, also those it shares with ``paper``."""
    name = next((row.cell.preset for row in rows if row.cell.preset != PAPER_PRESET), PAPER_PRESET)
    preset = setup.presets[name]
    return name, [
        replace(row, cell=replace(row.cell, preset=name))
        if row.cell.preset == preset.row_preset(row.cell.method, name)
        else row  # rows of other presets: ``compare`` raises an error
        for row in rows
    ]


def _explanation(setup: Setup, name: str) -> tuple[str, ...]:
    preset, paper = setup.presets[name], setup.presets[PAPER_PRESET]
    layers = " and ".join(map(str, setup.hidden))
    wide = "" if setup.hidden == setup.protein_hidden else f" ({setup.protein_hidden[0]} for protein)"
    return (
        f"published: as Wang et al. (2019) print it, {setup.sources}; their ± has n where ours has n − 1, and their "
        f"splits are random ones",
        f"networks of {layers} hidden units{wide}, {_epochs(preset)}"
        + ("" if preset.epochs == paper.epochs else f" (published: {_epochs(paper)})")
        + (", of which held-out rows choose the best" if setup.held_out else "")
        + (f"; the Gaussian process sees at most {preset.gp_rows:,} rows" if "gp" in preset.methods else "")
        + ("; fpovi: the candidate that held-out training rows choose" if "fpovi" in preset.methods else ""),
    )


def _epochs(preset: Preset) -> str:
    few, many = preset.epochs
    return f"{few:,} epochs" if few == many else f"{few:,} epochs, above 1,000 rows {many:,}"


def _lines(by_place: dict[Place, Record], seconds: dict[tuple[str, str], float]) -> list[list[str]]:
    lines = []
    most = {dataset: 0 for dataset, _, _ in by_place}
    for (dataset, _, _), record in by_place.items():
        most[dataset] = max(most[dataset], record.get("splits", 0))
    for dataset in most:
        for method in NAMES:
            of_method = {metric: by_place.get((dataset, method, metric), {}) for metric in METRICS}
            if not any(of_method.values()):
                continue
            own = {metric: _ours(record, most[dataset]) for metric, record in of_method.items()}
            lines.append([
                dataset, NAMES[method],
                own["rmse"], _theirs(of_method["rmse"]), own["nll"], _theirs(of_method["nll"]),
                own["crps"], own["coverage_95"], _difference(of_method["nll"], most[dataset]),
                f"{seconds[dataset, method]:.0f}" if (dataset, method) in seconds else "",
            ])  # fmt: skip
    return name_once(lines)


def _with_published(setup: Setup, record: Record) -> Record:
    """Return the record with what the paper prints in its place, and how far from that we are."""
    theirs = setup.published.get((record["dataset"], record["metric"], record["method"]))
    if theirs is None:
        return record
    ours = from_record(record)
    apart = errors_apart(ours, theirs) if ours.splits > 1 else None
    return {**record, "published": {**_printed(theirs), "errors_apart": apart}}


def _cited(setup: Setup, datasets: Sequence[str] | dict[str, None]) -> list[Record]:
    """Return records of what the paper prints of methods that we do not run."""
    return [
        {"dataset": dataset, "metric": metric, "method": method, "published": _printed(theirs)}
        for (dataset, metric, method), theirs in setup.published.items()
        if method in CITED and dataset in datasets
    ]


def _printed(theirs: Published) -> dict[str, float]:
    return {"mean": theirs.value, "standard_error": theirs.error}


def _agreement(records: Sequence[Record]) -> tuple[str, ...]:
    """Count the cells of the paper's tables that we reproduce; a single split cannot tell."""
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


def _chosen_candidates(rows: Sequence[Row]) -> tuple[str, ...]:
    """Count which candidates ``fpovi`` chose, and give the range of its spread factors."""
    chosen: dict[str, Counter[str]] = {}
    factors = [row.metrics["stretch"] for row in rows if "stretch" in row.metrics]
    for row in rows:
        if "way" in row.metrics:
            chosen.setdefault(row.cell.dataset, Counter())[f"{row.metrics['way']} ({row.metrics['inputs']})"] += 1
    counts = {dataset: ", ".join(f"{name} {n}" for name, n in names.most_common()) for dataset, names in chosen.items()}
    notes = []
    if counts:
        notes.append(
            "candidates chosen (and inputs): " + "; ".join(f"{dataset} {text}" for dataset, text in counts.items())
        )
    if factors:
        notes.append(f"spread multiplied by {min(factors):.2f} to {max(factors):.2f}")
    return tuple(notes)


def _ours(record: Record, most: int) -> str:
    if "mean" not in record:
        return ""
    text = plus_minus(from_record(record), most)
    return f"**{text}**" if record["best"] else text


def _theirs(record: Record) -> str:
    theirs = record.get("published")
    return "" if theirs is None else f"{theirs['mean']:.2f} ± {theirs['standard_error']:.2f}"


def _difference(record: Record, most: int) -> str:
    return plus_minus(from_record(record["difference"]), most, signed=True) if "difference" in record else ""


def _mean_seconds(rows: Sequence[Row]) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        found.setdefault((row.cell.dataset, row.cell.method), []).append(row.seconds)
    return {place: mean_of(values).value for place, values in found.items()}
