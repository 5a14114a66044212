# SPDX-License-Identifier: Apache-2.0
"""What a fit learned of its targets: units of real numbers, or names of classes."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fpovi.tabular.standardise import Standardiser, learn_target
from fpovi.types import Likelihood


@dataclass(frozen=True)
class RealTarget:
    """Real numbers or counts: their shift and scale, and whether the user gave a single column ``(N,)``."""

    estimator: ClassVar[str] = "BNNRegressor"
    standardiser: Standardiser
    single: bool

    @classmethod
    def learn(cls, values: NDArray[np.float64], weight: NDArray[np.float64], likelihood: Likelihood) -> "RealTarget":
        """Learn the units of targets ``(N,)`` or ``(N, m)``, of which rows of weight 0 do not count."""
        learned = learn_target(values, weight)
        columns = values.reshape(len(values), -1)[weight > 0]
        constant = np.flatnonzero(np.ptp(columns, axis=0) == 0)
        if len(constant):
            which = "" if values.ndim == 1 else f" in column {constant[0]}"
            raise ValueError(f"y is constant ({columns[0, constant[0]]:g}){which}: there is nothing to learn")
        if likelihood.support.atoms:
            learned = Standardiser(np.zeros_like(learned.shift), np.ones_like(learned.scale))
        return cls(learned, values.ndim == 1)

    def encode(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return targets ``(N, m)`` in standardised units."""
        values = values.reshape(len(values), -1)
        if values.shape[1] != self.count:
            raise ValueError(f"y has {values.shape[1]} targets, but {self.count} were seen in fit")
        return self.standardiser(values)

    @property
    def count(self) -> int:
        """How many targets a row has."""
        return len(self.standardiser.shift)

    @property
    def units(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Shift and scale of the targets."""
        return self.standardiser.shift, self.standardiser.scale

    def outputs(self, likelihood: Likelihood) -> int:
        """Return how many outputs a network needs."""
        return likelihood.width(self.count)

    def to_json(self) -> dict[str, Any]:
        """Return this target in JSON types."""
        return {"single": bool(self.single), **self.standardiser.to_json()}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "RealTarget":
        """Return what :meth:`to_json` described; raise a ``ValueError`` for anything else."""
        found = cls(Standardiser.from_json({name: fields[name] for name in ("shift", "scale")}), bool(fields["single"]))
        if found.single and found.count > 1:
            raise ValueError("its targets and its network do not fit together")
        return found


@dataclass(frozen=True)
class ClassTarget:
    """Classes by name, in order."""

    estimator: ClassVar[str] = "BNNClassifier"
    single: ClassVar[bool] = True
    classes: NDArray[Any]

    @classmethod
    def learn(
        cls, labels: NDArray[Any], weight: NDArray[np.float64], announced: NDArray[Any] | None = None
    ) -> "ClassTarget":
        """Learn the classes of labels ``(N,)``, of which rows of weight 0 do not count; or take those ``announced``."""
        classes = np.unique(labels[weight > 0]) if announced is None else announced
        if len(classes) < 2:
            raise ValueError(f"y has one class only ({classes.tolist()[0]!r}): at least two classes are needed")
        return cls(classes)

    def encode(self, labels: NDArray[Any]) -> NDArray[np.int32]:
        """Return the places ``(N, 1)`` of labels among the classes."""
        places = {label: place for place, label in enumerate(self.classes.tolist())}
        strange = [label for label in labels.tolist() if label not in places]
        if strange:
            raise ValueError(
                f"y has the class {strange[0]!r}, which is none of {self.classes[:10].tolist()}: "
                "name all classes in the first partial_fit(…, classes=…)"
            )
        return np.asarray([places[label] for label in labels.tolist()], np.int32)[:, None]

    @property
    def units(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """No shift, and scale 1."""
        return np.zeros(()), np.ones(())

    def outputs(self, likelihood: Likelihood) -> int:
        """Return how many outputs a network needs."""
        return len(self.classes)

    def to_json(self) -> dict[str, Any]:
        """Return this target in JSON types."""
        kind = self.classes.dtype.kind
        if kind not in "biufUO":
            raise ValueError(f"classes of type {self.classes.dtype} cannot be kept in a file: use numbers or strings")
        return {"dtype": "object" if kind == "O" else self.classes.dtype.str, "classes": self.classes.tolist()}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "ClassTarget":
        """Return what :meth:`to_json` described; raise a ``ValueError`` for anything else."""
        dtype, classes = np.dtype(fields["dtype"]), np.asarray(fields["classes"])
        if classes.ndim != 1 or len(classes) < 2 or classes.dtype.kind not in "biufU":
            raise ValueError("its classes are not a list of at least two numbers or strings")
        if dtype.kind not in "biufUO" or (dtype.kind in "UO") != (classes.dtype.kind == "U"):
            raise ValueError(f"its classes are not of type {dtype}")
        # a string type says how long strings may be, which those at hand know better
        classes = classes if dtype.kind == "U" else classes.astype(dtype)
        if np.any(classes[1:] <= classes[:-1]):
            raise ValueError("its classes are not in order")
        return cls(classes)


Target = RealTarget | ClassTarget
