# SPDX-License-Identifier: Apache-2.0
"""Tables larger than memory, read some rows at a time as if all of them had been read at once."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from fpovi.tabular.files import CSV, EMPTY, checked, extension, read_csv_chunks, readable, with_dates
from fpovi.tabular.witnesses import CsvWitnesses, ParquetWitnesses, csv_sample, parquet_sample

CHUNK = 16384  # rows: some megabytes
BUFFER = 1 << 20


@dataclass(frozen=True)
class Stream:
    """A table in a file.

    Attributes:
        rows: how many it has.
        sample: some rows, made up of values from anywhere in it, with the types of the whole table.
        types: what a parquet file holds in columns that to pandas are just objects.
        chunks: called, it gives all rows, some at a time; their index counts them in the whole table.
    """

    rows: int
    sample: pd.DataFrame
    types: Mapping[str, pa.DataType]
    chunks: Callable[[], Iterator[pd.DataFrame]]


def open_stream(path: Path | str, chunk: int = CHUNK) -> Stream:
    """Read a table once to see what it is, so that it can be read again in pieces that know.

    Everything is as in :func:`~fpovi.tabular.files.read_table`: types, dates, and what is said of files that are no
    tables. A table of at most ``chunk`` rows is read once and kept.
    """
    path = Path(path)
    known = extension(path)
    with readable(path):
        return _parquet_stream(path, chunk) if known == ".parquet" else _csv_stream(path, chunk, known)


def _csv_stream(path: Path, chunk: int, known: str) -> Stream:
    rows, first, witnesses = 0, pd.DataFrame(), []
    for pieces, frame in enumerate(read_csv_chunks(path, **CSV[known], rows=chunk)):
        if pieces == 0:
            first, witnesses = frame, [CsvWitnesses() for _ in frame]
        for column, seen in zip(frame, witnesses, strict=True):
            seen.see(frame[column])
        rows += len(frame)
    if rows == len(first):
        return _kept(with_dates(checked(path, first)))
    sample = csv_sample([str(name) for name in first], witnesses)
    dates = {name: seen.dates for name, seen in zip(sample, witnesses, strict=True) if sample[name].dtype.kind == "M"}
    told = {name: str for name in sample if name in dates or pd.api.types.is_string_dtype(sample[name])}
    told |= {name: float for name in sample if pd.api.types.is_float_dtype(sample[name])}

    def chunks() -> Iterator[pd.DataFrame]:
        with readable(path):
            for frame in read_csv_chunks(path, **CSV[known], rows=chunk, dtype=told):
                for name, texts in dates.items():
                    # beside the witnesses, so that digits and zones are taken as in the whole column
                    column = pd.concat([pd.Series(texts, dtype=str), frame[name]], ignore_index=True)
                    parsed = pd.to_datetime(column, format="ISO8601")[len(texts) :]
                    frame[name] = parsed.set_axis(frame.index)
                yield frame.astype(sample.dtypes)

    return Stream(rows, sample, EMPTY, chunks)


def _parquet_stream(path: Path, chunk: int) -> Stream:
    # buffered and not read ahead: by default all of a row group, which may be all of the file, would be held
    with pq.ParquetFile(path, pre_buffer=False, buffer_size=BUFFER) as file:
        schema, rows = file.schema_arrow, file.metadata.num_rows
        objects = {field.name: field.type for field in schema}
        if rows <= chunk:
            frame = checked(path, file.read().to_pandas().reset_index(drop=True))
            return _kept(frame, {name: objects[name] for name in frame if frame[name].dtype == object})
        witnesses = [ParquetWitnesses() for _ in schema]
        for batch in file.iter_batches(chunk):
            for column, seen in zip(batch.columns, witnesses, strict=True):
                seen.see(column)
    sample = checked(path, parquet_sample(schema, witnesses))

    def chunks() -> Iterator[pd.DataFrame]:
        with readable(path), pq.ParquetFile(path, pre_buffer=False, buffer_size=BUFFER) as file:
            start = 0
            for batch in file.iter_batches(chunk):
                frame = pa.Table.from_batches([batch]).to_pandas()
                frame = frame.set_axis(pd.RangeIndex(start, start + len(frame)))
                yield frame.set_axis(list(sample), axis=1).astype(sample.dtypes)
                start += len(frame)

    return Stream(rows, sample, {name: objects[name] for name in sample if sample[name].dtype == object}, chunks)


def _kept(frame: pd.DataFrame, types: Mapping[str, pa.DataType] = EMPTY) -> Stream:
    return Stream(len(frame), frame, types, lambda: iter([frame]))
