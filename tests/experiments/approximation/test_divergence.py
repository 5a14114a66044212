# SPDX-License-Identifier: Apache-2.0
"""The divergence between normals, against its closed form and a Monte Carlo mean."""

import numpy as np
import pytest
from scipy import stats

from fpovi.experiments.approximation import gaussian_kl


def test_kl_in_one_dimension_is_the_closed_form():
    mean, std, to_mean, to_std = 0.3, 0.7, -0.5, 1.2
    expected = np.log(to_std / std) + (std**2 + (mean - to_mean) ** 2) / (2 * to_std**2) - 0.5
    got = gaussian_kl(np.array([mean]), np.array([[std**2]]), np.array([to_mean]), np.array([[to_std**2]]))
    assert got == pytest.approx(expected, rel=1e-12)  # float64


def test_kl_is_the_mean_log_ratio():
    rng = np.random.default_rng(0)
    factor, to_factor = rng.normal(size=(2, 3, 3))
    mean, to_mean = rng.normal(size=(2, 3))
    covariance, to_covariance = factor @ factor.T + np.eye(3), to_factor @ to_factor.T + np.eye(3)
    p, q = stats.multivariate_normal(mean, covariance), stats.multivariate_normal(to_mean, to_covariance)
    draws = p.rvs(100_000, random_state=rng)
    ratios = p.logpdf(draws) - q.logpdf(draws)
    # five standard errors of the Monte Carlo mean
    assert abs(gaussian_kl(mean, covariance, to_mean, to_covariance) - ratios.mean()) < 5 * ratios.std() / 100_000**0.5


def test_kl_to_itself_is_zero():
    covariance = np.array([[2.0, 0.5], [0.5, 1.0]])
    assert gaussian_kl(np.ones(2), covariance, np.ones(2), covariance) == pytest.approx(0, abs=1e-14)  # float64
