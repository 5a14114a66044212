# SPDX-License-Identifier: Apache-2.0
"""A few values that tell the type of a long column, gathered while its pieces pass by.

What a column of a table is depends on all its rows: one gap makes whole numbers floats, one word makes numbers text,
one time of day makes all dates be written with times. So the first rows can only be read as what they are once all
have been seen, but of those few have to be kept.
"""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from fpovi.tabular.files import dates_if_all, with_dates

WORD, REAL = "word", "0.5"
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class CsvWitnesses:
    """Texts from a column of a CSV file, which by themselves are read as what the whole column is."""

    def __init__(self) -> None:
        self.gap = False
        self.texts: list[str] = []
        self.whole: list[int] = []
        self.dates: list[str] = []

    def see(self, column: pd.Series) -> None:
        """Some more rows, as pandas reads them by themselves."""
        present = column.dropna()
        self.gap |= len(present) < len(column)
        if len(present) == 0:
            return
        if pd.api.types.is_float_dtype(column):
            self._add(REAL)
        elif pd.api.types.is_bool_dtype(column) or isinstance(present.iloc[0], bool):
            self._add("True")
        elif pd.api.types.is_string_dtype(column):
            self._see_text(present)
        else:  # whole numbers, where too large for 64 bits as objects
            seen = [*self.whole, int(present.min()), int(present.max())]
            self.whole = [min(seen), max(seen)]

    def _see_text(self, present: pd.Series) -> None:
        if WORD in self.texts:
            return
        texts = pd.concat([pd.Series(self.dates, dtype=present.dtype), present], ignore_index=True)
        dates = dates_if_all(texts)
        if not pd.api.types.is_datetime64_any_dtype(dates):
            self.dates = []
            self._add(WORD)
            return
        # digits decide the unit, extremes whether it can hold them, the finest how all are written
        at = [texts.str.len().argmax(), fineness(dates).argmax(), dates.argmin(), dates.argmax()]
        self.dates = texts.iloc[sorted(set(map(int, at)))].tolist()

    def _add(self, text: str) -> None:
        if text not in self.texts:
            self.texts.append(text)

    @property
    def all(self) -> list[str]:
        """At least one, "" where a value is missing."""
        return [*self.texts, *map(str, self.whole), *self.dates, *[""] * self.gap] or [""]


def csv_sample(columns: Sequence[str], witnesses: Sequence[CsvWitnesses]) -> pd.DataFrame:
    """A table of witnesses, with the types of the table they are from.

    >>> quantity = CsvWitnesses()
    >>> for piece in ([1, 2], [3, None]):
    ...     quantity.see(pd.Series(piece))
    >>> csv_sample(["quantity"], [quantity]).dtypes.tolist()
    [dtype('float64')]
    """
    rows = max(len(column.all) for column in witnesses)
    texts = [column.all + column.all[-1:] * (rows - len(column.all)) for column in witnesses]
    file = io.StringIO()
    # a column more, as a row that is empty would be passed over
    pd.DataFrame([*zip(*texts, ["end"] * rows, strict=True)]).to_csv(file, header=False, index=False)
    file.seek(0)
    sample = with_dates(pd.read_csv(file, header=None, low_memory=False)).iloc[:, :-1]
    return sample.set_axis(list(columns), axis=1)


class ParquetWitnesses:
    """Values from a column of a parquet file: one, the finest if they are times, and a gap if there is one."""

    def __init__(self) -> None:
        self.gap: pa.Array | None = None
        self.value: pa.Array | None = None
        self.rank = -1

    def see(self, column: pa.Array) -> None:
        """Some more rows."""
        if pa.types.is_dictionary(column.type):
            before = [] if self.value is None else [self.value]
            column = pa.chunked_array([*before, column]).unify_dictionaries().combine_chunks()
            column = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
            self.rank = -1  # the latest holds all categories so far
        if column.null_count and self.gap is None:
            self.gap = pa.nulls(1, column.type)
        if column.null_count == len(column):
            return
        rank = fineness(column.to_pandas()) if pa.types.is_temporal(column.type) else column.is_valid().to_numpy(False)
        at = int(np.argmax(rank))
        if int(rank[at]) > self.rank:
            self.rank, self.value = int(rank[at]), column.slice(at, 1)

    @property
    def all(self) -> list[pa.Array]:
        """At most two."""
        return [value for value in (self.value, self.gap) if value is not None]


def parquet_sample(schema: pa.Schema, witnesses: Sequence[ParquetWitnesses]) -> pd.DataFrame:
    """A table of witnesses, with the types of the table they are from."""
    columns = [pa.chunked_array([*column.all, column.all[-1]][:2]) for column in witnesses]
    return pa.Table.from_arrays(columns, schema=schema).to_pandas().reset_index(drop=True)


def fineness(column: pd.Series) -> NDArray[Any]:
    """How finely each time or duration must be written: 0 for whole days, 1 for seconds, and so on; −1 for none."""
    if column.dtype.kind not in "mM":
        return column.notna().to_numpy() - 1
    rank = np.zeros(len(column), int)
    second = PER_SECOND[column.dt.unit]
    counts = column.astype("int64").to_numpy()
    for step in (86400 * second, second, second // 10**3, second // 10**6):
        rank += counts % max(step, 1) != 0
    return np.where(column.isna(), -1, rank)
