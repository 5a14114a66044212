# SPDX-License-Identifier: Apache-2.0
"""fpovi: Bayesian neural networks whose particles are functions."""

from importlib.metadata import version

from fpovi import flows, kernels, likelihoods, measurement, networks, priors
from fpovi.batches import make_batch
from fpovi.estimators import BNNClassifier, BNNRegressor, export_inputs, load
from fpovi.inference import exact, function_space, weight_space
from fpovi.loop import Run, run
from fpovi.predictive import Predictive, predict
from fpovi.types import Algorithm, Batch, DivergedError, Info, Network, Recipe, Scales, State

__version__ = version("fpovi")

__all__ = [
    "Algorithm",
    "BNNClassifier",
    "BNNRegressor",
    "Batch",
    "DivergedError",
    "Info",
    "Network",
    "Predictive",
    "Recipe",
    "Run",
    "Scales",
    "State",
    "__version__",
    "exact",
    "export_inputs",
    "flows",
    "function_space",
    "kernels",
    "likelihoods",
    "load",
    "make_batch",
    "measurement",
    "networks",
    "predict",
    "priors",
    "run",
    "weight_space",
]
