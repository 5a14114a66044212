# SPDX-License-Identifier: Apache-2.0
"""Other libraries' classifiers on a table with columns of every kind."""

import importlib.util

import numpy as np
import pandas as pd
import pytest

from fpovi.baselines import classifiers

METHODS = [classifiers.logistic_regression, classifiers.random_forest]
if importlib.util.find_spec("catboost"):
    METHODS.append(classifiers.catboost)


def mixed(rows=400):
    rng = np.random.default_rng(0)
    words = rng.choice(["red", "green", "blue"], rows)
    frame = pd.DataFrame(
        {
            "number": np.where(rng.random(rows) < 0.1, np.nan, rng.normal(size=rows)),
            "word": pd.Series(words, dtype=object).where(rng.random(rows) > 0.1, None),
            "level": pd.Categorical(rng.choice(["low", "high"], rows), ["low", "high"], ordered=True),
            "true": rng.random(rows) < 0.5,
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1000, rows), "D"),
        }
    )
    return frame, np.where(words == "red", "warm", "cold")


@pytest.mark.parametrize("method", METHODS)
def test_probabilities_of_new_rows_find_what_decides(method):
    x, y = mixed()
    new = x.iloc[300:].copy()
    new.loc[new.index[0], "word"] = "never seen"
    probs = method(0, x.iloc[:300], y[:300], new)
    assert probs.shape == (100, 2)
    np.testing.assert_allclose(probs.sum(axis=1), 1)
    # a tenth of the words is missing, and a third of these are red
    assert np.mean(np.where(probs[:, 1] > 0.5, "warm", "cold") == y[300:]) > 0.9
    np.testing.assert_array_equal(probs, method(0, x.iloc[:300], y[:300], new))
