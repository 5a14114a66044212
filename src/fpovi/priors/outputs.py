# SPDX-License-Identifier: Apache-2.0
r"""A prior on some of the outputs: k may be a thousand classes, of which a step looks at c.

A Gaussian over logits tells nothing of their common shift, so with ``centred`` it is one over
:math:`f - \bar f`, with covariance :math:`C \otimes (I - 11^T/k)`. Its marginal on c < k of the outputs is not
degenerate: :math:`(I - 11^T/k)_{cc}^{-1} = I + 11^T/(k-c)`.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from fpovi.types import Likelihood, Support

Outputs = Int[Array, " c"] | None


def is_for_classes(likelihood: Likelihood | None) -> bool:
    """Tell whether a prior for this likelihood is over normalised logits."""
    return likelihood is not None and likelihood.support is Support.CLASSES


def pick(f: Float[Array, "*n B k"], outputs: Outputs, centred: bool = False) -> Float[Array, "*n B c"]:
    """Return the outputs that the prior is about."""
    f = f - jnp.mean(f, axis=-1, keepdims=True) if centred else f
    return f if outputs is None else f[..., outputs]


def put_back(score: Float[Array, "*n B c"], outputs: Outputs, k: int, centred: bool = False) -> Float[Array, "*n B k"]:
    """Return the derivative in f of a function of ``pick(f)``, given its derivative there."""
    whole = score if outputs is None else jnp.zeros((*score.shape[:-1], k), score.dtype).at[..., outputs].set(score)
    return whole - jnp.mean(whole, axis=-1, keepdims=True) if centred else whole


def precision_across(picked: Float[Array, "*n B c"], k: int, centred: bool) -> Float[Array, "*n B c"]:
    """Return ``picked`` times the (pseudo-)inverse of the covariance between its c of k outputs."""
    c = picked.shape[-1]
    return picked + jnp.sum(picked, axis=-1, keepdims=True) / (k - c) if centred and c < k else picked


def degrees_of_freedom(c: int, k: int, centred: bool) -> int:
    """Return how many of c outputs vary freely."""
    return c - 1 if centred and c == k else c
