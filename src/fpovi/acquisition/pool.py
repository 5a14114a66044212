# SPDX-License-Identifier: Apache-2.0
"""What the particles of a fitted model say of the rows of a pool, as NumPy arrays in the target's own units."""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fpovi.predictive import Predictive
from fpovi.tabular.predictions import predictive_blocks
from fpovi.types import Support


class Pool(NamedTuple):
    """What n particles say of N rows with m targets each; classes count as k targets, the probability of each.

    Attributes:
        support: what targets are.
        means: the mean of y for each particle; of classes their probabilities.
        noise: the variance of y that is left when f is known, the mean over particles.
        weights, centres, scales: y, given a particle, as a mixture of c normals. Where it is none, one normal of the
            same mean and variance.
    """

    support: Support
    means: Float[np.ndarray, "n N m"]
    noise: Float[np.ndarray, "N m"]
    weights: Float[np.ndarray, "n c N m"]
    centres: Float[np.ndarray, "n c N m"]
    scales: Float[np.ndarray, "n c N m"]

    def require_one_number(self, asker: str) -> None:
        """Raise a ``ValueError`` for classes and for several targets; ``asker`` is what cannot rank them."""
        if self.support is Support.CLASSES:
            raise ValueError(f"{asker} is for numbers, but these targets are classes: use bald or variance")
        if self.means.shape[2] != 1:
            raise ValueError(f"{asker} is for one target, but there are {self.means.shape[2]}: fit one, or use bald")

    @property
    def label_probs(self) -> Float[np.ndarray, "n N k"] | None:
        """The probability of every label for each particle, None where targets are not labels."""
        if self.support is Support.BINARY:
            return np.concatenate([1 - self.means, self.means], axis=2)
        return self.means if self.support is Support.CLASSES else None


def pool_of(model: Any, X: Any) -> Pool:
    """Return what the particles of a model say of the rows of X.

    Args:
        model: a fitted estimator, or anything else with a ``predict_dist`` that returns a :class:`~fpovi.Predictive`.
        X: N rows like those the model was fitted to.

    Raises:
        ValueError: for rows that the model cannot predict, or predicts without finite numbers.
    """
    if not hasattr(model, "predict_dist"):
        raise ValueError(f"model is a {type(model).__name__}, but a fitted estimator with predict_dist is needed")
    predictive = model.predict_dist(X)
    labels = predictive.likelihood.support.atoms
    # the estimators' own are float64: in float32, 1e9 and 1e9 + 1 are the same number
    units = model.fitted_.target.units if hasattr(model, "fitted_") else (predictive.shift, predictive.scale)
    shift, scale = (np.asarray(unit, np.float64) for unit in ((0.0, 1.0) if labels else units))
    zero, one = jnp.zeros_like(predictive.shift), jnp.ones_like(predictive.scale)
    standardised = replace(predictive, shift=zero, scale=one)
    parts = [
        jax.tree.map(lambda leaf, count=count: np.asarray(leaf, np.float64)[..., :count, :], _moments(block))
        for block, count in predictive_blocks(standardised)
    ]
    means, noise, weights, centres, scales = (np.concatenate(found, axis=-2) for found in zip(*parts, strict=True))
    if not all(np.isfinite(found).all() for found in (means, noise, scales)):
        raise ValueError("the model predicts values that are not finite: look at model.diagnose()")
    return Pool(
        predictive.likelihood.support, shift + scale * means, scale**2 * noise, weights, shift + scale * centres,
        scale * scales,
    )  # fmt: skip


@jax.jit
def _moments(predictive: Predictive) -> tuple[Float[Array, "..."], ...]:
    likelihood, n = predictive.likelihood, predictive.f.shape[0]
    means = predictive.particle_means
    variances = jax.vmap(likelihood.variance, axis_size=n)(predictive.params, predictive.f)
    if likelihood.normal_components is None:
        components = (jnp.ones_like(means)[:, None], means[:, None], jnp.sqrt(variances)[:, None])
    else:
        components = jax.vmap(likelihood.normal_components, axis_size=n)(predictive.params, predictive.f)
    return means, jnp.mean(variances, axis=0), *components
