# SPDX-License-Identifier: Apache-2.0
"""Classification."""

import math
import os
from collections.abc import Mapping
from numbers import Number, Real
from typing import Any

import jax
import numpy as np
import pandas as pd
from jaxtyping import Array, Float
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import column_or_1d
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from fpovi._lookup import lookup
from fpovi.estimators.base import BaseBNN
from fpovi.estimators.inputs import check_columns
from fpovi.predictive import Predictive
from fpovi.tabular.target import ClassTarget, Target
from fpovi.types import Likelihood, Support


class BNNClassifier(ClassifierMixin, BaseBNN):
    """Bayesian neural network classification: probabilities that know how sure they are.

    Args are those of :class:`~fpovi.BNNRegressor`, "auto" for ``likelihood`` is "categorical", and:

    Args:
        class_weight: weights of classes, which multiply ``sample_weight``: a dictionary from label to weight (1 for
            labels it leaves out), "balanced" for the same total in every class, or None. Probabilities are then those
            of a population in which classes have such shares. They are calibrated there, and not on rows like those of
            the fit: on these, rare classes get too much. For probabilities of the rows as they are, leave it None, and
            put what errors cost into the decision, as in ``predict_proba(X)[:, 1] > 0.1``. For a population with other
            shares of classes than the rows of the fit there is :func:`fpovi.calibration.with_class_shares`.

    >>> X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> model = BNNClassifier(max_epochs=200, random_state=0).fit(X, ["low", "low", "high", "high"])
    >>> model.predict([[-1.5], [1.5]]).tolist()
    ['low', 'high']
    """

    _likelihood = "categorical"

    def __init__(
        self,
        hidden_layer_sizes: Any = (50,),
        activation: Any = "relu",
        *,
        n_particles: int = 20,
        flow: Any = "gfsf",
        space: str = "function",
        kernel: Any = "auto",
        prior: Any = "auto",
        measurement: Any = "auto",
        likelihood: Any = "auto",
        network: Any = None,
        learning_rate: Any = "auto",
        batch_size: Any = "auto",
        max_epochs: Any = "auto",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        class_weight: Any = None,
        scaling: str = "auto",
        max_categories: int = 50,
        unknown: str = "error",
        random_state: Any = None,
        verbose: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
        devices: int | str | None = None,
    ):
        # scikit-learn reads the settings of an estimator from the arguments that its own __init__ names
        super().__init__(
            hidden_layer_sizes, activation, n_particles=n_particles, flow=flow, space=space, kernel=kernel, prior=prior,
            measurement=measurement, likelihood=likelihood, network=network, learning_rate=learning_rate,
            batch_size=batch_size, max_epochs=max_epochs, early_stopping=early_stopping,
            validation_fraction=validation_fraction, scaling=scaling, max_categories=max_categories, unknown=unknown,
            random_state=random_state, verbose=verbose, checkpoint=checkpoint, devices=devices,
        )  # fmt: skip
        self.class_weight = class_weight

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
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"class_weight={self.class_weight!r} needs all rows at once: in partial_fit give a dictionary"
            )
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
        answers = self.fitted_.answers(_probabilities, check_columns(self, X), self.unknown)
        probs = np.asarray(answers, np.float64)
        return probs / probs.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of every row, ``(N,)``.

        Args:
            X: rows with the columns seen in :meth:`fit`.
        """
        likeliest = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[likeliest]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of rows whose most probable class is the right one; a class unseen in fit is never right.

        Args:
            X: rows with the columns seen in :meth:`fit`.
            y: labels ``(N,)``.
            sample_weight: one weight per row ``(N,)``.
        """
        return float(super().score(X, _labels(y), sample_weight))

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

    def _weigh(self, y: NDArray[Any], weight: NDArray[np.float64], target: Target) -> NDArray[np.float64]:
        if self.class_weight is None:
            return weight
        by_label = _class_weights(self.class_weight, target.classes, y, weight)  # type: ignore[union-attr]
        return weight * np.asarray([by_label.get(label, 1.0) for label in y.tolist()])

    def _learn_target(self, y: NDArray[Any], weight: NDArray[np.float64], likelihood: Likelihood) -> Target:
        if likelihood.support is not Support.CLASSES:
            raise ValueError('likelihood is for real targets: use BNNRegressor, or likelihood="categorical"')
        return ClassTarget.learn(y, weight, getattr(self, "_announced", None))


def _class_weights(
    class_weight: Any, classes: NDArray[Any], y: NDArray[Any], weight: NDArray[np.float64]
) -> dict[Any, float]:
    """Return weights by label; balanced ones as scikit-learn computes them from rows that count."""
    if isinstance(class_weight, str):
        lookup({"balanced": None}, class_weight, "class_weight")
        y, weight = y[weight > 0], weight[weight > 0]
        found = np.unique(y)
        balanced = compute_class_weight("balanced", classes=found, y=y, sample_weight=weight)
        return dict(zip(found.tolist(), balanced.tolist(), strict=True))
    if not isinstance(class_weight, Mapping):
        raise ValueError(f'class_weight={class_weight!r} must be None, "balanced" or a dictionary from label to weight')
    strange = [label for label in class_weight if label not in classes.tolist()]
    if strange:
        raise ValueError(f"class_weight has the class {strange[0]!r}, which is none of {classes[:10].tolist()}")
    if not all(isinstance(number, Real) and 0 < float(number) < math.inf for number in class_weight.values()):
        raise ValueError(f"class_weight={class_weight!r} must hold positive numbers")
    return {label: float(number) for label, number in class_weight.items()}


@jax.jit
def _probabilities(predictive: Predictive) -> Float[Array, "B k"]:
    return predictive.probs


def _labels(y: Any) -> NDArray[Any]:
    """Return labels ``(N,)`` that can be told apart, put in order and kept in a file: numbers, booleans or strings."""
    y = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
    if np.iscomplexobj(y):
        raise ValueError("y holds complex numbers. Complex data not supported")
    y = column_or_1d(y, warn=True)
    if y.dtype.kind == "O":
        y = _plain_labels(y)
    if y.dtype.kind not in "biufUO":
        raise ValueError(f"y has labels of type {y.dtype}, but numbers or strings are needed, such as y.astype(str)")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ValueError("Input y contains NaN or infinity, which are no classes")
    check_classification_targets(y)
    return y


def _plain_labels(y: NDArray[Any]) -> NDArray[Any]:
    """Return objects that are all strings as they are, and those that are all numbers or booleans as such."""
    missing = np.asarray([label is None or label is pd.NA or label != label for label in y])  # NaN alone is not itself
    if missing.any():
        first = int(np.argmax(missing))
        raise ValueError(
            f"Input y contains NaN or None, which are no classes, in {missing.sum()} rows, the first at row {first}"
        )
    kinds = {"numbers" if isinstance(label, Number) else type(label).__name__ for label in y}
    if len(kinds) > 1:
        raise ValueError(f"y mixes types ({', '.join(sorted(kinds))}), but classes must be all numbers or all strings")
    if kinds <= {"str", "str_"}:
        return y
    if kinds == {"numbers"}:
        return np.asarray(y.tolist())
    raise ValueError(f"y has labels of type {kinds.pop()}, but numbers or strings are needed, such as y.astype(str)")
