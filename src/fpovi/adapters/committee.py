# SPDX-License-Identifier: Apache-2.0
"""A classifier whose particles are the members of a committee, for the queries of scikit-activeml."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from fpovi.acquisition.pool import pool_of
from fpovi.estimators import BNNClassifier


class CommitteeClassifier(BNNClassifier):
    """A :class:`~fpovi.BNNClassifier` that lets others ask each particle.

    ``SklearnClassifier(CommitteeClassifier(), classes=…)`` of scikit-activeml goes into ``QueryByCommittee`` as it is,
    and into all queries that take ``sample_predictions_method_name="sample_proba"``, such as ``BatchBALD``.
    """

    @property
    def estimators_(self) -> list["Member"]:
        """The particles, each as a classifier of its own."""
        check_is_fitted(self, "fitted_")
        return [Member(self, number) for number in range(self.fitted_.n_particles)]

    def sample_proba(self, X: Any, n_samples: int | None = None, random_state: Any = None) -> NDArray[np.float64]:
        """Return the class probabilities of some particles.

        Args:
            X: rows with the columns seen in :meth:`fit`.
            n_samples: how many particles are drawn, with replacement; by default all of them, each once.
            random_state: a whole number makes the draw repeatable.

        Returns:
            Probabilities ``(n_samples, N, classes)``.
        """
        probs = pool_of(self, X).means
        if n_samples is not None:
            probs = probs[check_random_state(random_state).randint(len(probs), size=n_samples)]
        return probs / probs.sum(axis=2, keepdims=True)


class Member(ClassifierMixin, BaseEstimator):
    """One particle of a fitted classifier.

    Args:
        committee: the classifier.
        number: which particle.
    """

    def __init__(self, committee: CommitteeClassifier, number: int):
        self.committee = committee
        self.number = number

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes, in the order of the columns of ``predict_proba``."""
        return self.committee.classes_

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of every class, ``(N, classes)``.

        Args:
            X: rows with the columns seen in the committee's ``fit``.
        """
        return self.committee.sample_proba(X)[self.number]

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of every row, ``(N,)``.

        Args:
            X: rows with the columns seen in the committee's ``fit``.
        """
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]
