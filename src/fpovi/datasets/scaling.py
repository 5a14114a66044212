# SPDX-License-Identifier: Apache-2.0
"""Standardise and transform the inputs of a split by what its training rows alone tell."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from fpovi.datasets.uci import Split
from fpovi.inference.batches import make_batch
from fpovi.tabular import Standardiser, standardiser
from fpovi.types import Batch

LEAST_VARIANCE = 1e-10  # of a principal component, beside the largest; less is rounding


class Scaled(NamedTuple):
    """Standardised training rows and test inputs; ``y_test`` is in its own units, to which ``target`` leads back.

    ``predict(network, likelihood, state, scaled.x_test, *scaled.target)`` answers in those units too, and
    ``scaled.inputs(x)`` standardises other rows alike.
    """

    train: Batch
    x_test: NDArray[np.float32]
    y_test: NDArray[np.float64]
    target: Standardiser
    inputs: Standardiser


def scale_split(split: Split, unit_norm: bool = False) -> Scaled:
    """Scale inputs and target to mean 0 and variance 1 on the training rows.

    With ``unit_norm`` inputs are divided by √d_x as well, so that E‖x‖² = 1: what the experiments of Wang et al. (2019)
    do, and what their prior of weights expects.
    """
    inputs, target = standardiser(split.x_train), standardiser(split.y_train[:, None])
    if unit_norm:
        inputs = inputs._replace(scale=inputs.scale * np.sqrt(split.x_train.shape[1]))
    x_train, x_test = (inputs(x).astype(np.float32) for x in (split.x_train, split.x_test))
    return Scaled(make_batch(x_train, target(split.y_train[:, None])), x_test, split.y_test, target, inputs)


def whiten(split: Split) -> Split:
    """Replace inputs by their principal components, with variance 1 on the training rows; drop those that never vary.

    Where inputs are nearly copies of one another, what tells them apart is too small for a network to learn from: the
    components of naval's inputs differ by a factor of 1,000 in size.
    """
    inputs = standardiser(split.x_train)
    z = inputs(split.x_train)
    if not np.isfinite(z).all() or np.all(np.ptp(split.x_train, axis=0) == 0):
        raise ValueError("x_train must be finite, and some column must vary, to have principal components")
    variances, axes = np.linalg.eigh(z.T @ z / len(z))
    vary = variances > LEAST_VARIANCE * variances[-1]
    onto = axes[:, vary] / np.sqrt(variances[vary])
    return split._replace(x_train=z @ onto, x_test=inputs(split.x_test) @ onto)


def normal_scores(split: Split) -> Split:
    r"""Replace every input by its rank among the training rows: the r-th of N becomes :math:`\Phi^{-1}((r - 1/2)/N)`.

    However long the tails of an input were, none of its values is far off then. Equal values have their mean rank;
    between two values lies a straight line, beyond the last a constant.

    >>> x = np.asarray([[1.0], [1000.0], [2.0]])
    >>> normal_scores(Split(x, x[:, 0], np.asarray([[1.5], [5000.0]]), np.zeros(2))).x_test.round(2).ravel().tolist()
    [-0.48, 0.97]
    """
    if not np.isfinite(split.x_train).all():
        raise ValueError("x_train must be finite to be ranked")
    pairs = [_by_rank(*columns) for columns in zip(split.x_train.T, split.x_test.T, strict=True)]
    x_train, x_test = (np.stack(columns, axis=1) for columns in zip(*pairs, strict=True))
    return split._replace(x_train=x_train, x_test=x_test)


def _by_rank(train: NDArray[np.float64], test: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    values, counts = np.unique(train, return_counts=True)
    scores = ndtri((np.cumsum(counts) - counts / 2) / len(train))
    return np.interp(train, values, scores), np.interp(test, values, scores)


INPUTS: dict[str, Callable[[Split], Split]] = {
    "plain": lambda split: split,
    "white": whiten,
    "even": lambda split: whiten(normal_scores(split)),
}
