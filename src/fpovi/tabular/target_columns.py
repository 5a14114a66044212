# SPDX-License-Identifier: Apache-2.0
"""Read targets and weights from columns of a table, and tell regression from classification."""

import difflib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fpovi.tabular.files import TableError

MAX_CLASSES = 10  # whole numbers with more distinct values than this are taken for counts, not classes


def split_target(frame: pd.DataFrame, column: str | Sequence[str]) -> tuple[pd.DataFrame, pd.Series | pd.DataFrame]:
    """Split a table into inputs and targets, or raise a ``TableError`` if it lacks one of them or values of them.

    Args:
        frame: the table.
        column: the name of the target, or a list of names.

    Returns:
        The other columns, and the target as a series, or a frame for a list of names.

    >>> X, y = split_target(pd.DataFrame({"size": [1, 2], "price": [3, 4]}), "price")
    >>> list(X), list(y)
    (['size'], [3, 4])
    """
    names = [column] if isinstance(column, str) else list(column)
    if not names:
        raise TableError("target: no column is named, but at least one is needed")
    for name in names:
        check_column(frame, name, "target")
        missing = frame[name].isna().to_numpy()
        if missing.any():
            raise TableError(
                f"target: column {name!r} has {missing.sum()} missing values, the first at row {missing.argmax()}: "
                "drop these rows or fill them in"
            )
    if len(set(names)) < len(names):
        raise TableError(f"target: {', '.join(map(repr, names))} names a column twice")
    inputs = frame.drop(columns=names)
    if inputs.shape[1] == 0:
        raise TableError(f"target: the table has no columns besides {', '.join(map(repr, names))}")
    return inputs, frame[column if isinstance(column, str) else names]


def row_weights(frame: pd.DataFrame, name: str, targets: Sequence[str] = ()) -> NDArray[np.float64]:
    """Return the weights of the rows, or raise a ``TableError`` if a column cannot be weights.

    Args:
        frame: the table.
        name: the column of weights, none negative and some positive.
        targets: columns that it must not be.
    """
    check_column(frame, name, "weight")
    if name in targets:
        raise TableError(f"weight: column {name!r} is the target")
    values = finite_numbers(frame[name], "weight")
    if (values < 0).any() or not (values > 0).any():
        raise TableError(f"weight: column {name!r} must hold no negative number, and some positive ones")
    return values


def observed_targets(frame: pd.DataFrame, targets: Sequence[str], classes: NDArray[Any] | None = None) -> NDArray[Any]:
    """Return the targets of a table as they are compared with predictions.

    Args:
        frame: the table.
        targets: the columns that a model predicts.
        classes: for classification, those that the model knows.

    Returns:
        Numbers ``(N, m)``, or for classification places in ``classes``, ``(N,)``.

    Raises:
        TableError: if a column is absent, or holds values that are no finite numbers or not among the classes.
    """
    for name in targets:
        check_column(frame, name, "target")
    if classes is None:
        return np.column_stack([finite_numbers(frame[name], "target") for name in targets])
    column = frame[targets[0]]
    place = pd.Index(classes).get_indexer(pd.Index(column.to_numpy()))
    if (place < 0).any():
        row = int(np.argmax(place < 0))
        known = ", ".join(map(str, classes[:10])) + ", …" * (len(classes) > 10)
        raise TableError(
            f"target: column {targets[0]!r} has the class {column.iloc[row]} at row {row}, but fit saw only {known}"
        )
    return place


def infer_task(y: Any) -> str:
    """Return "regression" or "classification", by the values of the targets ``(N,)`` or ``(N, m)``.

    Text, booleans and categoricals are classes. Integers are classes if there are at most 10 distinct ones, each met
    twice on average: 0/1 labels and grades are classes, counts are not. All other numbers are measurements, and so are
    several targets at once.

    >>> infer_task(["yes", "no"]), infer_task([0, 1, 1, 0]), infer_task([0.5, 1.0])
    ('classification', 'classification', 'regression')
    """
    several = np.ndim(y) == 2 and np.shape(y)[1] > 1
    y = pd.Series(np.ravel(y)) if not isinstance(y, pd.Series) else y
    y = y.infer_objects()
    types = pd.api.types
    if isinstance(y.dtype, pd.CategoricalDtype) or types.is_bool_dtype(y) or types.is_string_dtype(y):
        task = "classification"
    elif not types.is_numeric_dtype(y) or types.is_complex_dtype(y):
        raise TableError(f"target: values of type {y.dtype} are neither numbers nor classes")
    elif types.is_integer_dtype(y) and not several and y.nunique() <= min(MAX_CLASSES, len(y) // 2):
        task = "classification"
    else:
        task = "regression"
    if several and task == "classification":
        raise TableError("target: several columns of classes cannot be predicted at once: name one")
    return task


def check_column(frame: pd.DataFrame, name: str, role: str) -> None:
    """Raise a ``TableError`` that names similar columns if there is no column of this name."""
    if name not in frame.columns:
        raise TableError(f"{role}: there is no column {name!r}; {_nearest(name, list(frame.columns))}")


def _nearest(name: str, names: list[str]) -> str:
    close = difflib.get_close_matches(name, names, cutoff=0.5)
    if close:
        return f"did you mean {' or '.join(map(repr, close))}?"
    return f"the columns are {', '.join(map(repr, names[:10]))}{', …' if len(names) > 10 else ''}"


def finite_numbers(column: pd.Series, role: str) -> NDArray[np.float64]:
    """Return a column as finite numbers, or raise a ``TableError`` that shows the first value which is none."""
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
