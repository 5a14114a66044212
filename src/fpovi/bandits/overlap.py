# SPDX-License-Identifier: Apache-2.0
"""How far logged decisions can speak for a policy that would have made others."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from fpovi.bandits.heavy_tails import mean_of
from fpovi.bandits.logs import Logs, Policy, policy_probabilities

# Where simulated intervals begin to hold the truth less often than they say, or shortly before.
FEW_ROWS = 30  # effective
LARGE_SHARE = 0.1  # of all weight, for one row
HEAVY_ROW = 0.05  # of all weight that is expected, N
HEAVY_MASS = 0.05
SURPRISE = 1e-3  # p-value below which a mean weight is not the one expected
NEGLIGIBLE = 1e-3  # of a policy's mass


class Overlap(NamedTuple):
    """How alike a policy and the one that was logged are; see :func:`overlap`.

    Args:
        num_rows: logged decisions.
        effective_sample_size: (Σw)²/Σw², to how many rows of equal weight those of weights w amount.
        largest_weight: the largest w.
        largest_share: its share of Σw.
        mean_weight: mean of the weights as they are before clipping, expected to be 1 − ``uncovered``.
        mean_weight_p: p-value of the test that it is.
        uncovered: the share of the policy's mass on arms that had no chance in the log. Without the propensities of all
            arms only arms that were never chosen are known to have had none, and this is a lower bound.
        heavy: the share of the policy's mass on decisions so rare in the log that each, if it is there at all, has a
            weight above N/20. Where it is not there, the other numbers look good. Exact if the propensities of all arms
            are known, else estimated by importance weights, which see such decisions only if they are there.
        clipped: the share of Σw that clipping took away.
    """

    num_rows: int
    effective_sample_size: float
    largest_weight: float
    largest_share: float
    mean_weight: float
    mean_weight_p: float
    uncovered: float
    heavy: float
    clipped: float

    def concerns(self) -> tuple[str, ...]:
        """Return what speaks against trusting an estimate from these logs, a sentence each."""
        found = []
        if self.effective_sample_size < FEW_ROWS:
            found.append(f"the log amounts to {self.effective_sample_size:.0f} of {self.num_rows} rows for this policy")
        if self.largest_share > LARGE_SHARE:
            found.append(f"one row has {self.largest_share:.0%} of all weight")
        if self.heavy > HEAVY_MASS:
            found.append(f"{self.heavy:.0%} of the policy's mass is on decisions so rare that the log may miss them")
        if self.mean_weight_p < SURPRISE:
            expected = 1 - self.uncovered
            found.append(
                f"the mean weight is {self.mean_weight:.2f} where {expected:.2f} is expected: propensities are not "
                "those of the decisions, the policy's columns are in another order than names, or the policy chooses "
                "arms that had no chance in the log"
            )
        if self.clipped > NEGLIGIBLE:
            found.append(f"clipping took away {self.clipped:.1%} of the weight, so the estimate is biased")
        return tuple(found)


def overlap(logs: Logs, policy: Policy, *, max_weight: float | None = None) -> Overlap:
    """Return how far the log can speak for a policy.

    Args:
        logs: from :func:`make_logs`.
        policy: as in :func:`policy_probabilities`.
        max_weight: where weights are clipped, if they are.

    >>> from fpovi.bandits import make_logs
    >>> logs = make_logs([[0.0]] * 4, ["a", "a", "b", "b"], [1, 0, 1, 0], [0.5] * 4)
    >>> overlap(logs, {"a": 1.0}).effective_sample_size
    2.0
    """
    return overlap_of(logs, policy_probabilities(logs, policy), max_weight)


def overlap_of(logs: Logs, probabilities: Float[np.ndarray, "N K"], max_weight: float | None) -> Overlap:
    """Return the overlap of a log and a policy whose probabilities are known."""
    raw = importance_weights(logs, probabilities, None)
    weights = importance_weights(logs, probabilities, max_weight)
    total = weights.sum()
    if total == 0:
        raise ValueError("the policy never chooses what the log has: its weights are all 0, and nothing can be said")
    uncovered, heavy = _uncovered(logs, probabilities), 0.0
    if max_weight is None or max_weight > HEAVY_ROW * logs.num_rows:
        heavy = _heavy(logs, probabilities, raw)
    mean = mean_of(raw)
    return Overlap(
        num_rows=logs.num_rows,
        effective_sample_size=float(total**2 / np.sum(weights**2)),
        largest_weight=float(weights.max()),
        largest_share=float(weights.max() / total),
        mean_weight=mean.value,
        mean_weight_p=mean.p_value(1 - uncovered),
        uncovered=uncovered,
        heavy=heavy,
        clipped=float(1 - total / raw.sum()),
    )


def importance_weights(
    logs: Logs, probabilities: Float[np.ndarray, "N K"], max_weight: float | None
) -> Float[np.ndarray, " N"]:
    """Return how much more often the policy makes each logged decision than it was made, at most ``max_weight``."""
    if max_weight is not None and not max_weight > 0:
        raise ValueError(f"max_weight={max_weight} must be above 0")
    weights = probabilities[np.arange(logs.num_rows), logs.chosen] / logs.propensities
    return weights if max_weight is None else np.minimum(weights, max_weight)


def _uncovered(logs: Logs, probabilities: Float[np.ndarray, "N K"]) -> float:
    if logs.all_propensities is not None:
        return float(probabilities[logs.all_propensities == 0].sum() / logs.num_rows)
    never = np.bincount(logs.chosen, minlength=len(logs.names)) == 0
    return float(probabilities[:, never].sum() / logs.num_rows)


def _heavy(logs: Logs, probabilities: Float[np.ndarray, "N K"], weights: Float[np.ndarray, " N"]) -> float:
    limit = HEAVY_ROW * logs.num_rows
    if logs.all_propensities is None:
        return float(np.mean(weights * (weights > limit)))
    rare = (logs.all_propensities > 0) & (probabilities > limit * logs.all_propensities)
    return float(probabilities[rare].sum() / logs.num_rows)
