# SPDX-License-Identifier: Apache-2.0
"""What is asked of a table: which columns predict which, whether that is regression or classification."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fpovi.tabular import Columns, Encoder, align
from fpovi.tabular.files import TableError, check_column, check_target, infer_task
from fpovi.types import lookup

TASKS = {"auto": "auto", "regression": "regression", "classification": "classification"}
MOSTLY = 0.5  # a column of text with a larger share of numbers than this was meant to hold numbers


class Problem(NamedTuple):
    """Inputs, target and weights of the rows, and the task; ``notes`` say what looks odd but may be meant."""

    inputs: pd.DataFrame
    target: NDArray[Any]
    weight: NDArray[np.float64] | None
    task: str
    notes: tuple[str, ...]


def pose(
    frame: pd.DataFrame,
    targets: Sequence[str],
    *,
    weight: str | None = None,
    drop: Sequence[str] = (),
    task: str = "auto",
) -> Problem:
    """Split a table by the roles of its columns, each checked, and settle the task if it is "auto".

    >>> table = pd.DataFrame({"size": [1.0, 2.0], "id": [7, 8], "price": [3.5, 4.0]})
    >>> problem = pose(table, ["price"], drop=["id"])
    >>> list(problem.inputs), problem.target, problem.task
    (['size'], array([3.5, 4. ]), 'regression')
    """
    lookup(TASKS, task, "task")
    for name in drop:
        check_column(frame, name, "drop")
    if both := sorted(set(drop) & set(targets)):
        raise TableError(f"drop: column {both[0]!r} is the target")
    weights = None if weight is None else row_weights(frame, weight, targets)
    rest = frame.drop(columns=[*drop, *([] if weight is None or weight in drop else [weight])])
    inputs, chosen = check_target(rest, list(targets))
    if len(frame) < 2:
        raise TableError("the table has one row, but at least 2 are needed to learn from")
    for name in chosen:
        if chosen[name].nunique() == 1:
            value = chosen[name].iloc[0]
            raise TableError(f"target: column {name!r} is {value} in every row: there is nothing to learn")
    task = _settle(chosen, task)
    if task == "classification":
        _check_classes(chosen.iloc[:, 0])
    return Problem(inputs, _values(chosen, task), weights, task, tuple(_oddities(inputs)))


def row_weights(frame: pd.DataFrame, name: str, targets: Sequence[str] = ()) -> NDArray[np.float64]:
    """The weights of the rows in a column that is not one of the targets: none negative, some positive."""
    check_column(frame, name, "weight")
    if name in targets:
        raise TableError(f"weight: column {name!r} is the target")
    values = _numbers(frame[name], "weight")
    if (values < 0).any() or not (values > 0).any():
        raise TableError(f"weight: column {name!r} must hold no negative number, and some positive ones")
    return values


def observed(frame: pd.DataFrame, targets: Sequence[str], classes: NDArray[Any] | None = None) -> NDArray[Any]:
    """The targets of a table to be compared with predictions: numbers ``(N, m)``, or places in ``classes`` ``(N,)``."""
    for name in targets:
        check_column(frame, name, "target")
    if classes is None:
        return np.column_stack([_numbers(frame[name], "target") for name in targets])
    column = frame[targets[0]]
    place = pd.Index(classes).get_indexer(pd.Index(column.to_numpy()))
    if (place < 0).any():
        row = int(np.argmax(place < 0))
        known = ", ".join(map(str, classes[:10])) + ", …" * (len(classes) > 10)
        raise TableError(
            f"target: column {targets[0]!r} has the class {column.iloc[row]} at row {row}, but fit saw only {known}"
        )
    return place


def inputs_as_learned(frame: pd.DataFrame, columns: Columns) -> pd.DataFrame:
    """The learned columns of a table in the learned order; where numbers were learned, words are shown and refused."""
    inputs = align(frame, columns)
    for i, kind in enumerate(columns.kinds):
        _refuse_words(inputs.iloc[:, i], kind, columns.label(i))
    return inputs


def _refuse_words(column: pd.Series, kind: str, label: str) -> None:
    if kind == "number" and pd.api.types.is_string_dtype(column) and (stray := _first_word(column)):
        raise TableError(f"{label} has {stray}, where numbers were seen in fit")


def first_fault(chunks: Iterable[pd.DataFrame], encoder: Encoder, unknown: str) -> ValueError | None:
    """Of a table in pieces, what :func:`inputs_as_learned` and then the encoder would say of all its rows at once.

    They go column by column, so that a fault in the last rows of the first column comes before one in the first rows
    of the second.
    """
    columns, faults = encoder.columns, dict[tuple[int, int], ValueError]()
    for chunk in chunks:
        inputs = align(chunk, columns)
        for i, (kind, learned) in enumerate(zip(columns.kinds, encoder.learned, strict=True)):
            column, label = inputs.iloc[:, i], columns.label(i)
            looks = (lambda: _refuse_words(column, kind, label)), (lambda: learned.numbers(column, label, unknown))  # noqa: B023
            for turn, look in enumerate(looks):
                try:
                    look()
                except ValueError as error:
                    faults.setdefault((turn, i), error)
    return faults[min(faults)] if faults else None


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
            parts = _numbers(column, "target") % 1 != 0
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
    numbers = np.column_stack([_numbers(chosen[name], "target") for name in chosen])
    return numbers[:, 0] if numbers.shape[1] == 1 else numbers


def _numbers(column: pd.Series, role: str) -> NDArray[np.float64]:
    """A column of finite numbers, or a ``TableError`` that shows the first value which is none."""
    if pd.api.types.is_datetime64_any_dtype(column) or pd.api.types.is_timedelta64_dtype(column):
        raise TableError(f"{role}: column {column.name!r} holds times, but numbers are needed")
    values = pd.to_numeric(column.astype(object), errors="coerce").to_numpy(np.float64, na_value=np.nan)
    bad = ~np.isfinite(values)
    if bad.any():
        row = int(np.argmax(bad))
        raise TableError(
            f"{role}: column {column.name!r} has {_shown(column.iloc[row])} at row {row}, but finite numbers are needed"
        )
    return values


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, str) else str(value)


def _oddities(inputs: pd.DataFrame) -> list[str]:
    strays = {name: _stray_word(inputs[name]) for name in inputs}
    return [
        f"column {name!r} has {stray} among numbers, and is taken for categories"
        for name, stray in strays.items()
        if stray
    ]


def _stray_word(column: pd.Series) -> str | None:
    """The first word, and its row, of a column of text that holds mostly numbers."""
    if not pd.api.types.is_string_dtype(column):
        return None
    words = pd.to_numeric(column.dropna(), errors="coerce").isna()
    return _first_word(column) if words.mean() < 1 - MOSTLY else None


def _first_word(column: pd.Series) -> str | None:
    """The first value of a column of text that is no number, and its row."""
    present = column.dropna()
    words = present[pd.to_numeric(present, errors="coerce").isna()]
    return f"{words.iloc[0]!r} at row {words.index[0]}" if len(words) else None
