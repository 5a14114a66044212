# SPDX-License-Identifier: Apache-2.0
"""Bayesian neural networks as scikit-learn estimators."""

from fpovi.estimators.classifier import BNNClassifier
from fpovi.estimators.files import export_inputs, load
from fpovi.estimators.inputs import FitWarning
from fpovi.estimators.regressor import BNNRegressor

__all__ = ["BNNClassifier", "BNNRegressor", "FitWarning", "export_inputs", "load"]
