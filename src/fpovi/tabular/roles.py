# SPDX-License-Identifier: Apache-2.0
"""Split a training table into inputs, targets and weights, and settle the task."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fpovi._lookup import lookup
from fpovi.tabular.files import TableError
from fpovi.tabular.inputs import first_word
from fpovi.tabular.target_columns import check_column, finite_numbers, infer_task, row_weights, split_target

TASKS = {"auto": "auto", "regression": "regression", "classification": "classification"}
MOSTLY = 0.5  # a column of text with a larger share of numbers than this was meant to hold numbers


class TableRoles(NamedTuple):
    """A table split by the roles of its columns.

    Attributes:
        inputs: the columns to predict from.
        target: numbers ``(N,)`` or ``(N, m)``, or classes ``(N,)``.
        weight: one number per row, or None.
        task: "regression" or "classification".
        notes: what looks odd but may be meant, a sentence each.
    """

    inputs: pd.DataFrame
    target: NDArray[Any]
    weight: NDArray[np.float64] | None
    task: str
    notes: tuple[str, ...]


def assign_roles(
    frame: pd.DataFrame,
    targets: Sequence[str],
    *,
    weight: str | None = None,
    drop: Sequence[str] = (),
    task: str = "auto",
) -> TableRoles:
    """Split a table by the roles of its columns, and settle the task if it is "auto".

    Args:
        frame: the table.
        targets: the columns to predict.
        weight: a column of weights of the rows.
        drop: columns to leave out.
        task: "regression", "classification" or "auto", which looks at the targets: see :func:`infer_task`.

    Raises:
        TableError: if a column is absent or cannot have its role.

    >>> table = pd.DataFrame({"size": [1.0, 2.0], "id": [7, 8], "price": [3.5, 4.0]})
    >>> roles = assign_roles(table, ["price"], drop=["id"])
    >>> list(roles.inputs), roles.target, roles.task
    (['size'], array([3.5, 4. ]), 'regression')
    """
    lookup(TASKS, task, "task")
    for name in drop:
        check_column(frame, name, "drop")
    if both := sorted(set(drop) & set(targets)):
        raise TableError(f"drop: column {both[0]!r} is the target")
    weights = None if weight is None else row_weights(frame, weight, targets)
    rest = frame.drop(columns=[*drop, *([] if weight is None or weight in drop else [weight])])
    inputs, chosen = split_target(rest, list(targets))
    if len(frame) < 2:
        raise TableError("the table has one row, but at least 2 are needed to learn from")
    for name in chosen:
        if chosen[name].nunique() == 1:
            value = chosen[name].iloc[0]
            raise TableError(f"target: column {name!r} is {value} in every row: there is nothing to learn")
    task = _settle(chosen, task)
    if task == "classification":
        _check_classes(chosen.iloc[:, 0])
    return TableRoles(inputs, _values(chosen, task), weights, task, tuple(_oddities(inputs)))


def _settle(chosen: pd.DataFrame, task: str) -> str:
    if task == "auto":
        for name in chosen:
            if stray := _stray_word(chosen[name]):
                raise TableError(
                    f"target: column {name!r} has {stray} among numbers: mend it, or say the task is classification"
                )
        return infer_task(chosen.iloc[:, 0] if chosen.shape[1] == 1 else chosen)
    if task == "classification":
        if chosen.shape[1] > 1:
            raise TableError("target: several columns of classes cannot be predicted at once: name one")
        column = chosen.iloc[:, 0]
        if pd.api.types.is_float_dtype(column):
            parts = finite_numbers(column, "target") % 1 != 0
            if parts.any():
                raise TableError(
                    f"target: column {column.name!r} has fractions such as {column[parts].iloc[0]}, which are "
                    "measurements and no classes: the task is regression"
                )
    return task


def _check_classes(column: pd.Series) -> None:
    count = column.nunique()
    if count > max(len(column) / 2, 2):
        raise TableError(
            f"target: column {column.name!r} has {count} different values in {len(column)} rows, too many for classes"
        )


def _values(chosen: pd.DataFrame, task: str) -> NDArray[Any]:
    if task == "classification":
        column = chosen.iloc[:, 0]
        return column.astype(str).to_numpy(object) if pd.api.types.is_string_dtype(column) else np.asarray(column)
    numbers = np.column_stack([finite_numbers(chosen[name], "target") for name in chosen])
    return numbers[:, 0] if numbers.shape[1] == 1 else numbers


def _oddities(inputs: pd.DataFrame) -> list[str]:
    strays = {name: _stray_word(inputs[name]) for name in inputs}
    return [
        f"column {name!r} has {stray} among numbers, and is taken for categories"
        for name, stray in strays.items()
        if stray
    ]


def _stray_word(column: pd.Series) -> str | None:
    """Show the first word, with its row, of a column of text that holds mostly numbers."""
    if not pd.api.types.is_string_dtype(column):
        return None
    words = pd.to_numeric(column.dropna(), errors="coerce").isna()
    return first_word(column) if words.mean() < 1 - MOSTLY else None
