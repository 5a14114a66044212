# SPDX-License-Identifier: Apache-2.0
"""Contexts of any form as inputs for a model: as numbers that they are, or through the encoder of the estimators."""

from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float

from fpovi.tabular import ArrayEncoder, Encoder, learn_arrays, learn_encoder


class AsTheyAre:
    """Takes d numbers as they are."""

    def __init__(self, inputs: int):
        if isinstance(inputs, bool) or inputs < 1:
            raise ValueError(f"contexts={inputs} must be at least 1, or a table of examples")
        self.shape = (int(inputs),)

    def __call__(self, X: Any, unknown: str = "error") -> Float[np.ndarray, "N d"]:
        """Return the numbers in float32, or raise a ``ValueError``."""
        return np.asarray(_numbers(X, self.shape[0]), np.float32)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {"inputs": self.shape[0]}


class Standardised:
    """Standardises arrays by the examples they were learned from."""

    def __init__(self, encoder: ArrayEncoder):
        self.encoder, self.shape = encoder, encoder.shape
        self._shift, self._scale = encoder.shift.astype(np.float32), encoder.scale.astype(np.float32)

    def __call__(self, X: Any, unknown: str = "error") -> Float[np.ndarray, "N d"]:
        """Return (X − mean)/std in float32, or raise a ``ValueError``."""
        return (np.asarray(_numbers(X, self.shape[0]), np.float32) - self._shift) / self._scale

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return self.encoder.to_json()


ContextEncoder: TypeAlias = AsTheyAre | Standardised | Encoder


def learn_contexts(examples: Any) -> ContextEncoder:
    """Return what turns contexts like the examples into inputs.

    Args:
        examples: a number of inputs, which are then taken as they are; or rows like those that will come, from which
            means, standard deviations and categories are learned.
    """
    if isinstance(examples, int | np.integer):
        return AsTheyAre(int(examples))
    if isinstance(examples, np.ndarray) and examples.ndim == 2 and examples.dtype.kind in "biuf":
        return Standardised(learn_arrays(examples))
    return learn_encoder(examples)


def from_json(kind: str, fields: Any) -> ContextEncoder:
    """Return the encoder whose kind and ``to_json()`` these are, or raise a ``ValueError``."""
    if kind == "AsTheyAre":
        return AsTheyAre(fields["inputs"])
    return Standardised(ArrayEncoder.from_json(fields)) if kind == "Standardised" else Encoder.from_json(fields)


def _numbers(X: Any, inputs: int) -> Any:
    """Return finite numbers ``(N, inputs)``, or raise a ``ValueError``."""
    try:
        array = np.asarray(X)
        array = array.astype(float) if array.dtype == object else array
    except (TypeError, ValueError) as error:
        raise ValueError(f"contexts cannot be read as an array of numbers: {error}") from error
    if array.ndim != 2 or array.shape[1] != inputs or len(array) == 0:
        one = " (one context is contexts[None])" if array.shape == (inputs,) else ""
        raise ValueError(f"contexts have shape {array.shape}, but rows of numbers (N, {inputs}) are needed{one}")
    if array.dtype.kind not in "biuf":
        raise ValueError(f"contexts have values of type {array.dtype}, but numbers are needed")
    if not np.isfinite(array).all():
        row = int(np.argmin(np.isfinite(array).all(axis=1)))
        raise ValueError(f"contexts have NaN or infinity, first at row {row}: fill them in")
    return array
