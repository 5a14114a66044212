# SPDX-License-Identifier: Apache-2.0
"""A user's table, whatever holds it, and what its columns are made of."""

import datetime
from collections.abc import Callable
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from fpovi.persistence.plain import short

MEASURED = ("number", "time", "duration")
TYPES: dict[str, tuple[type, ...]] = {
    "time": (datetime.date, np.datetime64),
    "duration": (datetime.timedelta, np.timedelta64),  # before numbers: np.timedelta64 counts as one of them
    "number": (Real, Decimal, np.bool_),
    "category": (str, Real, Decimal, np.bool_, datetime.date, np.datetime64),
}


class Columns(NamedTuple):
    """The columns a table had: their names, where all of them were strings, and their kinds."""

    names: tuple[str, ...] | None
    kinds: tuple[str, ...]

    def label(self, index: int) -> str:
        """How messages call a column."""
        return f"column {index}" if self.names is None else f"column {self.names[index]!r}"


def as_frame(X: Any) -> pd.DataFrame:
    """``X`` as a frame whose index counts its rows; a ``ValueError`` for what is not a table of plain values.

    Rows from the middle of a longer table, ``frame[1000:2000]``, are still called by their place in that one.
    """
    if isinstance(X, pd.DataFrame):
        counted = isinstance(X.index, pd.RangeIndex) and X.index.step == 1
        frame = X if counted else X.reset_index(drop=True)
    else:
        if hasattr(X, "toarray"):
            raise ValueError("X is sparse, but a dense array or a data frame is needed: use X.toarray()")
        # as objects, or a list that mixes numbers and words would become all words
        array = np.array(X, object) if isinstance(X, list | tuple) else np.asarray(X)
        if array.ndim != 2:
            raise ValueError(
                f"X has shape {array.shape}, but rows and columns (N, d) are needed. Reshape your data: "
                "X.reshape(-1, 1) if it has a single feature, X.reshape(1, -1) if it is a single row"
            )
        if array.dtype.kind == "c":
            raise ValueError("X holds complex numbers. Complex data not supported: give real and imaginary parts")
        if array.dtype.kind not in "biufOUTMm":
            raise ValueError(f"X has values of type {array.dtype}, but numbers, strings or dates are needed")
        frame = pd.DataFrame(array)
    rows, columns = frame.shape
    if columns == 0:
        raise ValueError(f"X has 0 feature(s) (shape={frame.shape}) while a minimum of 1 is required.")
    if rows == 0:
        raise ValueError(f"X has 0 sample(s) (shape={frame.shape}) while a minimum of 1 is required.")
    return frame


def names_of(frame: pd.DataFrame) -> tuple[str, ...] | None:
    """The column names if all of them are strings; columns called otherwise go by their position."""
    labels = list(frame.columns)
    if not all(isinstance(label, str) for label in labels):
        return None
    twice = sorted({label for label in labels if labels.count(label) > 1}) if len(set(labels)) < len(labels) else []
    if twice:
        raise ValueError(f"X has more than one column called {', '.join(map(repr, twice))}: names must be distinct")
    return tuple(str(label) for label in labels)


def align(X: Any, columns: Columns) -> pd.DataFrame:
    """``X`` as a frame with the learned columns in the learned order.

    Where both sides have names, columns are found by name, and others that ``X`` may have are left out; otherwise
    they go by position, and their number must agree.

    >>> align(pd.DataFrame({"b": [1], "c": [2], "a": [3]}), Columns(("a", "b"), ("number", "number")))
       a  b
    0  3  1
    """
    frame = as_frame(X)
    names = names_of(frame)
    if columns.names is not None and names is not None:
        absent = [name for name in columns.names if name not in set(names)]
        if absent:
            more = f" and {len(absent) - 5} more" if len(absent) > 5 else ""
            raise ValueError(
                f"X lacks {len(absent)} of the columns seen in fit: {', '.join(map(repr, absent[:5]))}{more}"
            )
        return frame[list(columns.names)]
    if frame.shape[1] != len(columns.kinds):
        raise ValueError(f"X has {frame.shape[1]} features, but {len(columns.kinds)} were seen in fit")
    return frame


