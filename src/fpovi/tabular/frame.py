# SPDX-License-Identifier: Apache-2.0
"""Take a table in whatever form a user has it, and find the learned columns in it."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd


class Columns(NamedTuple):
    """The columns of a table.

    Attributes:
        names: what they are called, or None where they go by position because not all labels are strings.
        kinds: what each holds: "number", "time", "duration", "category" or "empty".
    """

    names: tuple[str, ...] | None
    kinds: tuple[str, ...]

    def label(self, index: int) -> str:
        """Return what messages call a column."""
        return f"column {index}" if self.names is None else f"column {self.names[index]!r}"


def as_table(X: Any) -> Any:
    """Return a data frame as it is and all else as an array ``(N, d)``; words and numbers stay what they are."""
    if hasattr(X, "toarray"):
        raise ValueError("X is sparse, but sparse input is not supported: use X.toarray()")
    if not hasattr(X, "iloc"):
        # as objects, or a list that mixes numbers and words would become all words
        X = np.asarray(X, object) if isinstance(X, list | tuple) else np.asarray(X)
    if X.ndim != 2:
        raise ValueError(
            f"X has shape {X.shape}, but rows and columns (N, d) are needed. Reshape your data: "
            "X.reshape(-1, 1) if it has a single feature, X.reshape(1, -1) if it is a single row"
        )
    return X


def as_frame(X: Any) -> pd.DataFrame:
    """Return ``X`` as a frame whose index counts its rows, or raise a ``ValueError`` if it is no table of plain values.

    Rows from the middle of a longer table, ``frame[1000:2000]``, keep their numbers in that table.
    """
    table = as_table(X)
    if isinstance(table, pd.DataFrame):
        counted = isinstance(table.index, pd.RangeIndex) and table.index.step == 1
        frame = table if counted else table.reset_index(drop=True)
    else:
        array = np.asarray(table)
        if array.dtype.kind == "c":
            raise ValueError("X holds complex numbers. Complex data not supported: give real and imaginary parts")
        if array.dtype.kind not in "biufOUTMm":
            raise ValueError(f"X has values of type {array.dtype}, but numbers, strings or dates are needed")
        frame = pd.DataFrame(array)
    rows, columns = frame.shape
    if columns == 0:
        raise ValueError(f"X has 0 feature(s) (shape={frame.shape}) while a minimum of 1 is required.")
    if rows == 0:
        raise ValueError(f"X has 0 sample(s) (shape={frame.shape}) while a minimum of 1 is required.")
    return frame


def names_of(frame: pd.DataFrame) -> tuple[str, ...] | None:
    """Return the names of the columns if all of them are strings, else None: they go by position."""
    labels = list(frame.columns)
    if not all(isinstance(label, str) for label in labels):
        return None
    twice = sorted({label for label in labels if labels.count(label) > 1}) if len(set(labels)) < len(labels) else []
    if twice:
        raise ValueError(f"X has more than one column called {', '.join(map(repr, twice))}: names must be distinct")
    return tuple(str(label) for label in labels)


def align(X: Any, columns: Columns) -> pd.DataFrame:
    """Return ``X`` as a frame with the learned columns in the learned order.

    Where both sides have names, columns are found by name, and others that ``X`` may have are left out; otherwise
    they go by position, and their number must agree.

    Args:
        X: a data frame, or rows and columns ``(N, d)``.
        columns: the learned columns.

    Raises:
        ValueError: if learned columns are absent, or there are more or fewer of them.

    >>> align(pd.DataFrame({"b": [1], "c": [2], "a": [3]}), Columns(("a", "b"), ("number", "number")))
       a  b
    0  3  1
    """
    frame = as_frame(X)
    names = names_of(frame)
    if columns.names is not None and names is not None:
        present = set(names)
        absent = [name for name in columns.names if name not in present]
        if absent:
            more = f" and {len(absent) - 5} more" if len(absent) > 5 else ""
            raise ValueError(
                f"X lacks {len(absent)} of the columns seen in fit: {', '.join(map(repr, absent[:5]))}{more}"
            )
        return frame[list(columns.names)]
    if frame.shape[1] != len(columns.kinds):
        raise ValueError(f"X has {frame.shape[1]} features, but {len(columns.kinds)} were seen in fit")
    return frame
