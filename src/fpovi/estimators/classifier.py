# SPDX-License-Identifier: Apache-2.0
"""Classes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from fpovi.estimators.base import BaseBNN
from fpovi.tabular.blocks import probabilities
from fpovi.types import Likelihood


class BNNClassifier(ClassifierMixin, BaseBNN):
    """Bayesian neural network classification: probabilities that know how sure they are.

    Args are those of :class:`~fpovi.BNNRegressor`; ``likelihood`` is "categorical".

    >>> X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> model = BNNClassifier(max_epochs=200, random_state=0).fit(X, ["low", "low", "high", "high"])
    >>> model.predict([[-1.5], [1.5]]).tolist()
    ['low', 'high']
    """

    classes_: NDArray[Any]

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
        likelihood: Any = "categorical",
        network: Any = None,
        learning_rate: Any = "auto",
        batch_size: Any = "auto",
        max_epochs: Any = "auto",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        max_categories: int = 50,
        unknown: str = "error",
        random_state: Any = None,
        verbose: bool = False,
        checkpoint: Any = None,
        devices: Any = None,
    ):
        settings = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        super().__init__(**settings)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> "BaseBNN":  # type: ignore[override]
        """Go on learning with more rows; ``classes``, all there will ever be, is needed the first time only."""
        self._announced = None if classes is None else np.unique(np.asarray(classes))
        try:
            return super().partial_fit(X, y, sample_weight)
        finally:
            del self._announced

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probability of every class, in the order of ``classes_``."""
        probs = np.asarray(self._answers(probabilities, X), np.float64)
        return probs / probs.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of every row."""
        likeliest = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[likeliest]

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = None) -> NDArray[Any]:
        """Draws of the classes of all rows together, ``(n_samples, N)``, each from one coherent function."""
        places = super().sample_y(X, n_samples, random_state)
        return self.classes_[places]

    def _learn_target(self, y: Any, weight: NDArray[np.float64], likelihood: Likelihood) -> NDArray[Any]:
        if not likelihood.classes:
            raise ValueError('likelihood is for real targets: use BNNRegressor, or likelihood="categorical"')
        y = _labels(y)
        announced = getattr(self, "_announced", None)
        classes = np.unique(y[weight > 0]) if announced is None else announced
        if len(classes) < 2:
            raise ValueError(f"y has one class only ({classes[0]!r}): at least two classes are needed")
        self.classes_ = classes
        return self._encode_target(np.where(weight > 0, y, classes[0]))

    def _encode_target(self, y: Any) -> NDArray[Any]:
        y = _labels(y)
        places = {label: place for place, label in enumerate(self.classes_.tolist())}
        strange = [label for label in y.tolist() if label not in places]
        if strange:
            raise ValueError(
                f"y has the class {strange[0]!r}, which is none of {self.classes_[:10].tolist()}: "
                "name all classes in the first partial_fit(…, classes=…)"
            )
        return np.asarray([places[label] for label in y.tolist()], np.int32)[:, None]

    def _num_outputs(self, targets: int, likelihood: Likelihood) -> int:
        return len(self.classes_)

    def _target_to_json(self) -> dict[str, Any]:
        kind = self.classes_.dtype.kind
        if kind not in "biufUO":
            raise ValueError(f"classes of type {self.classes_.dtype} cannot be kept in a file: use numbers or strings")
        return {"dtype": "object" if kind == "O" else self.classes_.dtype.str, "classes": self.classes_.tolist()}

    def _target_from_json(self, fields: dict[str, Any]) -> None:
        dtype, classes = np.dtype(fields["dtype"]), np.asarray(fields["classes"])
        if classes.ndim != 1 or len(classes) < 2 or classes.dtype.kind not in "biufU":
            raise ValueError("its classes are not a list of at least two numbers or strings")
        if dtype.kind not in "biufUO" or (dtype.kind in "UO") != (classes.dtype.kind == "U"):
            raise ValueError(f"its classes are not of type {dtype}")
        # a string type says how long strings may be, which those at hand know better
        self.classes_ = classes if dtype.kind == "U" else classes.astype(dtype)
        if np.any(self.classes_[1:] <= self.classes_[:-1]) or len(classes) != self.sizes_[-1]:
            raise ValueError("its classes are not in order, or not as many as its network has outputs")

    def _units(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return np.zeros(()), np.ones(())


def _labels(y: Any) -> NDArray[Any]:
    y = column_or_1d(y, warn=True)
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ValueError("Input y contains NaN or infinity, which are no classes")
    try:
        check_classification_targets(y)
    except TypeError as error:  # words and numbers have no order
        raise ValueError(f"y mixes types, but classes must be all numbers or all strings: {error}") from error
    return y
