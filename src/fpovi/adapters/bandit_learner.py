# SPDX-License-Identifier: Apache-2.0
"""A regressor that learns row by row, for the arms of bayesianbandits."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from fpovi.acquisition.pool import pool_of
from fpovi.estimators import BNNRegressor


class BanditLearner:
    """The learner of one arm: ``Arm("name", learner=BanditLearner(BNNRegressor(max_epochs=200)))``.

    Rows are kept, and the network is fitted when something is asked of it and there are enough new ones. Before there
    are two different rewards, draws are standard normal times ``prior_std``.

    Args:
        model: what is fitted; it is copied, so that arms may share one.
        prior_std: the size of rewards, for draws before anything is known.
        growth: by what share rows have to grow until the next fit; 0 fits whenever there are new ones.
        decay_rate: what :meth:`decay` multiplies the weights of rows by, where its caller does not say.
        random_state: a seed or a generator of draws; agents set it.
    """

    def __init__(
        self,
        model: BNNRegressor,
        *,
        prior_std: float = 1.0,
        growth: float = 0.1,
        decay_rate: float = 1.0,
        random_state: np.random.Generator | int | None = None,
    ):
        self.model = model
        self.prior_std = prior_std
        self.growth = growth
        self.decay_rate = decay_rate
        self._rng = np.random.default_rng(random_state)
        self._rows: tuple[NDArray[Any], ...] = ()  # inputs, rewards, weights
        self._fitted: BNNRegressor | None = None
        self._fit_after = 0.0  # so many rows

    @property
    def random_state(self) -> np.random.Generator:
        """The generator of draws; a seed makes a new one."""
        return self._rng

    @random_state.setter
    def random_state(self, value: np.random.Generator | int | None) -> None:
        self._rng = np.random.default_rng(value)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> "BanditLearner":
        """Remember rows; they count from the next answer on, or when rows have grown enough.

        Args:
            X: contexts ``(N, d)``.
            y: rewards ``(N,)``.
            sample_weight: weights ``(N,)``, 1 by default.
        """
        inputs, rewards = np.asarray(X), np.asarray(y, np.float64)
        weights = np.ones(len(rewards)) if sample_weight is None else np.asarray(sample_weight, np.float64)
        if inputs.ndim != 2 or not len(inputs) == len(rewards) == len(weights):
            raise ValueError(f"X has shape {inputs.shape}, but one row for each of {len(rewards)} rewards is needed")
        if not np.isfinite(rewards).all():
            raise ValueError("y has rewards that are not finite: leave those rows out")
        new = inputs, rewards, weights
        self._rows = tuple(map(np.concatenate, zip(self._rows, new, strict=True))) if self._rows else new
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the expected reward of every context, ``(N,)``; 0 while nothing is known.

        Args:
            X: contexts ``(N, d)``.
        """
        model = self._current()
        return np.zeros(len(X)) if model is None else model.predict(X)

    def sample(self, X: Any, size: int = 1) -> NDArray[np.float64]:
        """Draw the expected rewards of all contexts together, each draw what one particle says.

        Args:
            X: contexts ``(N, d)``.
            size: how many draws.

        Returns:
            Draws ``(size, N)``.
        """
        model, rng = self._current(), self._rng
        if model is None:
            return self.prior_std * rng.normal(size=(size, len(X)))
        means = pool_of(model, X).means[..., 0]
        return means[rng.integers(len(means), size=size)]

    def decay(self, forgetting: Any = None, *, decay_rate: float | None = None, steps: float = 1) -> None:
        """Multiply the weights of all rows so far by ``rate ** steps``, and fit before the next answer.

        Args:
            forgetting: a rule of bayesianbandits, of which the ``rate`` is taken.
            decay_rate: the rate itself; without either it is the learner's own.
            steps: how many ticks of the clock.
        """
        rate = decay_rate if decay_rate is not None else getattr(forgetting, "rate", self.decay_rate)
        if not 0 < rate <= 1:
            raise ValueError(f"the rate of decay is {rate}, but it must be above 0 and at most 1")
        if self._rows and rate < 1:
            self._rows = (*self._rows[:2], self._rows[2] * rate**steps)
            self._fit_after = 0.0

    def _current(self) -> BNNRegressor | None:
        """Return the model, fitted to the rows if there are enough new ones; None while there is nothing to learn."""
        if self._rows and len(self._rows[1]) > self._fit_after and np.ptp(self._rows[1]) > 0:
            self._fitted = clone(self.model).fit(*self._rows)
            self._fit_after = (1 + self.growth) * len(self._rows[1])
        return self._fitted
