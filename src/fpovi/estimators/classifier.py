# SPDX-License-Identifier: Apache-2.0
"""Classification."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from fpovi.estimators.base import BaseBNN
from fpovi.predictive import Predictive
from fpovi.tabular.target import ClassTarget, Target
from fpovi.types import Likelihood, Support


class BNNClassifier(ClassifierMixin, BaseBNN):
    """Bayesian neural network classification: probabilities that know how sure they are.

    Args are those of :class:`~fpovi.BNNRegressor`; "auto" for ``likelihood`` is "categorical".

    >>> X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> model = BNNClassifier(max_epochs=200, random_state=0).fit(X, ["low", "low", "high", "high"])
    >>> model.predict([[-1.5], [1.5]]).tolist()
    ['low', 'high']
    """

    _likelihood = "categorical"

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes, in the order of the columns of ``predict_proba``."""
        check_is_fitted(self, "fitted_")
        return self.fitted_.target.classes  # type: ignore[union-attr]

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> "BaseBNN":  # type: ignore[override]
        """Go on learning with more rows: what was learned stays the start, and all rows so far count.

        Args:
            X, y, sample_weight: as in :meth:`fit`.
            classes: all classes there will ever be; needed the first time only.
        """
        self._announced = None if classes is None else np.unique(np.asarray(classes))
        try:
            return super().partial_fit(X, y, sample_weight)
        finally:
            del self._announced

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of every class, in the order of ``classes_``.

        Args:
            X: rows with the columns seen in :meth:`fit`.

        Returns:
            Probabilities ``(N, classes)``.
        """
        check_is_fitted(self, "fitted_")
        answers = self.fitted_.answers(_probabilities, self._check_columns(X), self.unknown)
        probs = np.asarray(answers, np.float64)
        return probs / probs.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of every row, ``(N,)``.

        Args:
            X: rows with the columns seen in :meth:`fit`.
        """
        likeliest = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[likeliest]

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = None) -> NDArray[Any]:
        """Draw the classes of all rows together, each draw from one coherent function.

        Args:
            X: rows with the columns seen in :meth:`fit`.
            n_samples: how many draws.
            random_state: a whole number makes draws repeatable.

        Returns:
            Classes ``(n_samples, N)``.
        """
        places = super().sample_y(X, n_samples, random_state)
        return self.classes_[places]

    def _check_target(self, y: Any) -> NDArray[Any]:
        return _labels(y)

    def _learn_target(self, y: NDArray[Any], weight: NDArray[np.float64], likelihood: Likelihood) -> Target:
        if likelihood.support is not Support.CLASSES:
            raise ValueError('likelihood is for real targets: use BNNRegressor, or likelihood="categorical"')
        return ClassTarget.learn(y, weight, getattr(self, "_announced", None))


@jax.jit
def _probabilities(predictive: Predictive) -> Float[Array, "B k"]:
    return predictive.probs


def _labels(y: Any) -> NDArray[Any]:
    y = column_or_1d(y, warn=True)
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ValueError("Input y contains NaN or infinity, which are no classes")
    try:
        check_classification_targets(y)
    except TypeError as error:  # words and numbers have no order
        raise ValueError(f"y mixes types, but classes must be all numbers or all strings: {error}") from error
    return y
