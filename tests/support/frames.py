# SPDX-License-Identifier: Apache-2.0
"""Tables for the tests of the encoder: every kind of column, and strategies that make them up."""

import datetime as dt

import numpy as np
import pandas as pd
from hypothesis import strategies as st

NUMBERS = st.one_of(
    st.floats(-1e6, 1e6),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-3, 3).map(float),
    st.just(np.nan),
)
WORDS = st.one_of(st.sampled_from(["a", "b", "c", "ä"]), st.text(max_size=3), st.none())
TIMES = st.one_of(
    st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1)).map(lambda t: t.replace(microsecond=0)), st.none()
)


@st.composite
def tables(draw, max_rows=8):
    rows = draw(st.integers(1, max_rows))

    def column(values):
        return draw(st.lists(values, min_size=rows, max_size=rows))

    return pd.DataFrame(
        {
            "number": np.asarray(column(NUMBERS)),
            "word": pd.Series(column(WORDS), dtype=object),
            "time": pd.to_datetime(pd.Series(column(TIMES), dtype="datetime64[s]")),
            "truth": pd.array(column(st.sampled_from([True, False, None])), dtype="boolean"),
        }
    )


def every_kind():
    """Four rows of every kind of column a frame may have, each with something missing."""
    days = [dt.datetime(2024, 1, 1), None, dt.datetime(2024, 1, 3), dt.datetime(2024, 1, 7)]
    return pd.DataFrame(
        {
            "float": [1.5, np.nan, 2.0, 8.0],
            "Int64": pd.array([1, None, 3, 4], dtype="Int64"),
            "Float64": pd.array([1.5, None, 2.0, 8.0], dtype="Float64"),
            "boolean": pd.array([True, None, False, True], dtype="boolean"),
            "object of numbers": pd.Series([1, None, 2.5, True], dtype=object),
            "string": pd.array(["a", None, "b", "c"], dtype="string"),
            "object of strings": pd.Series(["a", None, "b", "a"], dtype=object),
            "mixed": pd.Series(["a", None, 2, 2.5], dtype=object),
            "category": pd.Categorical(["a", None, "b", "c"], categories=["unused", "c", "b", "a"]),
            "category of numbers": pd.Categorical([1, None, 2, 1]),
            "datetime": pd.to_datetime(pd.Series(days)),
            "datetime with zone": pd.to_datetime(pd.Series(days)).dt.tz_localize("Europe/Berlin"),
            "object of dates": pd.Series([day and day.date() for day in days], dtype=object),
            "timedelta": pd.to_timedelta(pd.Series([1, None, 2, 9]), unit="s"),
            "int64[pyarrow]": pd.array([1, None, 3, 4], dtype="int64[pyarrow]"),
            "string[pyarrow]": pd.array(["a", None, "b", "c"], dtype="string[pyarrow]"),
            "timestamp[us][pyarrow]": pd.array(days, dtype="timestamp[us][pyarrow]"),
        }
    )
