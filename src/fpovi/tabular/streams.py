# SPDX-License-Identifier: Apache-2.0
"""Read a table larger than memory chunk by chunk, each chunk with the column types of the whole table.

The type of a column depends on all its rows: one gap makes whole numbers floats, one word makes numbers text, one time
of day makes all dates be written with times. So a table is read twice. The first pass keeps of each column a few
examples that by themselves have the type of the whole column; the second reads with the types of these examples.
"""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fpovi.tabular.files import CSV, checked, dates_if_all, extension, read_csv_chunks, readable, with_dates
from fpovi.tabular.writing import NO_TYPES

CHUNK = 16384  # rows: some megabytes
BUFFER = 1 << 20
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True)
class TableStream:
    """A table in a file, to be read chunk by chunk.

    Attributes:
        rows: how many it has.
        sample: some rows, made up of values from anywhere in it, with the types of the whole table.
        arrow_types: what a parquet file holds in columns whose type in ``sample`` is just ``object``.
        chunks: a function that yields all rows, some at a time; their index counts them in the whole table.
    """

    rows: int
    sample: pd.DataFrame
    arrow_types: Mapping[str, pa.DataType]
    chunks: Callable[[], Iterator[pd.DataFrame]]


def open_stream(path: Path | str, chunk: int = CHUNK) -> TableStream:
    """Find out the types of a table, so that it can be read in chunks as if it were read at once.

    Everything is as in :func:`~fpovi.tabular.files.read_table`: types, dates, and the errors for files that are no
    tables. A table of at most ``chunk`` rows is read once and kept.

    Args:
        path: a .csv, .tsv, .csv.gz or .parquet file.
        chunk: the most rows to hold at a time.
    """
    path = Path(path)
    known = extension(path)
    with readable(path):
        return _parquet_stream(path, chunk) if known == ".parquet" else _csv_stream(path, chunk, known)


def _kept(frame: pd.DataFrame, arrow_types: Mapping[str, pa.DataType] = NO_TYPES) -> TableStream:
    return TableStream(len(frame), frame, arrow_types, lambda: iter([frame]))


def _csv_stream(path: Path, chunk: int, known: str) -> TableStream:
    rows, first, texts = 0, pd.DataFrame(), list[list[str]]()
    for frame in read_csv_chunks(path, **CSV[known], rows=chunk):
        found = [text_examples(column) for _, column in frame.items()]
        if texts:
            both = read_texts([old + new for old, new in zip(texts, found, strict=True)])
            found = [text_examples(column) for _, column in both.items()]
        else:
            first = frame
        rows, texts = rows + len(frame), found
    if rows == len(first):
        return _kept(with_dates(checked(path, first)))
    sample = with_dates(read_texts(texts)).set_axis([str(name) for name in first], axis=1)
    dates = {
        name: [*filter(None, of)] for name, of in zip(sample, texts, strict=True) if sample[name].dtype.kind == "M"
    }
    types = {name: str for name in sample if name in dates or pd.api.types.is_string_dtype(sample[name])}
    types |= {name: float for name in sample if pd.api.types.is_float_dtype(sample[name])}

    def chunks() -> Iterator[pd.DataFrame]:
        with readable(path):
            for frame in read_csv_chunks(path, **CSV[known], rows=chunk, dtype=types):
                for name, examples in dates.items():
                    # beside the examples, so that digits and zones are taken as in the whole column
                    column = pd.concat([pd.Series(examples, dtype=str), frame[name]], ignore_index=True)
                    parsed = pd.to_datetime(column, format="ISO8601")[len(examples) :]
                    frame[name] = parsed.set_axis(frame.index)
                yield frame.astype(sample.dtypes)

    return TableStream(rows, sample, NO_TYPES, chunks)


