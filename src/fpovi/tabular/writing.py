# SPDX-License-Identifier: Apache-2.0
"""Write a table to a file, whole or chunk by chunk: chunks give the same bytes as the whole, and an error no file."""

import gzip
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from io import BufferedIOBase
from pathlib import Path
from types import MappingProxyType

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from fpovi.persistence.atomic import replacing
from fpovi.tabular.files import TableError, extension, reason

Write = Callable[[pd.DataFrame], None]
ArrowTypes = Mapping[str, pa.DataType]
NO_TYPES: ArrowTypes = MappingProxyType({})


def write_table(frame: pd.DataFrame, path: Path | str, force: bool = False) -> None:
    """Write a table without its index. The file appears under its name once it is complete.

    Args:
        frame: the table.
        path: a .csv, .tsv, .csv.gz or .parquet file.
        force: whether to replace a file that exists.

    Raises:
        TableError: if the file exists and ``force`` is not set, or it cannot be written.
    """
    write_chunks([frame], frame, path, force)


def write_chunks(
    frames: Iterable[pd.DataFrame],
    sample: pd.DataFrame,
    path: Path | str,
    force: bool = False,
    arrow_types: ArrowTypes = NO_TYPES,
) -> None:
    """Write a table that comes in chunks: all of it, or nothing where an error comes up between two of them.

    Args:
        frames: the chunks, in order.
        sample: rows with the column types of the whole table, and with its finest times.
        path: a .csv, .tsv, .csv.gz or .parquet file.
        force: whether to replace a file that exists.
        arrow_types: the types in a parquet file of columns whose type in ``sample`` is just ``object``.

    Raises:
        TableError: as :func:`write_table`. Errors from ``frames`` itself are not changed.
    """
    path = Path(os.path.realpath(path))  # a link stays one
    writer = WRITERS[extension(path)]
    if os.path.isdir(path):
        raise TableError(f"{path}: is a directory, but a file is needed")
    if os.path.exists(path) and not force:
        raise TableError(f"{path}: exists already; use force to replace it")
    unwritten = f"{path}: cannot be written"
    try:
        with replacing(str(path)) as file, writer(file, sample, arrow_types) as write:
            for frame in frames:
                try:
                    write(frame)
                except ValueError as error:  # one that ``frames`` raises is not about writing
                    raise TableError(f"{unwritten}: {reason(error)}") from error
    except (OSError, pa.ArrowException) as error:
        raise TableError(f"{unwritten}: {reason(error)}") from error


@contextmanager
def _csv(file: BufferedIOBase, sample: pd.DataFrame, _: ArrowTypes, separator: str = ",") -> Iterator[Write]:
    header = True

    def write(frame: pd.DataFrame) -> None:
        nonlocal header
        text = with_times_as_text(frame, sample).to_csv(sep=separator, index=False, header=header)
        file.write(text.encode())  # by pandas it would be flushed too, which gzip notes in the file
        header = False

    yield write


@contextmanager
def _gzip(file: BufferedIOBase, sample: pd.DataFrame, types: ArrowTypes) -> Iterator[Write]:
    # without name and time, the same table gives the same bytes
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed,
        _csv(packed, sample, types) as write,
    ):
        yield write


@contextmanager
def _parquet(file: BufferedIOBase, sample: pd.DataFrame, types: ArrowTypes) -> Iterator[Write]:
    schema = pa.Schema.from_pandas(sample, preserve_index=False)
    for name, kind in types.items():
        at = schema.get_field_index(name)
        schema = schema.set(at, schema.field(at).with_type(kind))
    with pq.ParquetWriter(file, schema) as writer:
        yield lambda frame: writer.write_table(pa.Table.from_pandas(frame, schema, preserve_index=False))


WRITERS: dict[str, Callable[[BufferedIOBase, pd.DataFrame, ArrowTypes], AbstractContextManager[Write]]] = {
    ".csv": _csv,
    ".tsv": partial(_csv, separator="\t"),
    ".csv.gz": _gzip,
    ".parquet": _parquet,
}


def with_times_as_text(frame: pd.DataFrame, sample: pd.DataFrame) -> pd.DataFrame:
    """Write times and durations out, as finely as the finest of ``frame`` and ``sample`` needs.

    >>> day, hour = (pd.DataFrame({"a": pd.to_datetime([text])}) for text in ("2024-05-17", "2024-05-17 10:00"))
    >>> with_times_as_text(day, day)["a"][0], with_times_as_text(day, hour)["a"][0]
    ('2024-05-17', '2024-05-17 00:00:00')
    """
    written = {}
    for name, column in frame.items():
        if pd.api.types.is_datetime64_any_dtype(column) or pd.api.types.is_timedelta64_dtype(column):
            text = pd.concat([sample[name], column], ignore_index=True).astype(str)[len(sample) :]
            written[name] = text.set_axis(frame.index).where(column.notna())
    return frame.assign(**written) if written else frame
