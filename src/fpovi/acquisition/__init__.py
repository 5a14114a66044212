# SPDX-License-Identifier: Apache-2.0
r"""Which rows of a pool to ask for next: where a model is unsure, or where the best target may be.

Scores take a fitted estimator and rows, and return one number per row, the highest to be asked first. :func:`choose`
returns the n rows to ask for together: each is chosen for what it adds to those before it, as far as that can be told
from the particles, which are joint draws of the function at all rows.

Improvements are those of an observation y, noise included, given each particle a mixture of normals (where a likelihood
is none, one normal of the same mean and variance). All else is about f. Epistemic variances and means are those of
:class:`~fpovi.Predictive`. Everything is in the target's own units, and information in nats.
"""

import inspect
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from fpovi._lookup import lookup
from fpovi.acquisition import criteria
from fpovi.acquisition.criteria import ACQUISITIONS, Criterion
from fpovi.acquisition.pool import pool_of

__all__ = [
    "ACQUISITIONS",
    "Choice",
    "bald",
    "choose",
    "entropy",
    "expected_improvement",
    "margin",
    "probability_of_improvement",
    "thompson",
    "upper_confidence_bound",
    "variance",
]

Scores = Float[np.ndarray, " N"]


class Choice(NamedTuple):
    """Rows to ask for, in this order.

    Attributes:
        rows: their numbers in the pool.
        scores: what each was worth when it was chosen, after those before it.
    """

    rows: Int[np.ndarray, " n"]
    scores: Float[np.ndarray, " n"]


def choose(model: Any, X: Any, what: str = "bald", n: Any = 1, **options: Any) -> Choice:
    """Return the n rows of a pool to ask for next, the best first.

    - "bald": the joint information of the labels of all n rows about which particle is right (BatchBALD, Kirsch et al.
      2019), exact for up to 256 labellings and estimated on as many drawn ones beyond. Once they would tell which
      particle is right, no row adds anything, and a new batch begins. Of numbers: the information of a Gaussian process
      with the particles' covariance. Chosen one by one, rows have at least 63 % of the information of the best n.
    - "variance", "upper_confidence_bound": the epistemic variance that is left, in that same Gaussian process, once the
      rows before are known.
    - "expected_improvement", "probability_of_improvement": the gain over the best of what is known and of what each
      particle says of the rows before; for the expected improvement without the noise of these.
    - "thompson": each row is the best of another particle. When all have had a turn, they begin again.
    - "entropy", "margin": each row for itself.

    Args:
        model: a fitted estimator.
        X: a pool of N rows like those the model was fitted to.
        what: the name of an acquisition function, one of :data:`ACQUISITIONS`.
        n: how many rows, at most N.
        **options: what that function takes beside model and X; ``random_state`` for "thompson" and "bald".

    Returns:
        The rows, and the score of each when it was chosen. Of equal ones the first row comes first.

    >>> from fpovi import BNNRegressor
    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> model = BNNRegressor(max_epochs=200, random_state=0).fit(X, np.sin(3 * X[:, 0]))
    >>> choose(model, [[0.0], [8.0], [-8.0]], "variance", 2).rows.tolist() in ([1, 2], [2, 1])
    True
    """
    make = lookup(ACQUISITIONS, what, "what")
    known = [name for name in inspect.signature(make).parameters if name != "pool"]
    for name in options:
        if name not in known:
            raise ValueError(f"{name} is no option of {what}, which takes {' and '.join(known) or 'none'}")
    pool = pool_of(model, X)
    rows = pool.means.shape[1]
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or not 1 <= n <= rows:
        raise ValueError(f"n={n!r} must be a whole number from 1 to {rows}, the rows of the pool")
    return _greedy(make(pool, **options), int(n), rows)


def _greedy(criterion: Criterion, n: int, rows: int) -> Choice:
    """Choose the row of the highest score n times, each time with those before it in mind."""
    state, free = criterion.start, np.ones(rows, bool)
    chosen, scores = np.empty(n, int), np.empty(n)
    for place in range(n):
        found = criterion.score(state)
        row = int(np.argmax(np.where(free, found, -np.inf)))
        chosen[place], scores[place], free[row] = row, found[row], False
        state = criterion.update(state, row, found)
    return Choice(chosen, scores)


def _alone(criterion: Criterion) -> Scores:
    return criterion.score(criterion.start)


