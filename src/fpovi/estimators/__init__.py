# SPDX-License-Identifier: Apache-2.0
"""Bayesian neural networks as scikit-learn estimators."""

from fpovi.estimators.classifier import BNNClassifier
from fpovi.estimators.reading import load
from fpovi.estimators.regressor import BNNRegressor
from fpovi.export.program import export_inputs

__all__ = ["BNNClassifier", "BNNRegressor", "export_inputs", "load"]
