# SPDX-License-Identifier: Apache-2.0
"""Means over splits with standard errors, and paired tests between methods.

Two methods on the same splits share what makes a split easy or hard. Their difference on each split is free of that, so
its standard error is often many times smaller than those of the two means.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from fpovi.experiments.harness.store import Row

LEVEL = 0.05
ENOUGH_SPLITS = 5  # shared splits that a claim of being better needs, where a method has as many
Split = tuple[str, int, int]  # kind of split, its number, and the seed of the method
Scores = Mapping[Split, float]


class Mean(NamedTuple):
    """A mean, its standard error (NaN from a single split), and the number of splits."""

    value: float
    error: float
    splits: int


def mean_of(values: Sequence[float]) -> Mean:
    r"""Return the mean and its standard error :math:`s/\sqrt n`, with s² the unbiased variance.

    The paper divides by n in s², which makes its errors smaller by √(1 − 1/n): 2.5 % at 20 splits.

    >>> mean_of([1.0, 2.0, 6.0])
    Mean(value=3.0, error=1.527..., splits=3)
    """
    if len(values) == 0:
        raise ValueError("values is empty, but at least one is needed")
    error = float(stats.sem(values)) if len(values) > 1 and np.isfinite(values).all() else math.nan
    return Mean(float(np.mean(values)), error, len(values))


def as_record(mean: Mean) -> dict[str, Any]:
    """Return the mean as a record for JSON, where a standard error of NaN is None."""
    return {
        "mean": mean.value, "standard_error": mean.error if math.isfinite(mean.error) else None, "splits": mean.splits,
    }  # fmt: skip


def from_record(record: Mapping[str, Any]) -> Mean:
    """Return the mean that :func:`as_record` was given.

    >>> from_record(as_record(Mean(2.0, 0.5, 3)))
    Mean(value=2.0, error=0.5, splits=3)
    """
    error = record["standard_error"]
    return Mean(record["mean"], math.nan if error is None else error, record["splits"])


def paired_difference(scores: Scores, reference: Scores) -> Mean | None:
    """Return the mean of ``scores`` less ``reference`` over the splits that both have, or None where there are none."""
    both = [split for split in scores if split in reference]
    return mean_of([scores[split] - reference[split] for split in both]) if both else None


def p_value(difference: Mean) -> float:
    """Return the two-sided p-value of the paired t-test, 1 for a single split.

    >>> p_value(Mean(0.5, 0.25, 20))
    0.06...
    """
    if difference.value == 0 or difference.splits < 2:
        return 1.0
    if difference.error == 0:
        return 0.0
    return float(2 * stats.t.sf(abs(difference.value) / difference.error, difference.splits - 1))


def difference_record(scores: Scores, reference: Scores) -> dict[str, Any] | None:
    """Return the :func:`paired_difference` and its p-value as a record for JSON, or None where no split is shared."""
    difference = paired_difference(scores, reference)
    return None if difference is None else {**as_record(difference), "p": p_value(difference)}


def collect(rows: Sequence[Row], metric: str) -> dict[str, dict[str, dict[Split, float]]]:
    """Return ``metric`` by data set, method and split, in the order of rows; rows without it are left out."""
    found: dict[str, dict[str, dict[Split, float]]] = {}
    for row in rows:
        if metric in row.metrics:
            cell = row.cell
            of_method = found.setdefault(cell.dataset, {}).setdefault(cell.method, {})
            of_method[cell.split_kind, cell.split, cell.seed] = float(row.metrics[metric])
    return found


def best_methods(scores: Mapping[str, Scores], target: float | None = None, level: float = LEVEL) -> set[str]:
    """Return the methods than which none is significantly better: those that the paper prints in bold.

    A method is better than another if its mean over the splits that both have is lower (with a ``target``: nearer to
    it) and the paired t-test is significant at ``level``. Where a method has five splits or more, fewer than five
    shared ones decide nothing. Of single splits the lowest is the best. A method is never among the best if it has no
    rival, if one of its scores is not finite, or if it has one split and others have more.

    Args:
        scores: the scores of every method by split.
        target: the value that scores should have, if lower is not better.
        level: the p-value below which a difference is significant.
    """
    losses = {
        name: {split: value if target is None else abs(value - target) for split, value in found.items()}
        for name, found in scores.items()
        if found and all(map(math.isfinite, found.values()))
    }
    if sum(map(bool, scores.values())) < 2 or not losses:
        return set()
    most = max(map(len, losses.values()))
    if most == 1:
        return {min(losses, key=lambda name: sum(losses[name].values()))}

    def beats(other: str, name: str) -> bool:
        difference = paired_difference(losses[other], losses[name])
        if difference is None or difference.splits < min(ENOUGH_SPLITS, most):
            return False
        return difference.value < 0 and p_value(difference) < level

    return {name for name in losses if len(losses[name]) > 1 and not any(beats(other, name) for other in losses)}


def plus_minus(mean: Mean, expected: int | None = None, signed: bool = False) -> str:
    """Return a mean as text, its error with two digits, or one where the value has four.

    Args:
        mean: the mean.
        expected: how many splits there should be; where there are fewer, their number follows in brackets.
        signed: whether positive means have a sign.

    >>> plus_minus(Mean(2.5371, 0.1123, 20))
    '2.54 ± 0.11'
    >>> plus_minus(Mean(2.5371, 0.0011, 20))
    '2.537 ± 0.001'
    >>> plus_minus(Mean(-0.0321, 0.0015, 5), expected=20, signed=True)
    '-0.0321 ± 0.0015 (5)'
    >>> plus_minus(Mean(1.0, 1e-17, 5))
    '1'
    """
    sign = "+" if signed else ""
    few = f" ({mean.splits})" if expected is not None and mean.splits < expected else ""
    if not math.isfinite(mean.error) or mean.error <= 1e-9 * abs(mean.value):  # rounding is no error
        return f"{mean.value:{sign}.3g}{few}"
    one, two = (max(digit - math.floor(math.log10(mean.error)), 0) for digit in (0, 1))
    digits = min(max(one, _four_digits(mean.value)), two, 8)
    return f"{mean.value:{sign}.{digits}f} ± {mean.error:.{digits}f}{few}"


def _four_digits(value: float) -> int:
    """Return how many decimal places show four digits of a value, at most eight."""
    return 8 if abs(value) < 1e-5 else max(3 - math.floor(math.log10(abs(value))), 0)