def text_examples(column: pd.Series) -> list[str]:
    """Return a few texts that pandas reads as the type of a column it has read, "" for a missing value.

    >>> text_examples(pd.Series([3, 1, 2])), text_examples(pd.Series([0.25, None])), text_examples(pd.Series(["a"]))
    (['1', '3'], ['0.5', ''], ['word'])
    """
    present = column.dropna()
    gap = [""] * (len(present) < len(column))
    if len(present) == 0:
        return gap
    if pd.api.types.is_float_dtype(column):
        return ["0.5", *gap]
    if pd.api.types.is_bool_dtype(column) or isinstance(present.iloc[0], bool):
        return ["True", *gap]
    if not pd.api.types.is_string_dtype(column):  # whole numbers, where too large for 64 bits as objects
        return [str(present.min()), str(present.max()), *gap]
    dates = dates_if_all(present)
    if dates.dtype.kind != "M":
        return ["word", *gap]
    # digits decide the unit, extremes whether it can hold them, the finest how all are written
    at = [present.str.len().argmax(), fineness(dates).argmax(), dates.argmin(), dates.argmax()]
    return [*present.iloc[sorted(set(map(int, at)))], *gap]


def read_texts(columns: Sequence[Sequence[str]]) -> pd.DataFrame:
    """Read texts, at least one per column, as the same column of a CSV file would be."""
    rows = max(map(len, columns))
    padded = [[*texts, *[texts[-1]] * (rows - len(texts))] for texts in columns]
    file = io.StringIO()
    # a column more, as a row that is empty would be passed over
    pd.DataFrame([*zip(*padded, ["end"] * rows, strict=True)]).to_csv(file, header=False, index=False)
    file.seek(0)
    return pd.read_csv(file, header=None, low_memory=False).iloc[:, :-1]


def _parquet_stream(path: Path, chunk: int) -> TableStream:
    # buffered and not read ahead: by default all of a row group, which may be all of the file, would be held
    with pq.ParquetFile(path, pre_buffer=False, buffer_size=BUFFER) as file:
        schema, rows = file.schema_arrow, file.metadata.num_rows
        held = {field.name: field.type for field in schema}
        if rows <= chunk:
            frame = checked(path, file.read().to_pandas().reset_index(drop=True))
            return _kept(frame, {name: held[name] for name in frame if frame[name].dtype == object})
        examples = [pa.chunked_array([], field.type) for field in schema]
        for batch in file.iter_batches(chunk):
            pairs = zip(examples, batch.columns, strict=True)
            examples = [arrow_examples(pa.chunked_array([*seen.chunks, new], seen.type)) for seen, new in pairs]
    columns = [column.take([0, len(column) - 1]) for column in examples]
    sample = checked(path, pa.Table.from_arrays(columns, schema=schema).to_pandas().reset_index(drop=True))

    def chunks() -> Iterator[pd.DataFrame]:
        with readable(path), pq.ParquetFile(path, pre_buffer=False, buffer_size=BUFFER) as file:
            start = 0
            for batch in file.iter_batches(chunk):
                frame = pa.Table.from_batches([batch]).to_pandas()
                frame = frame.set_axis(pd.RangeIndex(start, start + len(frame)))
                yield frame.set_axis(list(sample), axis=1).astype(sample.dtypes)
                start += len(frame)

    return TableStream(rows, sample, {name: held[name] for name in sample if sample[name].dtype == object}, chunks)


def arrow_examples(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return of a column one value, the finest if they are times, and a gap if there is one."""
    column = column.unify_dictionaries()  # every example holds all categories so far
    rank = fineness(column.to_pandas()) if pa.types.is_temporal(column.type) else column.is_valid().to_numpy() - 1
    return column.take([int(np.argmax(rank)), *np.flatnonzero(rank < 0)[:1]])


def fineness(column: pd.Series) -> NDArray[Any]:
    """Rank how finely each time or duration must be written: 0 for whole days, 1 for seconds, …; −1 where missing."""
    if column.dtype.kind not in "mM":
        return column.notna().to_numpy() - 1
    rank = np.zeros(len(column), int)
    second = PER_SECOND[column.dt.unit]
    counts = column.astype("int64").to_numpy()
    for step in (86400 * second, second, second // 10**3, second // 10**6):
        rank += counts % max(step, 1) != 0
    return np.where(column.isna(), -1, rank)
