# SPDX-License-Identifier: Apache-2.0
"""The score of a step, ∂ log p(f | data)/∂f: of the likelihood at labelled points, of the prior at a few of all points.

Scores are kept flat, (n, B·k), labelled points first: loops over a last axis of length 1 are slow on a CPU.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from fpovi.inference.particles import over_particles
from fpovi.types import Batch, FunctionPrior, Key, Likelihood, PyTree, Scalar, Schedule, State

CONTEXT = 4  # of so many labelled rows one is seen by fresh networks that need the statistics of a batch
ChooseOutputs = Callable[[Key, Batch, int], Int[Array, " c"] | Int[Array, "B c"]]
Compare = Callable[[Float[Array, "n B k"], Batch], Float[Array, "B _"]]


def some_classes(count: int, classes: int) -> ChooseOutputs:
    """Return a choice of classes at which a step compares functions, for ``function_space(outputs=)``.

    All points share random classes; at a labelled point the true one is always among them, in the place of the last
    shared one where it is none of these. So classes are compared at a cost that does not grow with their number.

    Args:
        count: how many classes a point has, at least 2 and fewer than there are.
        classes: how many there are.

    Reference: Wang et al. (2019), appendix on adversarial examples.
    """
    if not 2 <= count < classes:
        raise ValueError(f"count={count} must be at least 2, and less than the number of classes, {classes}")

    def choose(key: Key, batch: Batch, points: int) -> Int[Array, "B c"]:
        shared = jax.random.permutation(key, classes)[:count]
        true = batch.y[:, :1].astype(shared.dtype)
        last = jnp.where(jnp.any(true == shared, axis=1), shared[-1], true[:, 0])
        everywhere = jnp.broadcast_to(shared, (points, count))
        return everywhere.at[: len(last), -1].set(last)

    return choose


class Score(NamedTuple):
    """The score at all points and what it is made of.

    ``noise`` is the direction of the likelihood's parameters, ``compared`` a factor on each value before the flow sees
    it (0 for what is not compared; a single 1 where all values count alike).
    """

    total: Float[Array, "n d"]
    likelihood: Float[Array, "n d_"]
    prior: Float[Array, "n size k"]
    noise: PyTree
    log_likelihood: Scalar
    prior_carry: PyTree
    compared: Array


def posterior_score(
    likelihood: Likelihood,
    prior: FunctionPrior,
    prior_size: int | None,
    outputs: ChooseOutputs | None,
    prior_weight: Schedule,
    temperature: Schedule,
    compare: Compare | None = None,
) -> Callable[..., Score]:
    """Return ``score(keys, state, f, x, batch)`` of a model; arguments are those of ``function_space``."""

    def score(
        keys: Sequence[Key], state: State, f: Float[Array, "n B k"], x: Float[Array, "B *d_x"], batch: Batch
    ) -> Score:
        key_points, key_prior, key_outputs = keys
        log_lik, in_params, from_data = likelihood_score(likelihood, state.params, f, batch)
        chosen = prior_points(key_points, batch.weight, x.shape[0], prior_size)
        columns = () if outputs is None else (outputs(key_outputs, batch, x.shape[0]),)
        at_chosen = [one[chosen] if one.ndim == 2 else one for one in columns]
        context = {"context": x[: -(-batch.x.shape[0] // CONTEXT)]} if prior.takes_context else {}
        felt, carry = _prior_score(prior, key_prior, state.prior, f[:, chosen], x[chosen], *at_chosen, **context)
        from_prior = at_step(state.step, prior_weight, f.dtype) * felt
        total = score_everywhere(f, from_data, from_prior, chosen) / at_step(state.step, temperature, f.dtype)
        compared = jnp.ones((), f.dtype)
        if columns:
            rows = jnp.arange(f.shape[1])[:, None]
            compared = jnp.zeros(f.shape[1:], f.dtype).at[rows, columns[0]].set(1).ravel()
        if compare is not None:
            compared = compared * jnp.broadcast_to(compare(f, batch), f.shape[1:]).astype(f.dtype).ravel()
        noise = noise_direction(likelihood, in_params, state.params)
        return Score(total, from_data, from_prior, noise, log_lik, carry, compared)

    return score


def only_extra(f: Float[Array, "n B k"], batch: Batch) -> Float[Array, "B 1"]:
    """Compare functions at the extra points alone, for ``function_space(compare=)``.

    At labelled points each particle then goes where likelihood and prior lead, as in an ensemble.

    Args:
        f: values of n particles at all B points of a step, the labelled ones first.
        batch: the labelled rows.

    Returns:
        The factor of each point, 0 or 1, ``(B, 1)``.
    """
    return (jnp.arange(f.shape[1]) >= batch.x.shape[0])[:, None].astype(f.dtype)


def in_rows(f: Float[Array, "n B k"]) -> Float[Array, "n d"]:
    """Return the values of each particle in one row."""
    return f.reshape(f.shape[0], -1)


def at_step(step: Array, knob: Schedule, dtype: jnp.dtype) -> Array:
    """Return the value at this step of a number or schedule."""
    return jnp.asarray(knob(step) if callable(knob) else knob, dtype)


def weighted_log_likelihood(
    likelihood: Likelihood, params: PyTree, f: Float[Array, "n B k"], batch: Batch
) -> tuple[Scalar, Scalar]:
    """Return N/Σw · Σ w log p(y | f) summed over particles, and its mean per datum and particle."""
    labelled = f[:, : batch.x.shape[0]]
    log_prob = jax.vmap(lambda params, f: likelihood.log_prob(params, f, batch.y), axis_size=f.shape[0])
    total_weight = jnp.maximum(jnp.sum(batch.weight), jnp.finfo(f.dtype).tiny)
    weight = jnp.broadcast_to(batch.weight, batch.y.shape).ravel()
    mean = jnp.sum(log_prob(params, labelled).reshape(f.shape[0], -1) @ weight) / total_weight
    return batch.num_data * mean, mean / f.shape[0]


def log_density(likelihood: Likelihood, params: PyTree) -> Scalar:
    """Return the log-prior as a density of ``params`` themselves, with the change of variables that sampling needs."""
    return likelihood.log_prior(params) + likelihood.log_jacobian(params)


def likelihood_score(
    likelihood: Likelihood, params: PyTree, f: Float[Array, "n B k"], batch: Batch
) -> tuple[Scalar, PyTree, Float[Array, "n d"]]:
    """Return the log-likelihood per datum, and the score in the likelihood's parameters and in f at labelled points."""
    rows, k = batch.x.shape[0], f.shape[-1]

    def of_values(params: PyTree, labelled: Float[Array, "n d"]) -> tuple[Scalar, Scalar]:
        return weighted_log_likelihood(likelihood, params, labelled.reshape(-1, rows, k), batch)

    with_score = jax.value_and_grad(of_values, argnums=(0, 1), has_aux=True)
    (_, log_lik), (in_params, in_f) = with_score(params, in_rows(f)[:, : rows * k])
    return log_lik, in_params, in_f


