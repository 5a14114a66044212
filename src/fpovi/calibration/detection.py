# SPDX-License-Identifier: Apache-2.0
"""How well a score tells inputs from outside the training distribution: it should be higher there."""

import numpy as np
from jaxtyping import Float
from scipy.stats import mannwhitneyu

from fpovi.types import Numbers

Scores = Float[np.ndarray, " _"]


def ood_auroc(score_in: Numbers, score_out: Numbers) -> float:
    """Return the probability that an input from outside scores above one from inside; ties count one half.

    Half is chance, one a perfect separation.

    Args:
        score_in: scores of inputs from inside the training distribution, one-dimensional; infinite ones are allowed.
        score_out: the same of inputs from outside, where ``entropy``, ``mutual_information`` or ``epistemic_std``
            should be higher.

    >>> ood_auroc([0.1, 0.2], [0.2, 0.9])
    0.875
    """
    inside, outside = _checked(score_in, score_out)
    wins = mannwhitneyu(outside, inside, method="asymptotic").statistic
    return float(wins / (inside.size * outside.size))


def ood_aupr(score_in: Numbers, score_out: Numbers) -> float:
    r"""Return the average precision of flagging inputs from outside: :math:`\sum_i (R_i - R_{i-1}) P_i`.

    P and R are precision and recall where all scores from a threshold on are flagged, for every threshold from the
    highest score down. Chance is the share of inputs from outside, one a perfect separation.

    Args:
        score_in, score_out: as in :func:`ood_auroc`.

    >>> ood_aupr([0.1, 0.2], [0.3, 0.9])
    1.0
    """
    inside, outside = _checked(score_in, score_out)
    thresholds = np.unique(np.concatenate([inside, outside]))[::-1]
    hits, alarms = (_at_least(scores, thresholds) for scores in (outside, inside))
    recall, precision = hits / outside.size, hits / (hits + alarms)
    return float(np.sum(np.diff(recall, prepend=0.0) * precision))


def ood_fpr(score_in: Numbers, score_out: Numbers, tpr: float = 0.95) -> float:
    """Return the share of inputs from inside that are flagged where the share ``tpr`` of those from outside is.

    Chance is ``tpr``, zero a perfect separation. Some papers swap the roles, and flag inputs from inside.

    Args:
        score_in, score_out: as in :func:`ood_auroc`.
        tpr: the share of inputs from outside that has to be flagged, above 0 and at most 1.

    >>> ood_fpr([0.1, 0.2, 0.3, 0.4], [0.4, 0.9])
    0.25
    """
    if not 0 < tpr <= 1:
        raise ValueError(f"tpr={tpr} must lie between 0 and 1")
    inside, outside = _checked(score_in, score_out)
    # as many as it takes: a share of 19 of 20 is reached by 19, whatever the rounding of .95 · 20
    needed = int(np.argmax(np.arange(1, outside.size + 1) / outside.size >= tpr))
    threshold = np.sort(outside)[::-1][needed]
    return float(np.mean(inside >= threshold))


def _at_least(scores: Scores, thresholds: Scores) -> Scores:
    """Return how many scores reach each threshold."""
    return scores.size - np.searchsorted(np.sort(scores), thresholds, side="left").astype(np.float64)


def _checked(score_in: Numbers, score_out: Numbers) -> tuple[Scores, Scores]:
    inside, outside = np.asarray(score_in, np.float64), np.asarray(score_out, np.float64)
    for name, scores in (("score_in", inside), ("score_out", outside)):
        if scores.ndim != 1 or scores.size == 0:
            raise ValueError(f"{name} has shape {scores.shape}, but one score per input is needed, and at least one")
        if np.any(np.isnan(scores)):
            raise ValueError(f"{name} has {np.sum(np.isnan(scores))} values that are not numbers")
    return inside, outside
