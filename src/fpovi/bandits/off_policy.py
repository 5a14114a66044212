# SPDX-License-Identifier: Apache-2.0
"""What a policy would have earned, from decisions that another one made."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from fpovi._lookup import lookup
from fpovi.bandits.heavy_tails import mean_of
from fpovi.bandits.logs import Logs, Policy, policy_probabilities
from fpovi.bandits.overlap import NEGLIGIBLE, Overlap, importance_weights, overlap_of
from fpovi.bandits.reward_model import PredictedRewards, as_predicted

LOGGED = "logged"
Terms = Float[np.ndarray, " _"]


class OverlapWarning(UserWarning):
    """Raised as a warning when logs can say little about a policy; the message tells why."""


class Side(NamedTuple):
    """A policy as estimators see it: probabilities ``(N, K)`` and importance weights ``(N,)``."""

    probabilities: Float[np.ndarray, "N K"]
    weights: Float[np.ndarray, " N"]


def ips(logs: Logs, side: Side, predicted: PredictedRewards | None = None) -> Terms:
    r"""Inverse propensity scores: :math:`\frac1N\sum_i w_i r_i`, unbiased where the log has overlap."""
    return side.weights * logs.rewards


def snips(logs: Logs, side: Side, predicted: PredictedRewards | None = None) -> Terms:
    r"""Self-normalised: :math:`\sum_i w_i r_i / \sum_i w_i`, with less variance and a bias of order 1/N.

    Terms are those of the jackknife, in which a row of large weight changes the value by all it can.
    """
    w, r, n = side.weights, logs.rewards, logs.num_rows
    if np.count_nonzero(w) < 2:
        raise ValueError("a single row has all the weight: snips needs two or more with an arm that the policy chooses")
    value = (w @ r) / w.sum()
    without = value - w * (r - value) / (w.sum() - w)
    return value + (n - 1) * (without.mean() - without)


def direct(logs: Logs, side: Side, predicted: PredictedRewards) -> Terms:
    r"""Direct method: :math:`\frac1N\sum_i \sum_a \pi(a|x_i)\, q(x_i, a)`, only as good as the model q.

    Models that are blind to a fold each give the terms of a grouped jackknife. These vary with contexts and fits, and
    not with what all models have wrong.
    """
    return _by_fold(np.einsum("fnk,nk->fn", predicted.per_fold, side.probabilities), predicted)


def doubly_robust(logs: Logs, side: Side, predicted: PredictedRewards) -> Terms:
    r"""Doubly robust: the direct method, each row corrected by :math:`w_i\,(r_i - q(x_i, a_i))`.

    Unbiased as inverse propensity scores are, whatever the model, as q did not see row i.
    """
    q = predicted.held_out
    chosen = q[np.arange(logs.num_rows), logs.chosen]
    return np.sum(side.probabilities * q, axis=1) + side.weights * (logs.rewards - chosen)


def _by_fold(values: Float[np.ndarray, "F N"], predicted: PredictedRewards) -> Terms:
    """Return the jackknife's terms of a mean over rows, where each fold is left out with its model."""
    if len(values) == 1:
        return values[0]
    means = np.array([row[predicted.fold != number].mean() for number, row in enumerate(values)])
    return means.mean() + (len(means) - 1) * (means.mean() - means)


def _logged(logs: Logs, predicted: PredictedRewards | None) -> Terms:
    return logs.rewards


def _logged_by_fold(logs: Logs, predicted: PredictedRewards) -> Terms:
    return _by_fold(np.tile(logs.rewards, (len(predicted.per_fold), 1)), predicted)


class Estimator(NamedTuple):
    """One way to estimate a policy's value, as the mean of terms.

    Args:
        terms: from logs, a policy and, if ``models``, predicted rewards, to the terms.
        models: whether rewards are predicted.
        logged: the terms of the policy that acted, whose value is the mean reward.
        uncovered: what becomes of the policy's mass on arms that had no chance in the log.
    """

    terms: Callable[..., Terms]
    models: bool
    logged: Callable[..., Terms]
    uncovered: str


BY_MODEL = "only the model of rewards speaks for it"
ESTIMATORS = {
    "ips": Estimator(ips, False, _logged, "it counts as a reward of 0"),
    "snips": Estimator(snips, False, _logged, "it is left out, as if it earned what the rest earns"),
    "direct": Estimator(direct, True, _logged_by_fold, BY_MODEL),
    "doubly_robust": Estimator(doubly_robust, True, _logged, BY_MODEL),
}


