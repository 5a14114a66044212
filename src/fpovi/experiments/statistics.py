# SPDX-License-Identifier: Apache-2.0
"""What rows say together: means over splits with standard errors, and methods compared split by split.

Two methods that answer for the same splits share what makes a split easy or hard. Their difference, split by split, is
free of that: its standard error is often many times smaller than the two of the means.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from fpovi.experiments.store import Row

LEVEL = 0.05
ENOUGH = 5  # splits, to be the best where others have more
Split = tuple[str, int, int]  # which kind of splits, which of them, and the seed of the method
Scores = Mapping[Split, float]


class Mean(NamedTuple):
    """A mean over so many splits and its standard error, NaN where there is but one."""

    value: float
    error: float
    splits: int


def mean_of(values: Sequence[float]) -> Mean:
    r"""Mean and standard error :math:`s/\sqrt n`, with s² the unbiased variance.

    The paper divides by n in s², which makes its errors smaller by √(1 − 1/n): 2.5 % at 20 splits.

    >>> mean_of([1.0, 2.0, 6.0])
    Mean(value=3.0, error=1.527..., splits=3)
    """
    if len(values) == 0:
        raise ValueError("values is empty, but at least one is needed")
    error = float(stats.sem(values)) if len(values) > 1 else math.nan
    return Mean(float(np.mean(values)), error, len(values))


def as_record(mean: Mean) -> dict[str, Any]:
    """For JSON, which has no NaN."""
    return {"mean": mean.value, "standard_error": mean.error if mean.splits > 1 else None, "splits": mean.splits}


def from_record(record: Mapping[str, Any]) -> Mean:
    """What :func:`as_record` was given.

    >>> from_record(as_record(Mean(2.0, 0.5, 3)))
    Mean(value=2.0, error=0.5, splits=3)
    """
    error = record["standard_error"]
    return Mean(record["mean"], math.nan if error is None else error, record["splits"])


def paired_difference(scores: Scores, reference: Scores) -> Mean | None:
    """``scores`` less ``reference`` on the splits that both have, or None where there are none."""
    both = [split for split in scores if split in reference]
    return mean_of([scores[split] - reference[split] for split in both]) if both else None


def p_value(difference: Mean) -> float:
    """Of the paired t-test, two-sided: how likely so large a difference is if there is none. 1 from a single split.

    >>> p_value(Mean(0.5, 0.25, 20))
    0.06...
    """
    if difference.value == 0 or difference.splits < 2:
        return 1.0
    if difference.error == 0:
        return 0.0
    return float(2 * stats.t.sf(abs(difference.value) / difference.error, difference.splits - 1))


def collect(rows: Sequence[Row], metric: str) -> dict[str, dict[str, dict[Split, float]]]:
    """``metric`` by data set, method and split; rows without it are left out, and the order of rows is kept."""
    found: dict[str, dict[str, dict[Split, float]]] = {}
    for row in rows:
        if metric in row.metrics:
            cell = row.cell
            of_method = found.setdefault(cell.dataset, {}).setdefault(cell.method, {})
            of_method[cell.draw, cell.split, cell.seed] = float(row.metrics[metric])
    return found


def best_methods(scores: Mapping[str, Scores], target: float | None = None, level: float = LEVEL) -> set[str]:
    """The best, and all that are not significantly worse, as the paper prints them in bold.

    The best has the lowest mean (with a ``target``: the lowest mean distance from it). Where some have fewer splits,
    which may be easy ones, each is compared with one that has most on those they share, and one with fewer than five
    of these is never the best. Another is worse if its paired t-test against the best says so at ``level``. One that
    is not finite everywhere, or shares fewer than two splits with the best, is never in bold beside it.
    """
    losses = {
        name: {split: value if target is None else abs(value - target) for split, value in found.items()}
        for name, found in scores.items()
        if found and all(map(math.isfinite, found.values()))
    }
    if not losses:
        return set()
    longest = max(losses.values(), key=len)
    to_longest = {name: paired_difference(found, longest) for name, found in losses.items()}
    ahead = {name: d.value for name, d in to_longest.items() if d is not None and d.splits >= min(ENOUGH, len(longest))}
    best = min(ahead, key=lambda name: ahead[name])

    def holds(name: str) -> bool:
        difference = paired_difference(losses[name], losses[best])
        if difference is None or difference.splits < 2:
            return False
        return difference.value <= 0 or p_value(difference) >= level

    return {best} | {name for name in losses if holds(name)}


def plus_minus(mean: Mean, expected: int | None = None, signed: bool = False) -> str:
    """As text, with the error to two digits or the value to four; with how many splits where fewer than ``expected``.

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
    digits = min(max(1 - math.floor(math.log10(mean.error)), 0), _four_digits(mean.value))
    return f"{mean.value:{sign}.{digits}f} ± {mean.error:.{digits}f}{few}"


def _four_digits(value: float) -> int:
    """How many decimal places show four digits of a value; of none or nearly none, eight places."""
    return 8 if abs(value) < 1e-5 else max(3 - math.floor(math.log10(abs(value))), 0)
