# SPDX-License-Identifier: Apache-2.0
"""What a row is worth asking for, alone and after others: one criterion for each acquisition function.

A criterion scores all rows of a pool given a state, and the state remembers the rows chosen so far. Nothing is fitted
in between: what their targets would teach is read off the particles, which are joint draws of the function at all rows.
"""

import math
from collections.abc import Callable
from functools import partial
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import entr
from scipy.stats import norm
from sklearn.utils import check_random_state

from fpovi.acquisition.gaussian import deviations_of, learn, noise_of, variances
from fpovi.acquisition.labels import label_information
from fpovi.acquisition.pool import Pool
from fpovi.types import Support

Scores = Float[np.ndarray, " N"]


class Criterion(NamedTuple):
    """A score of rows that may depend on those chosen before.

    Attributes:
        start: the state in which nothing is chosen.
        score: ``score(state)`` returns scores ``(N,)``, the highest to be asked first.
        update: ``update(state, row, scores)`` returns the state in which ``row`` is chosen too.
    """

    start: Any
    score: Callable[[Any], Scores]
    update: Callable[[Any, int, Scores], Any]


def unchanging(scores: Scores) -> Criterion:
    """Return a criterion by which rows do not depend on each other."""
    return Criterion((), lambda state: scores, lambda state, row, scores: state)


def thompson(pool: Pool, *, minimise: bool = False, random_state: Any = None) -> Criterion:
    """Let one particle after the other name its best row: all of them in random order, then again."""
    pool.require_one_number("thompson")
    values = _upwards(pool, minimise).means[..., 0]
    order = check_random_state(random_state).permutation(len(values))
    return Criterion(0, lambda count: values[order[count % len(order)]], lambda count, row, scores: count + 1)


def expected_improvement(pool: Pool, *, best: Any = None, minimise: bool = False) -> Criterion:
    """Score the expected gain over ``best`` and over what each particle says of the rows chosen before."""
    pool.require_one_number("expected_improvement")
    incumbent = _incumbent(best, minimise, "expected_improvement")
    pool = _upwards(pool, minimise)
    means = pool.means[..., 0]

    def score(bests: Float[np.ndarray, " n"]) -> Scores:
        above = pool.centres[..., 0] - bests[:, None, None]
        z = above / pool.scales[..., 0]
        gains = above * norm.cdf(z) + pool.scales[..., 0] * norm.pdf(z)
        return np.mean(np.sum(pool.weights[..., 0] * gains, axis=1), axis=0)

    start = np.full(len(means), incumbent)
    return Criterion(start, score, lambda bests, row, scores: np.maximum(bests, means[:, row]))


def probability_of_improvement(pool: Pool, *, best: Any = None, minimise: bool = False) -> Criterion:
    """Score the probability that a row exceeds ``best`` where none of the rows chosen before does."""
    pool.require_one_number("probability_of_improvement")
    incumbent = _incumbent(best, minimise, "probability_of_improvement")
    pool = _upwards(pool, minimise)
    z = (pool.centres[..., 0] - incumbent) / pool.scales[..., 0]
    exceeds = np.sum(pool.weights[..., 0] * norm.cdf(z), axis=1)  # (n, N)
    return Criterion(
        np.ones(len(exceeds)),
        lambda missed: np.mean(missed[:, None] * exceeds, axis=0),
        lambda missed, row, scores: missed * (1 - exceeds[:, row]),
    )


def upper_confidence_bound(pool: Pool, *, beta: float = 2.0, minimise: bool = False) -> Criterion:
    """Score the mean plus ``beta`` epistemic standard deviations, which shrink as rows are chosen."""
    pool.require_one_number("upper_confidence_bound")
    if not 0 <= beta < math.inf:
        raise ValueError(f"beta={beta} must be finite and not negative")
    pool = _upwards(pool, minimise)
    mean = np.mean(pool.means[..., 0], axis=0)
    deviations, noise = deviations_of(pool), noise_of(pool)

    def score(covariance: Float[np.ndarray, "n n"]) -> Scores:
        return mean + beta * np.sqrt(variances(deviations, covariance)[:, 0])

    return Criterion(np.eye(len(pool.means)), score, partial(learn, deviations, noise))


def variance(pool: Pool) -> Criterion:
    """Score the epistemic variance that is left once the rows chosen before are known."""
    if pool.support is not Support.CLASSES:
        pool.require_one_number("variance")
    deviations, noise = deviations_of(pool), noise_of(pool)
    return Criterion(
        np.eye(len(pool.means)),
        lambda covariance: np.sum(variances(deviations, covariance), axis=1),
        partial(learn, deviations, noise),
    )


def bald(pool: Pool, *, random_state: Any = None) -> Criterion:
    """Score the information about the function that a row adds to that of the rows chosen before, in nats."""
    probs = pool.label_probs
    if probs is not None:
        if pool.support is Support.BINARY:
            pool.require_one_number("bald of yes or no")
        return Criterion(*label_information(probs, check_random_state(random_state)))
    deviations, noise = deviations_of(pool), noise_of(pool)
    relative = deviations / np.sqrt(noise)[..., None]

    def score(covariance: Float[np.ndarray, "n n"]) -> Scores:
        ratio = (relative @ covariance) @ np.swapaxes(relative, 1, 2)  # (N, m, m): what is unknown, over the noise
        return np.linalg.slogdet(np.eye(ratio.shape[1]) + ratio)[1] / 2

    return Criterion(np.eye(len(pool.means)), score, partial(learn, deviations, noise))


def entropy(pool: Pool) -> Criterion:
    """Score the entropy of the label in nats, whatever it comes from; rows do not depend on each other."""
    return unchanging(np.sum(entr(_predicted(pool, "entropy")), axis=1))


def margin(pool: Pool) -> Criterion:
    """Score 1 less the distance of the two largest label probabilities; rows do not depend on each other."""
    second, first = np.sort(_predicted(pool, "margin"), axis=1)[:, -2:].T
    return unchanging(1 - (first - second))


ACQUISITIONS: dict[str, Callable[..., Criterion]] = {
    "bald": bald,
    "entropy": entropy,
    "expected_improvement": expected_improvement,
    "margin": margin,
    "probability_of_improvement": probability_of_improvement,
    "thompson": thompson,
    "upper_confidence_bound": upper_confidence_bound,
    "variance": variance,
}


def _upwards(pool: Pool, minimise: bool) -> Pool:
    """Return the pool with the sign of y such that more is better."""
    return pool._replace(means=-pool.means, centres=-pool.centres) if minimise else pool


def _predicted(pool: Pool, asker: str) -> Float[np.ndarray, "N k"]:
    """Return the probability of every label, the mean over particles."""
    if pool.label_probs is None:
        raise ValueError(f"{asker} is for classes, but these targets are numbers: use bald or variance")
    if pool.support is Support.BINARY:
        pool.require_one_number(asker)
    return np.mean(pool.label_probs, axis=0)


def _incumbent(best: Any, minimise: bool, asker: str) -> float:
    """Return the value to beat, with the sign of y such that more is better."""
    if best is None:
        raise ValueError(f"{asker} needs best, the {'smallest' if minimise else 'largest'} target seen so far")
    if not isinstance(best, Real) or not math.isfinite(best):
        raise ValueError(f"best={best!r} must be one finite number, in the target's units")
    return -float(best) if minimise else float(best)
