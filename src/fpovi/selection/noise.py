# SPDX-License-Identifier: Apache-2.0
"""The noise of most evidence under a prior with given scales."""

from collections.abc import Callable
from functools import partial

import jax
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from fpovi.priors.nngp import nngp_covariance
from fpovi.types import Architecture, Key, Scales

CANDIDATES = np.geomspace(1e-3, 2.0, 60)
MIN_ROWS = 32


def evident_noise(
    key: Key,
    architecture: Architecture,
    x: Float[np.ndarray, "N d_x"],
    y: Float[np.ndarray, "N m"],
    weight: Float[np.ndarray, " N"],
    max_rows: int = 500,
) -> float:
    r"""Return the σ of most evidence under :func:`~fpovi.priors.nngp` with the scales as they are, to about an eighth.

    With weights W and :math:`W^{1/2} C W^{1/2} = U \Lambda U^T`, every candidate costs one pass over the eigenvalues:

    .. math:: \log p(y) = \sum_i \log \mathcal N\big((U^T W^{1/2} y)_i;\, 0,\, \lambda_i + \sigma^2\big) + \text{const}

    Args:
        key: chooses the rows, where there are more than ``max_rows``.
        architecture: of the network, with its scales.
        x, y, weight: standardised inputs and targets, and one positive weight per row.
        max_rows: of the subsample; time grows with its cube.
    """
    count = min(len(x), max_rows)
    chosen = np.asarray(jax.random.permutation(key, len(x)))[:count] if len(x) > count else np.arange(count)
    length = max(MIN_ROWS, 2 ** (count - 1).bit_length())  # so that few programs serve all tables
    with jax.enable_x64(True):
        rows = np.pad(x[chosen].astype(np.float64), ((0, length - count), (0, 0)))
        covariance = np.asarray(_covariance(*architecture, rows))[:count, :count]
    root = np.sqrt(weight[chosen])
    values, vectors = np.linalg.eigh(root[:, None] * covariance * root)
    squared = np.sum((vectors.T @ (root[:, None] * y[chosen])) ** 2, axis=1)
    return float(CANDIDATES[np.argmax([_log_evidence(s, values, squared, y.shape[1]) for s in CANDIDATES])])


@partial(jax.jit, static_argnums=(0, 1))
def _covariance(
    sizes: tuple[int, ...], activation: Callable[[Array], Array], scales: Scales, x: Float[Array, "N d_x"]
) -> Float[Array, "N N"]:
    return nngp_covariance(Architecture(sizes, activation, scales))(x, x)


def _log_evidence(noise: float, values: NDArray[np.float64], squared: NDArray[np.float64], targets: int) -> float:
    variance = np.maximum(values, 0) + noise**2
    return float(-np.sum(targets * np.log(variance) + squared / variance) / 2)
