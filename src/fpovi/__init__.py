# SPDX-License-Identifier: Apache-2.0
"""fpovi: Bayesian neural networks whose particles are functions."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fpovi import flows, kernels, likelihoods, measurement, networks, priors
    from fpovi._fast.compile_cache import keep_programs
    from fpovi.estimators import BNNClassifier, BNNRegressor, export_inputs, load
    from fpovi.inference import Run, exact, function_space, gauss_newton, make_batch, run, weight_space
    from fpovi.predictive import Predictive, predict
    from fpovi.types import Algorithm, Batch, DivergedError, Info, Network, ParametrisedAlgorithm, Scales, State

    __version__: str

__all__ = [
    "Algorithm",
    "BNNClassifier",
    "BNNRegressor",
    "Batch",
    "DivergedError",
    "Info",
    "Network",
    "ParametrisedAlgorithm",
    "Predictive",
    "Run",
    "Scales",
    "State",
    "__version__",
    "exact",
    "export_inputs",
    "flows",
    "function_space",
    "gauss_newton",
    "keep_programs",
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

# Imported when first asked for, as JAX, scikit-learn and pandas take seconds: who wants the parts or the version only
# does not wait for all.
_MODULES = ("flows", "kernels", "likelihoods", "measurement", "networks", "priors")
_HOMES = {
    "estimators": ("BNNClassifier", "BNNRegressor", "export_inputs", "load"),
    "inference": ("Run", "exact", "function_space", "gauss_newton", "make_batch", "run", "weight_space"),
    "predictive": ("Predictive", "predict"),
    "_fast.compile_cache": ("keep_programs",),
    "types": ("Algorithm", "Batch", "DivergedError", "Info", "Network", "ParametrisedAlgorithm", "Scales", "State"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


if not TYPE_CHECKING:  # or type checkers would take any name to exist

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            from importlib.metadata import version

            found: Any = version("fpovi")
        elif name in _MODULES:
            found = import_module(f"fpovi.{name}")
        elif name in _HOME:
            found = getattr(import_module(f"fpovi.{_HOME[name]}"), name)
        else:
            raise AttributeError(f"module 'fpovi' has no attribute {name!r}")
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