def thompson(model: Any, X: Any, *, minimise: bool = False, random_state: Any = None) -> Scores:
    """Return what one random particle says of every row: the best row by that is a Thompson sample.

    Args:
        model: a fitted estimator of one number.
        X: rows ``(N, d)``.
        minimise: whether small targets are wanted; scores are then negative means.
        random_state: a whole number makes the draw repeatable.

    Returns:
        The particle's means ``(N,)``.
    """
    return _alone(criteria.thompson(pool_of(model, X), minimise=minimise, random_state=random_state))


def expected_improvement(model: Any, X: Any, *, best: float | None = None, minimise: bool = False) -> Scores:
    r"""Return how much each row is expected to exceed the best target so far.

    .. math:: \mathbb E\,(y - y^*)_+ = \frac1n \sum_i \sigma_i \big( z_i \Phi(z_i) + \varphi(z_i) \big),
              \quad z_i = (\mu_i - y^*)/\sigma_i

    Args:
        model: a fitted estimator of one number.
        X: rows ``(N, d)``.
        best: :math:`y^*`, the largest target so far; with ``minimise`` the smallest.
        minimise: whether small targets are wanted.

    Returns:
        Expected improvements ``(N,)``, in the target's units.
    """
    return _alone(criteria.expected_improvement(pool_of(model, X), best=best, minimise=minimise))


def probability_of_improvement(model: Any, X: Any, *, best: float | None = None, minimise: bool = False) -> Scores:
    """Return how probable it is that each row exceeds the best target so far.

    Args:
        model: a fitted estimator of one number.
        X: rows ``(N, d)``.
        best: the largest target so far; with ``minimise`` the smallest.
        minimise: whether small targets are wanted.

    Returns:
        Probabilities ``(N,)``.
    """
    return _alone(criteria.probability_of_improvement(pool_of(model, X), best=best, minimise=minimise))


def upper_confidence_bound(model: Any, X: Any, *, beta: float = 2.0, minimise: bool = False) -> Scores:
    """Return mean + ``beta`` × epistemic standard deviation of every row.

    Args:
        model: a fitted estimator of one number.
        X: rows ``(N, d)``.
        beta: how much doubt counts.
        minimise: whether small targets are wanted; scores are then ``beta`` × standard deviation − mean.

    Returns:
        Bounds ``(N,)``, in the target's units.
    """
    return _alone(criteria.upper_confidence_bound(pool_of(model, X), beta=beta, minimise=minimise))


def bald(model: Any, X: Any) -> Scores:
    r"""Return how much the target of each row tells about the function (Houlsby et al. 2011).

    For classes it is the mutual information of label and particle. For numbers it is that of a Gaussian with the same
    moments, :math:`\frac12 \log(1 + \text{epistemic variance} / \text{noise variance})`, and with several targets
    :math:`\frac12 \log\det(I + \Sigma\,\text{noise}^{-1})`: unlike the variance it has no unit, and where noise differs
    from row to row it does not look for noise.

    Args:
        model: a fitted estimator.
        X: rows ``(N, d)``.

    Returns:
        Information ``(N,)`` in nats.
    """
    return _alone(criteria.bald(pool_of(model, X)))


def variance(model: Any, X: Any) -> Scores:
    """Return the epistemic variance of every row: the variance of the particles' means.

    Args:
        model: a fitted estimator of one number or of classes.
        X: rows ``(N, d)``.

    Returns:
        Variances ``(N,)`` in the square of the target's units; of classes, summed over their probabilities.
    """
    return _alone(criteria.variance(pool_of(model, X)))


def entropy(model: Any, X: Any) -> Scores:
    """Return the entropy of the predicted label of every row, which more data may or may not remove.

    Args:
        model: a fitted estimator of classes.
        X: rows ``(N, d)``.

    Returns:
        Entropies ``(N,)`` in nats.
    """
    return _alone(criteria.entropy(pool_of(model, X)))


def margin(model: Any, X: Any) -> Scores:
    """Return how close the two most probable classes of every row are: 1 less the difference of their probabilities.

    Args:
        model: a fitted estimator of classes.
        X: rows ``(N, d)``.

    Returns:
        Scores ``(N,)`` from 0 to 1.
    """
    return _alone(criteria.margin(pool_of(model, X)))
