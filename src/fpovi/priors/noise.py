# SPDX-License-Identifier: Apache-2.0
"""How much noise the data have, as a prior with given scales sees them."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from fpovi.priors.nngp import nngp_covariance
from fpovi.types import Architecture, Key

CANDIDATES = np.geomspace(1e-3, 2.0, 60)


def evident_noise(
    key: Key,
    architecture: Architecture,
    x: Float[np.ndarray, "N d_x"],
    y: Float[np.ndarray, "N m"],
    weight: Float[np.ndarray, " N"],
    max_rows: int = 500,
) -> float:
    r"""The σ of most evidence under :func:`~fpovi.priors.nngp` with the scales as they are, to about an eighth.

    With weights W and :math:`W^{1/2} C W^{1/2} = U \Lambda U^T`, every candidate costs one pass over the eigenvalues:

    .. math:: \log p(y) = \sum_i \log \mathcal N\big((U^T W^{1/2} y)_i;\, 0,\, \lambda_i + \sigma^2\big) + \text{const}

    Args:
        key: chooses the rows, where there are more than ``max_rows``.
        architecture: of the network, with its scales.
        x, y, weight: standardised inputs and targets, and one positive weight per row.
        max_rows: of the subsample; time grows with its cube.
    """
    chosen = np.asarray(jax.random.permutation(key, len(x)))[:max_rows]
    with jax.enable_x64(True):
        rows = jnp.asarray(x[chosen], jnp.float64)
        covariance = np.asarray(nngp_covariance(architecture)(rows, rows))
    root = np.sqrt(weight[chosen])
    values, vectors = np.linalg.eigh(root[:, None] * covariance * root)
    squared = np.sum((vectors.T @ (root[:, None] * y[chosen])) ** 2, axis=1)
    return float(CANDIDATES[np.argmax([_log_evidence(s, values, squared, y.shape[1]) for s in CANDIDATES])])


def _log_evidence(noise: float, values: NDArray[np.float64], squared: NDArray[np.float64], targets: int) -> float:
    variance = np.maximum(values, 0) + noise**2
    return float(-np.sum(targets * np.log(variance) + squared / variance) / 2)
