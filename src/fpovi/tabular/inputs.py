# SPDX-License-Identifier: Apache-2.0
"""Find the inputs of a fitted model in a new table, and name the first value that it cannot take."""

from collections.abc import Iterable

import pandas as pd

from fpovi.tabular.encoder import Encoder
from fpovi.tabular.files import TableError
from fpovi.tabular.frame import Columns, align


def learned_inputs(frame: pd.DataFrame, columns: Columns) -> pd.DataFrame:
    """Return the learned columns of a table in the learned order.

    Args:
        frame: a table as :func:`~fpovi.tabular.files.read_table` reads it.
        columns: the columns that were learned.

    Raises:
        ValueError: if columns are absent, or text stands where numbers were learned.
    """
    inputs = align(frame, columns)
    for i, kind in enumerate(columns.kinds):
        _refuse_words(inputs.iloc[:, i], kind, columns.label(i))
    return inputs


def first_fault(chunks: Iterable[pd.DataFrame], encoder: Encoder, unknown: str) -> ValueError | None:
    """Return the error that all rows of a table at once would give :func:`learned_inputs` and then the encoder, if any.

    These go column by column, so that a fault in the last rows of the first column comes before one in the first rows
    of the second.

    Args:
        chunks: the table, some rows at a time.
        encoder: that of the fitted model.
        unknown: "error" or "missing", as the encoder takes it.
    """
    columns, faults = encoder.columns, dict[tuple[int, int], ValueError]()
    for chunk in chunks:
        inputs = align(chunk, columns)
        for i, (kind, learned) in enumerate(zip(columns.kinds, encoder.learned, strict=True)):
            column, label = inputs.iloc[:, i], columns.label(i)
            looks = (lambda: _refuse_words(column, kind, label)), (lambda: learned.numbers(column, label, unknown))  # noqa: B023
            for turn, look in enumerate(looks):
                try:
                    look()
                except ValueError as error:
                    faults.setdefault((turn, i), error)
    return faults[min(faults)] if faults else None


def first_word(column: pd.Series) -> str | None:
    """Show the first value of a column of text that is no number, with its row."""
    present = column.dropna()
    words = present[pd.to_numeric(present, errors="coerce").isna()]
    return f"{words.iloc[0]!r} at row {words.index[0]}" if len(words) else None


def _refuse_words(column: pd.Series, kind: str, label: str) -> None:
    if kind == "number" and pd.api.types.is_string_dtype(column) and (stray := first_word(column)):
        raise TableError(f"{label} has {stray}, where numbers were seen in fit")
