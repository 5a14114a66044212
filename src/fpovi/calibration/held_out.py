# SPDX-License-Identifier: Apache-2.0
"""Check held-out targets and weights, and compute in float64."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from fpovi.predictive import Predictive
from fpovi.types import Numbers, Support

Array64 = NDArray[np.float64]

# compiled once for every shape, not one operation at a time
mean = jax.jit(lambda predictive: predictive.mean)
mean_and_std = jax.jit(lambda predictive: (predictive.mean, predictive.std))
log_prob = jax.jit(lambda predictive, y: predictive.log_prob(y))
cdf = jax.jit(lambda predictive, y: predictive.cdf(y))


def compute_in_float64(predictive: Predictive, function: Callable[..., Any], *args: Any) -> Any:
    """Return ``function(predictive, *args)`` in float64, so that what is close to 0 or 1 keeps its digits."""
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf, np.float64)), predictive)
        return jax.tree.map(np.asarray, function(wide, *args))


def checked_targets(predictive: Predictive, y: Numbers) -> NDArray[Any]:
    """Return y as ``(B, m)``, or raise a ``ValueError`` unless all are finite and possible for the likelihood."""
    y = np.asarray(y)
    y = y[:, None] if y.ndim == 1 else y
    num_outputs = predictive.f.shape[-1]
    wanted = (predictive.f.shape[1], predictive.likelihood.targets(num_outputs))
    if y.shape != wanted:
        raise ValueError(f"y has shape {y.shape}, but {wanted} is needed: a row for every input")
    if y.size == 0:
        raise ValueError("y is empty, but at least one row is needed")
    if y.dtype.kind not in "biuf":
        raise ValueError(f"y has dtype {y.dtype}, but numbers are needed")
    missing = np.sum(~np.isfinite(y))
    if missing:
        raise ValueError(f"y has {missing} values that are not finite: leave those rows out")
    f = np.asarray(predictive.f)  # the logarithm of a class's probability may be −∞
    if np.any(np.isnan(f) if predictive.likelihood.support.atoms else ~np.isfinite(f)):
        raise ValueError("predictive holds values that are not finite: the particles or the inputs are not")
    y = y.astype(np.int64) if y.dtype.kind in "biu" else y.astype(np.float64)
    predictive.likelihood.check(y, num_outputs)
    return y if predictive.likelihood.support is Support.CLASSES else y.astype(np.float64)


def refuse_classes(predictive: Predictive, name: str) -> None:
    """Raise a ``ValueError`` if targets are classes; ``name`` is the function that was called."""
    if predictive.likelihood.support is Support.CLASSES:
        raise ValueError(f"{name} is for targets with an order, but these are classes: see nll, brier and ece")


def require_classes(predictive: Predictive, name: str) -> None:
    """Raise a ``ValueError`` unless targets are classes or 0 and 1; ``name`` is the function that was called."""
    if not predictive.likelihood.support.labels:
        raise ValueError(f"{name} is for classes (categorical, bernoulli), but these targets are numbers: see crps")


def normalised_weights(sample_weight: Numbers | None, rows: int) -> Array64:
    """Return weights ``(B,)`` that sum to 1, equal ones by default."""
    if sample_weight is None:
        return np.full(rows, 1 / rows)
    weight = np.asarray(sample_weight, np.float64)
    if weight.shape != (rows,):
        raise ValueError(f"sample_weight has shape {weight.shape}, but {(rows,)} is needed: one for every row")
    if not np.all(np.isfinite(weight)) or np.any(weight < 0) or not np.any(weight > 0):
        raise ValueError("sample_weight must be finite and not negative, and some of it positive")
    return weight / weight.sum()


def weighted_mean(values: NDArray[Any], sample_weight: Numbers | None) -> float:
    """Return the weighted mean over rows of the plain mean over a row's targets."""
    each = values.reshape(len(values), -1).mean(axis=1)
    return float(normalised_weights(sample_weight, len(values)) @ each)


def class_probs(predictive: Predictive) -> Array64:
    """Return the class probabilities of every target, shape ``(B, m, k)``; for 0 or 1, k is 2."""
    probs = compute_in_float64(predictive, mean)
    if predictive.likelihood.support is Support.CLASSES:
        return probs[:, None, :]
    return np.stack([1 - probs, probs], axis=-1)