class Estimate(NamedTuple):
    """What a policy would have earned per decision, or how much more than another; see :func:`estimate_value`.

    Args:
        value: the estimate.
        standard_error: of the value.
        interval: ``(lower, upper)``, which holds the truth with probability ``level`` if there are no ``concerns``.
        level: of the interval.
        method: how it was estimated.
        overlap: how alike policy and log are; of two policies, that with fewer effective rows.
        concerns: what speaks against trusting value and interval, a sentence each; empty if nothing does.
    """

    value: float
    standard_error: float
    interval: tuple[float, float]
    level: float
    method: str
    overlap: Overlap
    concerns: tuple[str, ...]

    def __str__(self) -> str:
        lower, upper = self.interval
        rows = f"{self.overlap.effective_sample_size:.0f} of {self.overlap.num_rows} rows"
        line = f"{self.value:.4g} ({self.level:.0%} interval {lower:.4g} to {upper:.4g}; {self.method}, {rows})"
        return "\n".join([line, *(f"  not to be trusted: {concern}" for concern in self.concerns)])


def estimate_value(
    logs: Logs,
    policy: Policy,
    method: str = "doubly_robust",
    *,
    against: Policy | str | None = None,
    rewards: Any = None,
    max_weight: float | None = None,
    level: float = 0.95,
) -> Estimate:
    """Estimate what a policy would have earned per decision, from the decisions of another.

    The interval is Student's, with degrees of freedom that fall as the tails of the terms grow. It takes rows to be
    independent. Those of an agent that learned meanwhile are not: its propensities depend on earlier rewards, and there
    intervals are approximate.

    Args:
        logs: from :func:`make_logs`.
        policy: as in :func:`policy_probabilities`.
        method: "doubly_robust", "ips", "snips" (self-normalised) or "direct".
        against: estimate the difference to this policy, or with "logged" to the one that acted, on the same rows.
        rewards: for "doubly_robust" and "direct", a scikit-learn regressor or what :func:`cross_fit` returned, which
            saves the fits for the next policy; or rewards ``(N, K)`` predicted by a model that never saw these rows. By
            default ``BNNRegressor(random_state=0)`` is fitted five times.
        max_weight: clip importance weights there: less variance, and a bias that no interval holds.
        level: probability that the interval holds the truth.

    Raises:
        ValueError: if the policy never chooses what was logged, or an argument is not what it should be.

    Warns:
        OverlapWarning: with ``concerns``.

    >>> from fpovi.bandits import make_logs
    >>> logs = make_logs([[0.0]] * 60, list("aaabbb") * 10, [1, 1, 0, 0, 0, 1] * 10, [0.5] * 60)
    >>> estimate = estimate_value(logs, {"a": 1.0}, "ips")
    >>> round(estimate.value, 3), estimate.concerns
    (0.667, ())
    >>> print(estimate_value(logs, {"a": 1.0}, "snips"))
    0.6667 (95% interval 0.49 to 0.8433; snips, 30 of 60 rows)
    """
    if not 0 < level < 1:
        raise ValueError(f"level={level} must lie strictly between 0 and 1")
    estimator = lookup(ESTIMATORS, method, "method")
    if isinstance(against, str) and against != LOGGED:
        raise ValueError(f"against={against!r} must be a policy, {LOGGED!r} or None")
    to_logged = isinstance(against, str)
    sides = [_side(logs, one, max_weight) for one in (policy, None if to_logged else against) if one is not None]
    overlaps = [overlap_of(logs, side.probabilities, max_weight) for side in sides]
    predicted = as_predicted(logs, rewards) if estimator.models else None
    every = [estimator.terms(logs, side, predicted) for side in sides]
    if to_logged:
        every.append(estimator.logged(logs, predicted))
    terms = every[0] if len(every) == 1 else every[0] - every[1]
    mean = mean_of(terms)
    concerns = tuple(dict.fromkeys(concern for one in overlaps for concern in _concerns(one, estimator)))
    if concerns:
        warnings.warn("; ".join(concerns), OverlapWarning, stacklevel=2)
    poorest = min(overlaps, key=lambda one: one.effective_sample_size)
    return Estimate(mean.value, mean.standard_error, mean.interval(level), level, method, poorest, concerns)


def _side(logs: Logs, policy: Policy, max_weight: float | None) -> Side:
    probabilities = policy_probabilities(logs, policy)
    return Side(probabilities, importance_weights(logs, probabilities, max_weight))


def _concerns(overlap: Overlap, estimator: Estimator) -> tuple[str, ...]:
    if overlap.uncovered <= NEGLIGIBLE:
        return overlap.concerns()
    share = f"{overlap.uncovered:.1%} of the policy's mass is on arms that had no chance in the log"
    return (*overlap.concerns(), f"{share}: {estimator.uncovered}")
