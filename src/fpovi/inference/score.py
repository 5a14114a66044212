# SPDX-License-Identifier: Apache-2.0
"""What pulls function values: the score of the data at the labelled points, and of the prior at a few points of all.

Scores are kept flat, (n, B·k), labelled points first: loops over a last axis of length 1 are slow on a CPU.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from fpovi.inference.step import weighted_log_likelihood
from fpovi.types import Batch, FunctionPrior, Key, Likelihood, PyTree, Scalar


def in_rows(f: Float[Array, "n B k"]) -> Float[Array, "n d"]:
    """The values of each particle in a row."""
    return f.reshape(f.shape[0], -1)


def likelihood_score(
    likelihood: Likelihood, params: PyTree, f: Float[Array, "n B k"], batch: Batch
) -> tuple[Scalar, PyTree, Float[Array, "n d"]]:
    """Log-likelihood per datum, and the score in the likelihood's parameters and in f at the labelled points."""
    rows, k = batch.x.shape[0], f.shape[-1]

    def fit(params: PyTree, labelled: Float[Array, "n d"]) -> tuple[Scalar, Scalar]:
        return weighted_log_likelihood(likelihood, params, labelled.reshape(-1, rows, k), batch)

    climb = jax.value_and_grad(fit, argnums=(0, 1), has_aux=True)
    (_, log_lik), (in_params, in_f) = climb(params, in_rows(f)[:, : rows * k])
    return log_lik, in_params, in_f


def prior_points(key: Key, weight: Float[Array, "B_ _"], total: int, size: int | None) -> Int[Array, " size"]:
    """Which measurement points feel the prior: half labelled, half extra, without repetition; padding last."""
    labelled = weight.shape[0]
    if size is None or size >= total:
        return jnp.arange(total)
    from_extra = size - min(max(size // 2, size - (total - labelled)), labelled)
    key_labelled, key_extra = jax.random.split(key)
    rank = jnp.where(jnp.any(weight > 0, axis=1), jax.random.uniform(key_labelled, (labelled,)), -1)
    _, first = jax.lax.top_k(rank, size - from_extra)  # on a CPU 30 times as fast as to sort 1,000 rows
    _, second = jax.lax.top_k(jax.random.uniform(key_extra, (total - labelled,)), from_extra)
    return jnp.concatenate([first, labelled + second])


def prior_score(
    prior: FunctionPrior, key: Key, carry: PyTree, f: Float[Array, "n B k"], x: Float[Array, "B *d_x"], *outputs: Array
) -> tuple[Float[Array, "n B k"], PyTree]:
    """The prior's score, and what it carries from step to step."""
    if prior.advance is None:
        return prior.score(key, f, x, *outputs), carry
    return prior.advance(key, carry, f, x, *outputs)


def score_everywhere(
    f: Float[Array, "n B k"],
    from_data: Float[Array, "n d_"],
    from_prior: Float[Array, "n size k"],
    chosen: Int[Array, " size"],
) -> Float[Array, "n d"]:
    """Their sum at all points, each zero where it does not reach.

    >>> from_data, from_prior = jnp.asarray([[1.0]]), jnp.asarray([[[5.0], [7.0]]])
    >>> score_everywhere(jnp.zeros((1, 3, 1)), from_data, from_prior, jnp.asarray([0, 2])).tolist()
    [[6.0, 0.0, 7.0]]
    """
    score = in_rows(jnp.zeros_like(f).at[:, chosen].set(from_prior))
    # in place: a sum with padding would not be vectorised
    return jax.lax.dynamic_update_slice(score, score[:, : from_data.shape[1]] + from_data, (0, 0))
