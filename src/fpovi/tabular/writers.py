# SPDX-License-Identifier: Apache-2.0
"""How each kind of file takes a table, piece by piece, so that the pieces make the file the whole would have made."""

import gzip
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from io import BufferedIOBase

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

Write = Callable[[pd.DataFrame], None]
Types = Mapping[str, pa.DataType]


@contextmanager
def _csv(file: BufferedIOBase, sample: pd.DataFrame, types: Types, separator: str = ",") -> Iterator[Write]:
    header = True

    def write(frame: pd.DataFrame) -> None:
        nonlocal header
        text = text_of_times(frame, sample).to_csv(sep=separator, index=False, header=header)
        file.write(text.encode())  # by pandas it would be flushed too, which gzip notes in the file
        header = False

    yield write


@contextmanager
def _gzip(file: BufferedIOBase, sample: pd.DataFrame, types: Types) -> Iterator[Write]:
    # without name and time, the same table gives the same bytes
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed,
        _csv(packed, sample, types) as write,
    ):
        yield write


@contextmanager
def _parquet(file: BufferedIOBase, sample: pd.DataFrame, types: Types) -> Iterator[Write]:
    schema = pa.Schema.from_pandas(sample, preserve_index=False)
    for name, kind in types.items():
        at = schema.get_field_index(name)
        schema = schema.set(at, schema.field(at).with_type(kind))
    with pq.ParquetWriter(file, schema) as writer:
        yield lambda frame: writer.write_table(pa.Table.from_pandas(frame, schema, preserve_index=False))


WRITERS: dict[str, Callable[[BufferedIOBase, pd.DataFrame, Types], AbstractContextManager[Write]]] = {
    ".csv": _csv,
    ".tsv": partial(_csv, separator="\t"),
    ".csv.gz": _gzip,
    ".parquet": _parquet,
}


def text_of_times(frame: pd.DataFrame, sample: pd.DataFrame) -> pd.DataFrame:
    """``frame`` with times and durations written out, as finely as the finest of its rows and those of ``sample`` need.

    >>> day, hour = (pd.DataFrame({"a": pd.to_datetime([text])}) for text in ("2024-05-17", "2024-05-17 10:00"))
    >>> text_of_times(day, day)["a"][0], text_of_times(day, hour)["a"][0]
    ('2024-05-17', '2024-05-17 00:00:00')
    """
    written = {}
    for name, column in frame.items():
        if pd.api.types.is_datetime64_any_dtype(column) or pd.api.types.is_timedelta64_dtype(column):
            text = pd.concat([sample[name], column], ignore_index=True).astype(str)[len(sample) :]
            written[name] = text.set_axis(frame.index).where(column.notna())
    return frame.assign(**written) if written else frame
