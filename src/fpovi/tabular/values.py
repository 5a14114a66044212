# SPDX-License-Identifier: Apache-2.0
"""Tell what a column holds, and read its values as numbers or as levels of a category."""

import datetime
from collections.abc import Callable
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from fpovi.persistence.plain import short

MEASURED = ("number", "time", "duration")
PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "time": (datetime.date, np.datetime64),
    "duration": (datetime.timedelta, np.timedelta64),  # before numbers: np.timedelta64 counts as one of them
    "number": (Real, Decimal, np.bool_),
    "category": (str, Real, Decimal, np.bool_, datetime.date, np.datetime64),
}


def kind_of(column: pd.Series, label: str) -> str:
    """Return what a column holds: "number", "time", "duration", "category", or "empty" if all of it is missing."""
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
    for kind, types in PYTHON_TYPES.items():
        if all(issubclass(one, types) for one in held):
            return kind
    row, value = _first_other_than(PYTHON_TYPES["category"], column)
    raise ValueError(
        f"X has {short(value)}, a {type(value).__name__}, in {label}, row {row}, but cells must hold "
        "strings, numbers or dates"
    )


def read_numbers(column: pd.Series, kind: str, label: str) -> Float[np.ndarray, " N"]:
    """Return the values of a column of this ``kind``, times and durations in seconds, NaN where missing."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)
    found = kind_of(column, label)
    if found == "empty":
        return np.full(len(column), np.nan)
    if found != kind:
        row, value = _first_other_than(PYTHON_TYPES[kind], column)
        raise ValueError(f"X has {short(value)} in {label}, row {row}, where {kind}s were seen in fit")
    try:
        values = NUMBER_READERS[kind](column)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"X has values in {label} that cannot be read as {kind}s: {error}") from error
    infinite = np.isinf(values)
    if infinite.any():
        row = int(np.argmax(infinite))
        raise ValueError(
            f"X has {values[row]} in {label}, row {column.index[row]}, but values must be finite or missing"
        )
    return values


def read_levels(column: pd.Series, label: str) -> tuple[Int[np.ndarray, " N"], list[str]]:
    """Return which level each row of a column has, −1 where missing, and the levels as text.

    Numbers are written in one way, so that 1, 1.0, True and "1" are the same level: a file may turn one into another.
    """
    kind_of(column, label)
    if isinstance(column.dtype, pd.CategoricalDtype):
        codes, values = column.cat.codes.to_numpy(np.intp), column.cat.categories
        kind_of(pd.Series(values.astype(object)), label)
    else:
        codes, values = pd.factorize(column)
    try:
        return codes, [value if type(value) is str else _level_text(value) for value in values.tolist()]
    except (OverflowError, ValueError) as error:
        raise ValueError(f"X has values in {label} that cannot be written as levels: {error}") from error


def _level_text(value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, datetime.date | np.datetime64):
        return pd.Timestamp(value).isoformat()
    if isinstance(value, Integral | np.bool_):
        return str(int(value))
    number = float(value)
    return str(int(number)) if number.is_integer() else repr(number)


def _first_other_than(types: tuple[type, ...], column: pd.Series) -> tuple[int, Any]:
    """Return the row and value of the first cell of another type, or else of the first cell."""
    present = list(column[column.notna()].items())
    return next(((row, value) for row, value in present if not isinstance(value, types)), present[0])


def _numbers(column: pd.Series) -> Float[np.ndarray, " N"]:
    if column.dtype == object:
        return column.where(column.notna(), np.nan).to_numpy().astype(np.float64)
    with np.errstate(over="ignore"):  # a longdouble beyond float64 becomes infinite, which is said by name
        return column.to_numpy(np.float64, na_value=np.nan)


def _times(column: pd.Series) -> Float[np.ndarray, " N"]:
    """Return seconds since 1970 in UTC; times without a zone are taken to be in UTC."""
    moments = pd.to_datetime(column, utc=True).dt.tz_localize(None).to_numpy().astype("datetime64[us]")
    return np.where(np.isnat(moments), np.nan, moments.astype(np.int64) / 1e6)


def _durations(column: pd.Series) -> Float[np.ndarray, " N"]:
    lengths = pd.to_timedelta(column).to_numpy().astype("timedelta64[us]")
    return np.where(np.isnat(lengths), np.nan, lengths.astype(np.int64) / 1e6)


NUMBER_READERS: dict[str, Callable[[pd.Series], Any]] = {"number": _numbers, "time": _times, "duration": _durations}
