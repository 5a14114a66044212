# SPDX-License-Identifier: Apache-2.0
"""From what functions say of arms to probabilities of arms, and from these to arms."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from fpovi.bandits.arms import Arm


class Decision(NamedTuple):
    """The arm chosen for each context, and the probability it was chosen with.

    Attributes:
        arms: N names.
        propensities: ``(N,)``, exact: a log of them is enough to judge other policies later.
    """

    arms: list[Arm]
    propensities: Float[np.ndarray, " N"]


def shares(values: Float[np.ndarray, "n N K"], mask: Bool[np.ndarray, "N K"]) -> Float[np.ndarray, "N K"]:
    """Return the share of functions whose best arm each one is: what Thompson sampling chooses it with.

    Args:
        values: what n functions say of K arms.
        mask: the arms that may be chosen.

    >>> shares(np.array([[[1.0, 2.0, 9.0]], [[3.0, 2.0, 9.0]]]), np.array([[True, True, False]]))
    array([[0.5, 0.5, 0. ]])
    """
    n, rows, arms = values.shape
    best = np.argmax(values if mask.all() else np.where(mask, values, -np.inf), axis=2)
    place = best + arms * np.arange(rows)  # three times as fast as to add one by one
    return np.bincount(place.ravel(), minlength=rows * arms).reshape(rows, arms) / n


def with_floor(
    probabilities: Float[np.ndarray, "N K"], mask: Bool[np.ndarray, "N K"], floor: float
) -> Float[np.ndarray, "N K"]:
    r"""Return :math:`(1 - m\epsilon)\, p + \epsilon` for the m allowed arms, with ε the floor, at most 1/m."""
    if floor == 0:
        return probabilities
    count = mask.sum(axis=1, keepdims=True)
    least = np.minimum(floor, 1 / count)
    return np.where(mask, (1 - least * count) * probabilities + least, 0.0)


def sample(random: np.random.Generator, probabilities: Float[np.ndarray, "N K"]) -> Int[np.ndarray, " N"]:
    """Draw a column per row by its probabilities, with one random number each."""
    cumulative = np.cumsum(probabilities, axis=1)
    below = random.random((len(cumulative), 1)) * cumulative[:, -1:] >= cumulative
    return below.sum(axis=1)


def first_turns(counts: Int[np.ndarray, " K"], mask: Bool[np.ndarray, "N K"], pulls: int) -> Int[np.ndarray, " N"]:
    """Return the arm whose turn it is in each row, −1 where all allowed ones had ``pulls`` turns.

    The one with the fewest turns so far comes first, so that arms go round, and one that is added later gets its turns.

    >>> first_turns(np.array([1, 0, 2]), np.ones((4, 3), bool), 2).tolist()
    [1, 0, 1, -1]
    """
    turns = np.full(len(mask), -1)
    if counts.min() >= pulls:
        return turns
    counts = counts.copy()
    for row, allowed in enumerate(mask):
        column = int(np.argmin(np.where(allowed, counts, np.iinfo(counts.dtype).max)))
        if counts[column] < pulls:
            turns[row] = column
            counts[column] += 1
    return turns
