# SPDX-License-Identifier: Apache-2.0
r"""A prior on some of the outputs: k may be a thousand classes, of which a step looks at c.

A Gaussian over logits tells nothing of their common shift, so with ``centred`` it is one over
:math:`f - \bar f`, with covariance :math:`C \otimes (I - 11^T/k)`. Its marginal on c < k of the outputs is not
degenerate: :math:`(I - 11^T/k)_{cc}^{-1} = I + 11^T/(k-c)`. Where every point has outputs of its own, ``(B, c)``, the
marginal is no product any more, and :func:`precision_times` inverts it as one matrix.
"""

import jax.numpy as jnp
from jax.scipy.linalg import cho_factor, cho_solve
from jaxtyping import Array, Float, Int

from fpovi.types import Likelihood, Support

Outputs = Int[Array, " c"] | Int[Array, "B c"] | None


def is_for_classes(likelihood: Likelihood | None) -> bool:
    """Tell whether a prior for this likelihood is over normalised logits."""
    return likelihood is not None and likelihood.support is Support.CLASSES


def pick(f: Float[Array, "*n B k"], outputs: Outputs, centred: bool = False) -> Float[Array, "*n B c"]:
    """Return the outputs that the prior is about."""
    f = f - jnp.mean(f, axis=-1, keepdims=True) if centred else f
    if outputs is None or outputs.ndim == 1:
        return f if outputs is None else f[..., outputs]
    return jnp.take_along_axis(f, jnp.broadcast_to(outputs, (*f.shape[:-1], outputs.shape[-1])), axis=-1)


def put_back(score: Float[Array, "*n B c"], outputs: Outputs, k: int, centred: bool = False) -> Float[Array, "*n B k"]:
    """Return the derivative in f of a function of ``pick(f)``, given its derivative there."""
    if outputs is None:
        whole = score
    else:
        own = (outputs,) if outputs.ndim == 1 else (jnp.arange(outputs.shape[0])[:, None], outputs)
        whole = jnp.zeros((*score.shape[:-1], k), score.dtype).at[(..., *own)].set(score)
    return whole - jnp.mean(whole, axis=-1, keepdims=True) if centred else whole


def precision_across(picked: Float[Array, "*n B c"], k: int, centred: bool) -> Float[Array, "*n B c"]:
    """Return ``picked`` times the (pseudo-)inverse of the covariance between its c of k outputs."""
    c = picked.shape[-1]
    return picked + jnp.sum(picked, axis=-1, keepdims=True) / (k - c) if centred and c < k else picked


def degrees_of_freedom(c: int, k: int, centred: bool) -> int:
    """Return how many of c outputs vary freely."""
    return c - 1 if centred and c == k else c


def for_precision(
    f: Float[Array, "n B k"], outputs: Outputs, centred: bool
) -> tuple[Float[Array, "n B c"], tuple[Float[Array, "B c B c"], ...]]:
    """Return the two last arguments of :func:`precision_times` for the chosen outputs of f."""
    k, picked = f.shape[-1], pick(f, outputs, centred)
    if outputs is None or outputs.ndim == 1:
        return precision_across(picked, k, centred), ()
    same = (outputs[:, :, None, None] == outputs).astype(f.dtype)
    return picked, (same - 1 / k if centred else same,)


def precision_times(
    covariance: Float[Array, "B B"], picked: Float[Array, "n B c"], across: tuple[Float[Array, "B c B c"], ...] = ()
) -> Float[Array, "n B c"]:
    """Return the inverse of the covariance of the chosen values, times these values.

    Args:
        covariance: between points, the same for each output.
        picked: the chosen values; where all points have the same outputs, times the precision across these.
        across: one covariance between outputs, where points have their own.
    """
    n, points, c = picked.shape
    if across:
        joint = (covariance[:, None, :, None] * across[0]).reshape(points * c, -1)
        return cho_solve(cho_factor(joint), picked.reshape(n, -1).T).T.reshape(picked.shape)
    stacked = jnp.moveaxis(picked, 1, 0).reshape(points, -1)
    solved = cho_solve((jnp.linalg.cholesky(covariance), True), stacked)
    return jnp.moveaxis(solved.reshape(points, n, c), 0, 1)
