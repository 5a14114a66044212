# SPDX-License-Identifier: Apache-2.0
"""Rows of a data file, a table or arrays, and the inputs of a model in them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from numpy.typing import NDArray

from fpovi.tabular import ArrayEncoder
from fpovi.tabular.array_files import is_array_file, read_arrays
from fpovi.tabular.files import TableError, read_table
from fpovi.tabular.inputs import first_fault, learned_inputs
from fpovi.tabular.streams import CHUNK, TableStream, open_stream
from fpovi.tabular.writing import NO_TYPES


@dataclass(frozen=True)
class DataRows:
    """Rows of a file.

    Attributes:
        stream: the columns of a table; of arrays, those that stand beside them.
        arrays: inputs ``(N, *shape)``, or None for a table.
    """

    stream: TableStream
    arrays: NDArray[Any] | None = None

    def inputs(self, frame: pd.DataFrame, fitted: Any) -> Any:
        """Return what a model takes of some rows of the stream."""
        encoder = fitted.fitted_.encoder
        if self.arrays is None:
            if isinstance(encoder, ArrayEncoder):
                raise TableError(
                    f"is a table, but the model takes arrays of shape {encoder.shape}: give a .npy or .npz file"
                )
            return learned_inputs(frame, encoder.columns)
        if encoder.columns.names is not None:
            raise TableError("holds arrays, but the model finds columns by name: give a table")
        return self.arrays[frame.index.start : frame.index.stop]

    def fault(self, frames: Iterator[pd.DataFrame], fitted: Any) -> ValueError | None:
        """Return the error that all rows at once would give, if any."""
        if self.arrays is None and not isinstance(fitted.fitted_.encoder, ArrayEncoder):
            return first_fault(frames, fitted.fitted_.encoder, fitted.unknown)
        try:
            for frame in frames:
                fitted.fitted_.encoder.numbers(self.inputs(frame, fitted), fitted.unknown)
        except ValueError as error:
            return error
        return None


def open_rows(data: Path, targets: tuple[str, ...]) -> DataRows:
    """Open a file to be read some rows at a time; ``targets`` are what the columns of y in arrays are called."""
    if not is_array_file(data):
        return DataRows(open_stream(data, CHUNK))
    found = read_arrays(data, targets)
    rows = len(found.inputs)
    chunks = lambda: (found.beside[first : first + CHUNK] for first in range(0, rows, CHUNK))  # noqa: E731
    return DataRows(TableStream(rows, found.beside[:1], NO_TYPES, chunks), found.inputs)


def read_rows(data: Path, targets: tuple[str, ...]) -> tuple[DataRows, pd.DataFrame]:
    """Read all of a file; return its rows and their columns."""
    if is_array_file(data):
        rows = open_rows(data, targets)
        return rows, pd.concat(rows.stream.chunks())
    frame = read_table(data)
    return DataRows(TableStream(len(frame), frame, NO_TYPES, lambda: iter([frame]))), frame