def kind_of(column: pd.Series, label: str) -> str:
    """What a column holds: ``number``, ``time``, ``duration``, ``category``, or ``empty`` if all is missing."""
    dtype, present = column.dtype, column.notna().to_numpy()
    if not present.any():
        return "empty"
    if isinstance(dtype, pd.CategoricalDtype):
        return "category"
    if pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_complex_dtype(dtype):
        return "number"
    if pd.api.types.is_datetime64_any_dtype(dtype):
        return "time"
    if pd.api.types.is_timedelta64_dtype(dtype):
        return "duration"
    if isinstance(dtype, pd.StringDtype):
        return "category"
    held = set(map(type, column.to_numpy(object)[present]))
    for kind, types in TYPES.items():
        if all(issubclass(one, types) for one in held):
            return kind
    row, value = _first_other_than(TYPES["category"], column)
    raise ValueError(
        f"X has {short(value)}, a {type(value).__name__}, in {label}, row {row}, but cells must hold "
        "strings, numbers or dates"
    )


def measured(column: pd.Series, kind: str, label: str) -> Float[np.ndarray, " N"]:
    """The numbers of a column of this ``kind``, times and durations in seconds, NaN where missing."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)
    found = kind_of(column, label)
    if found == "empty":
        return np.full(len(column), np.nan)
    if found != kind:
        row, value = _first_other_than(TYPES[kind], column)
        raise ValueError(f"X has {short(value)} in {label}, row {row}, where {kind}s were seen in fit")
    try:
        values = READERS[kind](column)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"X has values in {label} that cannot be read as {kind}s: {error}") from error
    infinite = np.isinf(values)
    if infinite.any():
        row = int(np.argmax(infinite))
        raise ValueError(
            f"X has {values[row]} in {label}, row {column.index[row]}, but values must be finite or missing"
        )
    return values


def levels(column: pd.Series, label: str) -> tuple[Int[np.ndarray, " N"], list[str]]:
    """The distinct values of a column as they are written, and which one each row has, −1 where missing.

    Numbers are written in one way, so that 1, 1.0, True and "1" are the same level: a file may turn one into another.
    """
    kind_of(column, label)
    if isinstance(column.dtype, pd.CategoricalDtype):
        codes, values = column.cat.codes.to_numpy(np.intp), column.cat.categories
        kind_of(pd.Series(values.astype(object)), label)
    else:
        codes, values = pd.factorize(column)
    try:
        return codes, [value if type(value) is str else _written(value) for value in values.tolist()]
    except (OverflowError, ValueError) as error:
        raise ValueError(f"X has values in {label} that cannot be written as levels: {error}") from error


def _written(value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, datetime.date | np.datetime64):
        return pd.Timestamp(value).isoformat()
    if isinstance(value, Integral | np.bool_):
        return str(int(value))
    number = float(value)
    return str(int(number)) if number.is_integer() else repr(number)


def _first_other_than(types: tuple[type, ...], column: pd.Series) -> tuple[int, Any]:
    """The first value of another type, or else the first one, with its row."""
    present = list(column[column.notna()].items())
    return next(((row, value) for row, value in present if not isinstance(value, types)), present[0])


def _numbers(column: pd.Series) -> Float[np.ndarray, " N"]:
    if column.dtype == object:
        return column.where(column.notna(), np.nan).to_numpy().astype(np.float64)
    with np.errstate(over="ignore"):  # a longdouble beyond float64 becomes infinite, which is said by name
        return column.to_numpy(np.float64, na_value=np.nan)


def _times(column: pd.Series) -> Float[np.ndarray, " N"]:
    """Seconds since 1970 in UTC; times that name no zone are taken to be in it."""
    moments = pd.to_datetime(column, utc=True).dt.tz_localize(None).to_numpy().astype("datetime64[us]")
    return np.where(np.isnat(moments), np.nan, moments.astype(np.int64) / 1e6)


def _durations(column: pd.Series) -> Float[np.ndarray, " N"]:
    lengths = pd.to_timedelta(column).to_numpy().astype("timedelta64[us]")
    return np.where(np.isnat(lengths), np.nan, lengths.astype(np.int64) / 1e6)


READERS: dict[str, Callable[[pd.Series], Any]] = {"number": _numbers, "time": _times, "duration": _durations}
