# SPDX-License-Identifier: Apache-2.0
"""Check the rows that users give, and learn how to encode them; a failed fit leaves no trace."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import _check_sample_weight, validate_data

from fpovi.tabular import ArrayEncoder, Encoder, learn_encoder
from fpovi.tabular.arrays import AUTO, as_rows, is_array, learn_arrays, seems_channels_first

MIN_ROWS = 2


class FitWarning(UserWarning):
    """Raised as a warning when diagnostics find the fit unreliable."""


def check_rows(model: Any, X: Any, y: Any, sample_weight: Any, reset: bool) -> tuple[Any, NDArray[np.float64]]:
    """Return X as rows, names and number of columns noted or compared, and one finite weight per row.

    Args:
        model: the estimator that notes them.
        X, y, sample_weight: as in ``fit``.
        reset: whether to note names and number of columns, or to compare them with those noted.
    """
    if y is None:
        raise ValueError(f"{type(model).__name__} requires y to be passed, but the target y is None")
    given, X = X, as_rows(X)
    validate_data(model, given, reset=reset, skip_check_array=True)
    check_consistent_length(X, y)
    rows = X.shape[0]
    if reset and rows < MIN_ROWS:
        raise ValueError(f"X has n_samples={rows} rows, but at least {MIN_ROWS} are needed to learn from")
    weight = _check_sample_weight(sample_weight, np.zeros((rows, 1)), dtype=np.float64, ensure_non_negative=True)
    if np.sum(weight > 0) < (MIN_ROWS if reset else 1):
        raise ValueError(f"sample_weight leaves {np.sum(weight > 0)} rows, but at least {MIN_ROWS} are needed")
    return X, weight


def check_columns(model: Any, X: Any) -> Any:
    """Return X as rows with as many columns, and as called, as those that a fitted estimator has seen."""
    table = as_rows(X)
    if isinstance(model.fitted_.encoder, ArrayEncoder):
        model.fitted_.encoder.check(table)
    validate_data(model, X if hasattr(X, "iloc") else table, reset=False, skip_check_array=True)
    return table


def learn_inputs(model: Any, X: Any, weight: NDArray[np.float64]) -> Encoder | ArrayEncoder:
    """Learn to encode tables column by column, and to scale arrays for a user's own network as they are.

    Args:
        model: an estimator, whose settings ``network``, ``scaling`` and ``max_categories`` count.
        X: rows, all of positive weight.
        weight: one number per row.
    """
    chosen = model.scaling != AUTO
    if not chosen and seems_channels_first(X.shape[1:]):
        warnings.warn(
            f"X has rows of shape {X.shape[1:]}, which look like channels first; scaling and measurement sets take "
            'the last axis for channels: np.moveaxis(X, 1, -1), or scaling="whole" and a measurement of your own',
            FitWarning,
            stacklevel=3,
        )
    if is_array(X) and (model.network is not None or chosen or X.ndim > 2):
        return learn_arrays(X, weight, model.scaling)
    if chosen:
        raise ValueError(f"scaling={model.scaling!r} is for arrays of numbers: the columns of a table have their own")
    # how many columns a network of the user's own takes must not depend on which of them vary
    return learn_encoder(X, weight, max_categories=model.max_categories, every_column=model.network is not None)


@contextmanager
def restored_on_failure(model: object) -> Iterator[None]:
    """Give ``model`` back the attributes it came with if what is done inside fails or is interrupted.

    Attributes are replaced in a fit and never changed in place, so remembering which they were is enough.
    """
    before = dict(vars(model))
    try:
        yield
    except BaseException:
        vars(model).clear()
        vars(model).update(before)
        raise
