# SPDX-License-Identifier: Apache-2.0
"""Scale many columns of one quantity, such as the pixels of flat images, as one.

On a scale of its own, a pixel that hardly ever varies is huge where it does: on 10,000 flat images of digits that cost
a quarter more errors.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from fpovi.tabular.measured import Measured
from fpovi.tabular.unit import Span
from fpovi.tabular.weights import moments, tally

MANY = 50  # columns, below which each has its own scale
SAME_END, MOSTLY = 0.05, 0.5  # of the whole range: how near the ends of a column's are; and the share of such columns


def share_a_range(low: Float[np.ndarray, " d"], high: Float[np.ndarray, " d"], varies: Bool[np.ndarray, " d"]) -> bool:
    """Tell whether columns are many, and mostly have the same smallest and largest value.

    Args:
        low, high: the smallest and largest value of each column.
        varies: of which columns that is asked.
    """
    ends = SAME_END * high.max() - SAME_END * low.min()  # the range itself may overflow
    alike = (low <= low.min() + ends) & (high >= high.max() - ends)
    return len(low) >= MANY and bool(varies.any()) and float(np.mean(alike[varies])) >= MOSTLY


def in_shared_unit(
    frame: pd.DataFrame, learned: Sequence[Any], weight: Float[np.ndarray, " N"]
) -> tuple[list[Any], Span | None]:
    """Return the learned columns, with one shift and scale if they are many numbers that mostly share a range.

    What comes second is that range, None for columns with units of their own.

    Args:
        frame: the rows they were learned from.
        learned: what was learned of each column.
        weight: one positive weight per row.

    >>> frame = pd.DataFrame(np.eye(50))
    >>> columns = [Measured.learn(frame[i], "number", np.ones(50), "") for i in frame]
    >>> {round(column.scale, 2) for column in in_shared_unit(frame, columns, np.ones(50))[0]}
    {0.14}
    """
    numbers = [column for column in learned if isinstance(column, Measured) and column.kind == "number"]
    if len(numbers) < len(learned) or any(column.missing for column in numbers):
        return list(learned), None
    values = [column.numbers(frame.iloc[:, i], "", "") for i, column in enumerate(numbers)]
    low, high = (np.asarray([end(of) for of in values]) for end in (np.min, np.max))
    if not share_a_range(low, high, np.asarray([column.scale is not None for column in numbers])):
        return list(learned), None
    each = [moments(*tally(of, weight)) for of in values]
    means, variances = np.asarray([of.mean for of in each]), np.asarray([of.std**2 * of.varies for of in each])
    shift, scale = float(means.mean()), float(np.sqrt(variances.mean() + means.var()))
    shared = [
        replace(column, squash=None, shift=shift, scale=None if column.scale is None else scale) for column in numbers
    ]
    return shared, Span.of(np.stack(values))
