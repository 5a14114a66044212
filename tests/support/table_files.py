# SPDX-License-Identifier: Apache-2.0
"""A table for the tests of files, and what is expected of refusals."""

import numpy as np
import pandas as pd
import pytest

from fpovi.tabular.files import TableError


def mixed_frame():
    """A column of every type that a CSV file can hold."""
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "number": rng.normal(size=50) * 10 ** rng.uniform(-300, 300, 50),
            "count": rng.integers(-5, 5, 50),
            "word, quoted": rng.choice(['a "b"', "c\td", "e\nf", "ü"], 50),
            "truth": rng.choice([True, False], 50),
            "day": pd.date_range("2024-01-01", periods=50, unit="us"),
            "gaps": [None, 1.5] * 25,
        }
    )


def refused(action, *args, **options) -> str:
    with pytest.raises(TableError) as caught:
        action(*args, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


def put(path, content: bytes):
    path.write_bytes(content)
    return path
