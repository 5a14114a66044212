# SPDX-License-Identifier: Apache-2.0
"""Independent Gaussians as the prior of the weights of any network."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array

from fpovi._fast.threefry import normals
from fpovi.types import Key, PyTree

ShapeStd = Callable[[tuple[int, ...]], float]


def gaussian_weights(
    init: Callable[[Key], tuple[PyTree, PyTree]], prior_std: float | ShapeStd | None, fan_axis: int
) -> tuple[Callable[[Key], PyTree], Callable[[PyTree], Array]]:
    """Return sample_prior and log_prior of independent Gaussians.

    Args:
        init: ``init(key)`` returns weights and state.
        prior_std: one standard deviation for all weights, or a function of an array's shape; by default 1/√(fan in) for
            arrays of several axes and 1 for vectors.
        fan_axis: the axis of weights that fans out.
    """

    def std(shape: tuple[int, ...]) -> float:
        if callable(prior_std):
            return prior_std(shape)
        if prior_std is not None:
            return float(prior_std)
        return (shape[fan_axis] / math.prod(shape)) ** 0.5 if len(shape) > 1 else 1.0

    def sample_prior(key: Key) -> PyTree:
        leaves, treedef = jax.tree.flatten(jax.eval_shape(init, key)[0])
        keys = jax.random.split(key, len(leaves))
        draws = [std(leaf.shape) * normals(k, leaf.shape, leaf.dtype) for k, leaf in zip(keys, leaves, strict=True)]
        return jax.tree.unflatten(treedef, draws)

    def log_prior(theta: PyTree) -> Array:
        densities = (jax.scipy.stats.norm.logpdf(leaf, scale=std(leaf.shape)) for leaf in jax.tree.leaves(theta))
        return sum((jnp.sum(density) for density in densities), start=jnp.zeros(()))

    return sample_prior, log_prior
