# SPDX-License-Identifier: Apache-2.0
"""What estimators take for X."""

from typing import Any

import numpy as np
from scipy.sparse import issparse


def as_table(X: Any) -> Any:
    """A data frame as it is, all else as an array of rows and columns; words and numbers stay what they are."""
    if issparse(X):
        raise ValueError("X is sparse, but sparse input is not supported: use X.toarray()")
    if not hasattr(X, "iloc"):
        X = np.asarray(X, object) if isinstance(X, list | tuple) else np.asarray(X)
    if X.ndim != 2:
        raise ValueError(
            f"X has shape {X.shape}, but rows and columns (N, d) are needed. Reshape your data: "
            "X.reshape(-1, 1) if it has a single feature, X.reshape(1, -1) if it is a single row"
        )
    return X
