# SPDX-License-Identifier: Apache-2.0
r"""Predictions for a population in which classes have other shares than in training.

If only the shares of classes differ, and not what rows of a class look like, the probabilities there are

.. math:: p'(c \mid x) \propto p(c \mid x)\, \pi'_c / \pi_c

Reference: Saerens, Latinne, Decaestecker (2002), "Adjusting the outputs of a classifier to new a priori probabilities".
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fpovi.predictive import Predictive
from fpovi.types import Numbers, Support

STEPS = 1000  # of the search for shares


def with_class_shares(predictive: Predictive, trained: Numbers, shares: Numbers) -> Predictive:
    """Return what is predicted where classes have other shares; every particle is re-weighted by itself.

    Args:
        predictive: of classes.
        trained: the shares, or numbers of rows, ``(k,)`` of the classes in training, in the order of ``probs``; with
            ``class_weight``, the sums of weights.
        shares: those of the other population, in any unit.

    >>> from fpovi.predictive import of_classes
    >>> even = of_classes(np.log([[[0.5, 0.5]]]))
    >>> print(with_class_shares(even, trained=[50, 50], shares=[1, 3]).probs.round(2))
    [[0.25 0.75]]
    """
    ratio = _shares(predictive, shares, "shares") / _shares(predictive, trained, "trained")
    f = jax.nn.log_softmax(predictive.f + jnp.log(jnp.asarray(ratio, predictive.f.dtype)))
    return Predictive(predictive.likelihood, f, predictive.params, predictive.shift, predictive.scale)


def estimate_class_shares(predictive: Predictive, trained: Numbers) -> Float[np.ndarray, " k"]:
    """Return the shares of classes under which unlabelled rows are likeliest, for :func:`with_class_shares`.

    Expectation and maximisation by turns: shares become the mean of the probabilities under them.

    Args:
        predictive: of classes, for many rows of the other population.
        trained: the shares, or numbers of rows, ``(k,)`` of the classes in training.
    """
    before = _shares(predictive, trained, "trained")
    return np.asarray(_estimate(predictive.probs, jnp.asarray(before, predictive.f.dtype)), np.float64)


@jax.jit
def _estimate(probs: Float[Array, "B k"], before: Float[Array, " k"]) -> Float[Array, " k"]:
    def step(_: Array, shares: Float[Array, " k"]) -> Float[Array, " k"]:
        weighted = probs * (shares / before)
        return jnp.mean(weighted / jnp.sum(weighted, axis=1, keepdims=True), axis=0)

    return jax.lax.fori_loop(0, STEPS, step, before)


def _shares(predictive: Predictive, shares: Numbers, name: str) -> Float[np.ndarray, " k"]:
    """Return shares that sum to one, or raise a ``ValueError``."""
    if predictive.likelihood.support is not Support.CLASSES:
        raise ValueError("predictive is of numbers, but shares are those of classes")
    found, k = np.asarray(shares, np.float64), predictive.f.shape[-1]
    if found.shape != (k,) or not np.isfinite(found).all() or (found <= 0).any():
        raise ValueError(f"{name}={found.tolist()} must be {k} positive numbers, one for each class")
    return found / found.sum()
