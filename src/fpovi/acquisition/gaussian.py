# SPDX-License-Identifier: Apache-2.0
"""The Gaussian process whose covariance at the rows of a pool is that of the particles.

With n particles, f(x) = mean(x) + Z(x) w, and w has n standard normal coordinates. Knowing the targets of some rows,
noise and all, shrinks the covariance C of w, and with it the variance Z C Zᵀ at every other row.
"""

import numpy as np
from jaxtyping import Float

from fpovi.acquisition.pool import Pool

FLOOR = 1e-9  # of the largest variance: noise below it counts as so much, for a matrix that can be inverted


def deviations_of(pool: Pool) -> Float[np.ndarray, "N m n"]:
    """Return Z, of which Z Zᵀ is the epistemic covariance."""
    apart = (pool.means - np.mean(pool.means, axis=0)) / np.sqrt(len(pool.means))
    return np.moveaxis(apart, 0, 2)


def noise_of(pool: Pool) -> Float[np.ndarray, "N m"]:
    """Return the noise of a row's targets, kept away from 0."""
    largest = np.max(np.var(pool.means, axis=0) + pool.noise, axis=0)
    return np.maximum(pool.noise, np.maximum(FLOOR * largest, np.finfo(float).tiny))


def variances(deviations: Float[np.ndarray, "N m n"], covariance: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "N m"]:
    """Return the variances Z C Zᵀ of all rows and targets."""
    return np.maximum(np.sum((deviations @ covariance) * deviations, axis=2), 0)


def learn(
    deviations: Float[np.ndarray, "N m n"],
    noise: Float[np.ndarray, "N m"],
    covariance: Float[np.ndarray, "n n"],
    row: int,
    scores: Float[np.ndarray, " N"],
) -> Float[np.ndarray, "n n"]:
    """Return C once the targets of a row are known: C − C Zᵀ (Z C Zᵀ + noise)⁻¹ Z C."""
    z = deviations[row]
    felt = z @ covariance
    return covariance - felt.T @ np.linalg.solve(felt @ z.T + np.diag(noise[row]), felt)
