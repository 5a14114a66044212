# SPDX-License-Identifier: Apache-2.0
r"""The information that the labels of several rows hold together about which particle is right (BatchBALD).

Given a particle, labels of different rows are independent. So the joint probability of the labels y of the rows chosen
so far and of particle i is a product, :math:`p(y, i) = \frac1n \prod_r p_i(y_r)`, and what another row x adds is

.. math:: I(y_x; i \mid y) = \sum_y p(y) \Big[ H\Big(\sum_i p(i \mid y)\, p_i(\cdot \mid x)\Big)
          - \sum_i p(i \mid y)\, H(p_i(\cdot \mid x)) \Big]

The sum runs over all labellings while there are few, and over a sample of them after that (Kirsch et al. 2019).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.random import RandomState
from scipy.special import entr

LABELLINGS = 256  # of the chosen rows that are kept, all of them or a sample
BLOCK = 512  # rows scored at once
TOLD_APART = 1.001  # particles that remain plausible, on average


class Chosen(NamedTuple):
    """What is remembered of the rows chosen so far.

    Attributes:
        joint: the probability of a labelling of them together with a particle.
        bounds: what each row adds at most, −∞ for those chosen: the more rows are chosen, the less another one adds.
    """

    joint: Float[np.ndarray, "labellings n"]
    bounds: Float[np.ndarray, " N"]


def label_information(
    probs: Float[np.ndarray, "n N k"], rng: RandomState
) -> tuple[Chosen, Callable[[Chosen], Float[np.ndarray, " N"]], Callable[..., Chosen]]:
    """Return start, score and update of the criterion.

    Once the labels of the chosen rows would tell which particle is right, no other row adds anything, so the next ones
    are chosen as if none was: a new batch among the other rows.

    Args:
        probs: label probabilities, for each particle.
        rng: draws labellings where there are too many.
    """
    n, rows, _ = probs.shape
    by_row = np.moveaxis(probs, 0, 1)  # (N, n, k)
    own = np.sum(entr(by_row), axis=2)  # (N, n)
    nothing = np.full((1, n), 1 / n)
    alone = np.concatenate([_adds(nothing, by_row[some], own[some]) for some in _blocks(np.arange(rows))])

    def score(chosen: Chosen) -> Float[np.ndarray, " N"]:
        if len(chosen.joint) == 1:
            return chosen.bounds
        found, best = chosen.bounds.copy(), -np.inf
        for some in _blocks(np.argsort(-chosen.bounds, kind="stable")):
            if chosen.bounds[some[0]] <= best:
                break  # neither these nor the following can add more
            some = some[np.isfinite(chosen.bounds[some])]
            found[some] = _adds(chosen.joint, by_row[some], own[some])
            best = max(best, np.max(found[some], initial=-np.inf))
        return found

    def update(chosen: Chosen, row: int, scores: Float[np.ndarray, " N"]) -> Chosen:
        joint = (chosen.joint[:, None, :] * by_row[row].T).reshape(-1, n)
        joint = _sampled(joint[np.sum(joint, axis=1) > 0], rng)
        if _particles_left(joint) < TOLD_APART:
            joint, scores = nothing, np.where(np.isfinite(scores), alone, -np.inf)
        bounds = scores.copy()
        bounds[row] = -np.inf
        return Chosen(joint, bounds)

    return Chosen(nothing, alone), score, update


def _adds(
    joint: Float[np.ndarray, "labellings n"], probs: Float[np.ndarray, "B n k"], own: Float[np.ndarray, "B n"]
) -> Float[np.ndarray, " B"]:
    """Return what each row adds to the information of the labellings."""
    mass = np.sum(joint, axis=1)
    mixed = (joint / mass[:, None]) @ probs  # (B, labellings, k)
    return np.maximum(np.sum(entr(mixed), axis=2) @ mass - own @ np.sum(joint, axis=0), 0)


def _sampled(joint: Float[np.ndarray, "labellings n"], rng: RandomState) -> Float[np.ndarray, "kept n"]:
    """Return at most ``LABELLINGS`` labellings: where there are more, evenly spread draws of equal probability."""
    if len(joint) <= LABELLINGS:
        return joint
    mass = np.sum(joint, axis=1)
    places = (rng.uniform() + np.arange(LABELLINGS)) / LABELLINGS
    drawn = np.minimum(np.searchsorted(np.cumsum(mass) / np.sum(mass), places), len(mass) - 1)
    return joint[drawn] / (LABELLINGS * mass[drawn, None])


def _particles_left(joint: Float[np.ndarray, "labellings n"]) -> float:
    """Return how many particles remain plausible once the labels are known: the exponential of a mean entropy."""
    mass = np.sum(joint, axis=1)
    return float(np.exp(np.sum(entr(joint / mass[:, None]), axis=1) @ mass))


def _blocks(rows: np.ndarray) -> list[np.ndarray]:
    return [rows[first : first + BLOCK] for first in range(0, len(rows), BLOCK)]
