# SPDX-License-Identifier: Apache-2.0
"""Fitted estimators from files, and the inputs of exported ones."""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from fpovi.estimators.base import BaseBNN
from fpovi.estimators.classifier import BNNClassifier
from fpovi.estimators.regressor import BNNRegressor
from fpovi.fitting.model_file import read_model
from fpovi.persistence import FileError

ESTIMATORS: dict[str, type[BaseBNN]] = {"BNNRegressor": BNNRegressor, "BNNClassifier": BNNClassifier}


def load(path: str | os.PathLike[str], **objects: Any) -> Any:
    """Return the model in a file, ready to predict. Nothing in the file is run.

    Args:
        path: a file that ``save`` wrote.
        objects: parts that were given as objects and not by name. A network, an activation and a likelihood are needed;
            flow, kernel, prior and measurement set only to learn again.

    Raises:
        ValueError: of one line, for a file that is damaged, altered or of a newer fpovi.
    """
    found = read_model(path, objects)
    try:
        model = ESTIMATORS[found.estimator](**found.settings)
    except Exception as error:  # settings that no estimator has, or of other types
        raise FileError(
            f"{os.fspath(path)} is a model file, but not a sound one: {str(error).splitlines()[0]}"
        ) from error
    model.fitted_, model.n_features_in_ = found.fitted, found.n_features
    if found.columns is not None:
        model.feature_names_in_ = np.asarray(found.columns, object)
    if found.target_names is not None:
        model.target_names_ = found.target_names
    return model


def export_inputs(model: Any, X: Any) -> NDArray[np.float64]:
    """Return the array that an exported program takes for a table.

    Args:
        model: the estimator that was exported.
        X: rows with the columns seen in training. A category unseen in training is an error or missing, as the
            estimator's ``unknown`` says.

    Returns:
        Numbers ``(N, columns)``.
    """
    check_is_fitted(model)
    return model.fitted_.encoder.numbers(X, unknown=model.unknown)
