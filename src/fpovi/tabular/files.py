# SPDX-License-Identifier: Apache-2.0
"""Read a table from a .csv, .tsv, .csv.gz or .parquet file."""

import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

ISO_DATE = r"\d{4}-\d{2}-\d{2}(?:$|[T ]\d)"
PEEK = 1 << 16  # bytes looked at before a file is read


class TableError(ValueError):
    """Raised for a table that cannot be read, written or used, with one line that says why."""


CSV: dict[str, dict[str, Any]] = {
    ".csv": {"separator": ",", "compression": None},
    ".tsv": {"separator": "\t", "compression": None},
    ".csv.gz": {"separator": ",", "compression": "gzip"},
}


def read_table(path: Path | str) -> pd.DataFrame:
    """Read all of a table. Text is UTF-8; text columns in which every value is an ISO date become dates.

    Args:
        path: a .csv, .tsv, .csv.gz or .parquet file. The first line of text holds the names of the columns.

    Returns:
        A frame whose index counts the rows and whose columns are called by strings.

    Raises:
        TableError: if there is no such file, or it is no table, has no rows or has two columns of one name.
    """
    path = Path(path)
    reader = READERS[extension(path)]
    with readable(path):
        return checked(path, reader(path).reset_index(drop=True))


def _read_csv(path: Path, separator: str, compression: str | None) -> pd.DataFrame:
    (frame,) = read_csv_chunks(path, separator, compression)
    return with_dates(frame)


def read_csv_chunks(
    path: Path, separator: str, compression: str | None, rows: int | None = None, **types: Any
) -> Iterator[pd.DataFrame]:
    """Yield ``rows`` rows at a time, or all at once, each chunk typed by its own values unless ``dtype`` is given."""
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
    """Turn columns of text into dates where every value is one, such as 2024-05-17, with or without a time."""
    return frame.apply(lambda column: dates_if_all(column) if pd.api.types.is_string_dtype(column) else column)


def dates_if_all(column: pd.Series) -> pd.Series:
    """Return a column of text as dates if every value is one, else as it is."""
    present = column.dropna()
    if not (present.head(1).str.match(ISO_DATE).all() and present.str.match(ISO_DATE).all()):  # most fail at once
        return column
    try:
        return pd.to_datetime(column, format="ISO8601")
    except (ValueError, OverflowError):
        return column


READERS: dict[str, Callable[[Path], pd.DataFrame]] = {
    **{known: partial(_read_csv, **options) for known, options in CSV.items()},
    ".parquet": lambda path: pd.read_parquet(path, engine="pyarrow"),
}


def extension(path: Path) -> str:
    """Return the extension of a table's file, or raise a ``TableError`` that lists those that can be read."""
    for known in READERS:
        if path.name.lower().endswith(known):
            return known
    raise TableError(f"{path}: has an unknown extension; use one of {', '.join(READERS)}")


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
        raise TableError(f"{path}: cannot be read: {reason(error)}") from error
    except UnicodeDecodeError as error:
        raise TableError(f"{path}: is not UTF-8 text: {reason(error)}") from error
    except pd.errors.EmptyDataError as error:
        raise TableError(f"{path}: has no columns") from error
    # the last three: damaged metadata, which pyarrow and pandas read without checking
    except (ValueError, EOFError, zlib.error, pa.ArrowException, LookupError, TypeError, AttributeError) as error:
        raise TableError(f"{path}: cannot be read as {extension(path)[1:]}: {reason(error)}") from error


def checked(path: Path, frame: pd.DataFrame) -> pd.DataFrame:
    """Return ``frame`` with its columns called by strings, or raise a ``TableError`` if it lacks columns or rows."""
    frame.columns = [str(name) for name in frame.columns]
    _refuse_duplicates(path, list(frame.columns))
    if frame.shape[1] == 0:
        raise TableError(f"{path}: has no columns")
    if len(frame) == 0:
        raise TableError(f"{path}: has no rows, only the names of {frame.shape[1]} columns")
    return frame


def _refuse_duplicates(path: Path, names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise TableError(f"{path}: has more than one column called {', '.join(map(repr, twice))}")


def reason(error: Exception) -> str:
    """Return what an error says, in one line."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split())[:200]
