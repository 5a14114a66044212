# SPDX-License-Identifier: Apache-2.0
"""A user's own tables: read, split into inputs and targets, and written whole or not at all."""

import difflib
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from fpovi.persistence.atomic import replacing
from fpovi.tabular.writers import WRITERS

MAX_CLASSES = 10  # whole numbers with more distinct values than this are taken for counts, not classes
ISO_DATE = r"\d{4}-\d{2}-\d{2}(?:$|[T ]\d)"
PEEK = 1 << 16
EMPTY: Mapping[str, pa.DataType] = MappingProxyType({})


class TableError(ValueError):
    """A table that cannot be read, written or split, in one line that says why."""


def _read_csv(path: Path, separator: str, compression: str | None) -> pd.DataFrame:
    (frame,) = read_csv_chunks(path, separator, compression)
    return with_dates(frame)


def read_csv_chunks(
    path: Path, separator: str, compression: str | None, rows: int | None = None, **types: Any
) -> Iterator[pd.DataFrame]:
    """So many rows at a time, or all at once, as they are typed by themselves unless ``dtype`` is told."""
    options: dict[str, Any] = {"sep": separator, "encoding": "utf-8-sig", "compression": compression}
    header = pd.read_csv(path, header=None, nrows=1, dtype=str, keep_default_na=False, **options).iloc[0]
    _refuse_duplicates(path, header.tolist())  # pandas would call the second "a" "a.1"
    read = pd.read_csv(path, low_memory=False, chunksize=rows, **options, **types)
    with nullcontext([read]) if isinstance(read, pd.DataFrame) else read as frames:
        for frame in frames:
            if not isinstance(frame.index, pd.RangeIndex):
                raise TableError(f"{path}: rows have more values than the header has names ({len(header)})")
            yield frame


def with_dates(frame: pd.DataFrame) -> pd.DataFrame:
    """Columns of text as dates, if every value is one in the form 2024-05-17, with or without a time."""
    return frame.apply(lambda column: dates_if_all(column) if pd.api.types.is_string_dtype(column) else column)


def dates_if_all(column: pd.Series) -> pd.Series:
    """A column of text as dates, if every value is one in the form 2024-05-17, with or without a time."""
    if not column.dropna().str.match(ISO_DATE).all():
        return column
    try:
        return pd.to_datetime(column, format="ISO8601")
    except (ValueError, OverflowError):
        return column


CSV: dict[str, dict[str, Any]] = {
    ".csv": {"separator": ",", "compression": None},
    ".tsv": {"separator": "\t", "compression": None},
    ".csv.gz": {"separator": ",", "compression": "gzip"},
}
READERS: dict[str, Callable[[Path], pd.DataFrame]] = {
    **{known: partial(_read_csv, **options) for known, options in CSV.items()},
    ".parquet": lambda path: pd.read_parquet(path, engine="pyarrow"),
}


