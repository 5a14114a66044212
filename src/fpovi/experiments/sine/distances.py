# SPDX-License-Identifier: Apache-2.0
"""How far one posterior is from another, from draws of both."""

import numpy as np
from numpy.typing import NDArray

LEVELS = (np.arange(100) + 0.5) / 100


def quantiles(draws: NDArray[np.floating]) -> NDArray[np.float64]:
    """The 100 mid-point quantiles of ``draws (n, G)`` at every grid point: ``(100, G)``."""
    return np.quantile(np.asarray(draws, np.float64), LEVELS, axis=0)


def wasserstein2(a: NDArray[np.floating], b: NDArray[np.floating]) -> NDArray[np.float64]:
    r"""2-Wasserstein distance per grid point between marginals given by their :func:`quantiles`.

    .. math:: W_2^2 = \int_0^1 (F^{-1}(q) - G^{-1}(q))^2 dq \approx \frac1{100} \sum_q (a_q - b_q)^2
    """
    return np.sqrt(np.mean((np.asarray(a) - np.asarray(b)) ** 2, axis=0))


def gaussian_kl(
    mean: NDArray[np.floating],
    covariance: NDArray[np.floating],
    to_mean: NDArray[np.floating],
    to_covariance: NDArray[np.floating],
) -> float:
    r"""KL from one multivariate normal to another.

    .. math:: \tfrac12\big(\mathrm{tr}(S^{-1}C) + (\mu-m)^T S^{-1} (\mu-m) - d + \log|S| - \log|C|\big)
    """
    difference = to_mean - mean
    solved = np.linalg.solve(to_covariance, np.column_stack([covariance, difference]))
    trace, quadratic = np.trace(solved[:, :-1]), difference @ solved[:, -1]
    log_det = np.linalg.slogdet(to_covariance)[1] - np.linalg.slogdet(covariance)[1]
    return float(0.5 * (trace + quadratic - len(mean) + log_det))
