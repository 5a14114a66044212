# SPDX-License-Identifier: Apache-2.0
"""Other libraries' classifiers, called alike: each learns a data frame and returns probabilities for new rows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fpovi._lookup import import_extra

MOST_ITERATIONS = 2000
Probabilities = NDArray[np.float64]
Classifier = Callable[[int, pd.DataFrame, NDArray[Any], pd.DataFrame], Probabilities]


def logistic_regression(seed: int, x: pd.DataFrame, y: NDArray[Any], x_new: pd.DataFrame) -> Probabilities:
    """Fit scikit-learn's logistic regression on standardised numbers and indicators of categories.

    Args:
        seed: its random state.
        x: training rows, columns of any kind.
        y: their classes, shape (N,).
        x_new: where to predict, M rows.

    Returns:
        Probabilities of the classes in sorted order, shape (M, classes).
    """
    return _fitted(LogisticRegression(max_iter=MOST_ITERATIONS, random_state=seed), x, y, x_new)


def random_forest(seed: int, x: pd.DataFrame, y: NDArray[Any], x_new: pd.DataFrame) -> Probabilities:
    """Fit scikit-learn's random forest of 500 trees. Args and result are those of :func:`logistic_regression`."""
    return _fitted(RandomForestClassifier(500, random_state=seed), x, y, x_new)


def catboost(seed: int, x: pd.DataFrame, y: NDArray[Any], x_new: pd.DataFrame) -> Probabilities:
    """Fit CatBoost with its default settings, categories as they are.

    Args and result are those of :func:`logistic_regression`.
    """
    library = import_extra("catboost", "compare", "method catboost")
    x, x_new = _plain(x), _plain(x_new)
    words = [name for name in x if not pd.api.types.is_numeric_dtype(x[name])]
    x, x_new = (frame.assign(**{name: frame[name].fillna("missing") for name in words}) for frame in (x, x_new))
    model = library.CatBoostClassifier(random_seed=seed, verbose=False, allow_writing_files=False, cat_features=words)
    return np.asarray(model.fit(x, y).predict_proba(x_new), np.float64)


def _fitted(model: Any, x: pd.DataFrame, y: NDArray[Any], x_new: pd.DataFrame) -> Probabilities:
    numbers = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    words = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=5)
    encode = make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")), (words, make_column_selector(dtype_exclude="number"))
    )
    return np.asarray(make_pipeline(encode, model).fit(_plain(x), y).predict_proba(_plain(x_new)), np.float64)


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Return booleans and times as numbers, and categories as text, None where missing."""
    columns: dict[str, Any] = {}
    for name, column in frame.items():
        if pd.api.types.is_datetime64_any_dtype(column):
            columns[str(name)] = column.astype("int64").where(column.notna()) / 1e9
        elif pd.api.types.is_numeric_dtype(column):  # booleans too
            columns[str(name)] = column.astype("float64")
        else:
            columns[str(name)] = column.astype(object).where(column.notna(), None).map(str, na_action="ignore")
    return pd.DataFrame(columns, index=frame.index)