def read_table(path: Path | str) -> pd.DataFrame:
    """The table in a .csv, .tsv, .csv.gz or .parquet file, its first line the names of the columns.

    Text is UTF-8. Text columns in which every value is an ISO date become dates.
    """
    path = Path(path)
    reader = READERS[extension(path)]
    with readable(path):
        return checked(path, reader(path).reset_index(drop=True))


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Look at the start of a file before it is read, and turn what goes wrong into a ``TableError``."""
    if os.path.isdir(path):
        raise TableError(f"{path}: is a directory, but a file is needed")
    try:
        with open(path, "rb") as file:
            start = file.read(PEEK)
        if not start:
            raise TableError(f"{path}: is empty")
        if b"\0" in start and extension(path) in (".csv", ".tsv"):
            raise TableError(f"{path}: is not text, but a binary file")
        yield
    except TableError:
        raise
    except OSError as error:
        raise TableError(f"{path}: cannot be read: {_reason(error)}") from error
    except UnicodeDecodeError as error:
        raise TableError(f"{path}: is not UTF-8 text: {_reason(error)}") from error
    except pd.errors.EmptyDataError as error:
        raise TableError(f"{path}: has no columns") from error
    # the last three: damaged metadata, which pyarrow and pandas read without checking
    except (ValueError, EOFError, zlib.error, pa.ArrowException, LookupError, TypeError, AttributeError) as error:
        raise TableError(f"{path}: cannot be read as {extension(path)[1:]}: {_reason(error)}") from error


def checked(path: Path, frame: pd.DataFrame) -> pd.DataFrame:
    """``frame`` with its columns called by strings, if it has any, and rows."""
    frame.columns = [str(name) for name in frame.columns]
    _refuse_duplicates(path, list(frame.columns))
    if frame.shape[1] == 0:
        raise TableError(f"{path}: has no columns")
    if len(frame) == 0:
        raise TableError(f"{path}: has no rows, only the names of {frame.shape[1]} columns")
    return frame


def write_table(frame: pd.DataFrame, path: Path | str, force: bool = False) -> None:
    """Write ``frame``, without its index, in the form that the extension says.

    The file appears under its name once it is complete. One that is there already is kept unless ``force`` is set.
    """
    write_chunks([frame], frame, path, force)


def write_chunks(
    frames: Iterable[pd.DataFrame],
    sample: pd.DataFrame,
    path: Path | str,
    force: bool = False,
    types: Mapping[str, pa.DataType] = EMPTY,
) -> None:
    """Write a table that comes in pieces, with the promise of :func:`write_table`: all of it or nothing.

    ``sample`` are rows with the types of all of it, ``types`` what a parquet file is to hold where they do not tell.
    """
    path = Path(os.path.realpath(path))  # a link stays one
    writer = WRITERS[extension(path)]
    if os.path.isdir(path):
        raise TableError(f"{path}: is a directory, but a file is needed")
    if os.path.exists(path) and not force:
        raise TableError(f"{path}: exists already; use force to replace it")
    unwritten = f"{path}: cannot be written"
    try:
        with replacing(str(path)) as file, writer(file, sample, types) as write:
            for frame in frames:
                try:
                    write(frame)
                except ValueError as error:  # not those of who makes the frames
                    raise TableError(f"{unwritten}: {_reason(error)}") from error
    except (OSError, pa.ArrowException) as error:
        raise TableError(f"{unwritten}: {_reason(error)}") from error


def check_target(frame: pd.DataFrame, column: str | Sequence[str]) -> tuple[pd.DataFrame, pd.Series | pd.DataFrame]:
    """Split a table into inputs and the target ``column``, or a frame of targets for several columns.

    >>> X, y = check_target(pd.DataFrame({"size": [1, 2], "price": [3, 4]}), "price")
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


def check_column(frame: pd.DataFrame, name: str, role: str) -> None:
    """A ``TableError`` that begins with the ``role`` and names close ones, if there is no such column."""
    if name not in frame.columns:
        raise TableError(f"{role}: there is no column {name!r}; {_nearest(name, list(frame.columns))}")


def infer_task(y: Any) -> str:
    """``"regression"`` or ``"classification"``, by what the targets are made of.

    Text, booleans and categoricals are classes. Integers are classes if there are at most 10 distinct ones, each met
    twice on average; then 0/1 labels and grades are, and counts are not. Everything else that is a number is measured,
    so are several targets at once.

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


def extension(path: Path) -> str:
    """That of a table's file; a ``TableError`` if it is none of those that can be read and written."""
    for known in READERS:
        if path.name.lower().endswith(known):
            return known
    raise TableError(f"{path}: has an unknown extension; use one of {', '.join(READERS)}")


def _refuse_duplicates(path: Path, names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise TableError(f"{path}: has more than one column called {', '.join(map(repr, twice))}")


def _nearest(name: str, names: list[str]) -> str:
    close = difflib.get_close_matches(name, names, cutoff=0.5)
    if close:
        return f"did you mean {' or '.join(map(repr, close))}?"
    return f"the columns are {', '.join(map(repr, names[:10]))}{', …' if len(names) > 10 else ''}"


def _reason(error: Exception) -> str:
    """What an error says, in one line."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split())[:200]