def noise_direction(likelihood: Likelihood, likelihood_score: PyTree, params: PyTree) -> PyTree:
    """Return ∂/∂params of log-likelihood plus log-prior; one common direction where the parameters are shared."""
    prior_score = jax.grad(lambda params: jnp.sum(over_particles(likelihood.log_prior, params, 1)))
    if not jax.tree.leaves(params):
        return params
    ascent = jax.tree.map(jnp.add, likelihood_score, prior_score(params))
    return jax.tree.map(shared_direction, ascent) if likelihood.shared else ascent


def shared_direction(leaf: Array) -> Array:
    """Return the mean over particles, for each of them."""
    return jnp.broadcast_to(jnp.mean(leaf, axis=0, keepdims=True), leaf.shape)


def prior_points(key: Key, weight: Float[Array, "B_ _"], total: int, size: int | None) -> Int[Array, " size"]:
    """Choose the points that feel the prior: half labelled, half extra, without repetition; padding last."""
    labelled = weight.shape[0]
    if size is None or size >= total:
        return jnp.arange(total)
    from_extra = size - min(max(size // 2, size - (total - labelled)), labelled)
    key_labelled, key_extra = jax.random.split(key)
    rank = jnp.where(jnp.any(weight > 0, axis=1), jax.random.uniform(key_labelled, (labelled,)), -1)
    _, first = jax.lax.top_k(rank, size - from_extra)  # on a CPU 30 times as fast as to sort 1,000 rows
    _, second = jax.lax.top_k(jax.random.uniform(key_extra, (total - labelled,)), from_extra)
    return jnp.concatenate([first, labelled + second])


def _prior_score(
    prior: FunctionPrior,
    key: Key,
    carry: PyTree,
    f: Float[Array, "n B k"],
    x: Float[Array, "B *d_x"],
    *outputs: Array,
    **context: Array,
) -> tuple[Float[Array, "n B k"], PyTree]:
    """Return the prior's score, and what it carries from step to step."""
    if prior.advance is None:
        return prior.score(key, f, x, *outputs, **context), carry
    return prior.advance(key, carry, f, x, *outputs, **context)


def score_everywhere(
    f: Float[Array, "n B k"],
    from_data: Float[Array, "n d_"],
    from_prior: Float[Array, "n size k"],
    chosen: Int[Array, " size"],
) -> Float[Array, "n d"]:
    """Return the sum of both scores at all points, each zero where it does not reach.

    >>> from_data, from_prior = jnp.asarray([[1.0]]), jnp.asarray([[[5.0], [7.0]]])
    >>> score_everywhere(jnp.zeros((1, 3, 1)), from_data, from_prior, jnp.asarray([0, 2])).tolist()
    [[6.0, 0.0, 7.0]]
    """
    score = in_rows(jnp.zeros_like(f).at[:, chosen].set(from_prior))
    # in place: a sum with padding would not be vectorised
    return jax.lax.dynamic_update_slice(score, score[:, : from_data.shape[1]] + from_data, (0, 0))
