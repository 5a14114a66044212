# SPDX-License-Identifier: Apache-2.0
"""Intervals of a mean are Student's where tails are light, and wider where they are heavy."""

import numpy as np
import pytest
from scipy import stats

from fpovi.bandits.heavy_tails import mean_of

LIGHT = np.random.default_rng(0).uniform(size=40)  # of kurtosis 1.8, below a normal's


def test_light_tails_give_students_interval_and_test():
    expected = stats.ttest_1samp(LIGHT, 0.4)
    mean = mean_of(LIGHT)
    np.testing.assert_allclose(mean.interval(0.9), expected.confidence_interval(0.9))
    np.testing.assert_allclose(mean.p_value(0.4), expected.pvalue)


def test_degrees_of_freedom_are_those_of_the_formula():
    terms = np.random.default_rng(1).exponential(size=50) ** 2
    n, kurtosis = len(terms), stats.kurtosis(terms, fisher=False)
    np.testing.assert_allclose(mean_of(terms).degrees_of_freedom, 2 * n / (kurtosis - (n - 3) / (n - 1)))
    assert mean_of(terms).degrees_of_freedom < 10


def test_a_normal_sample_keeps_its_degrees_of_freedom():
    terms = stats.norm.ppf((np.arange(100_000) + 0.5) / 100_000)
    assert mean_of(terms).degrees_of_freedom > 0.999 * len(terms)


@pytest.mark.parametrize("terms", [[2.0, 2.0, 2.0], [1e9 + 0.1] * 7])
def test_equal_terms_have_no_error(terms):
    mean = mean_of(np.array(terms))
    assert mean.standard_error == 0
    assert mean.interval(0.95) == (mean.value, mean.value)
    assert mean.p_value(mean.value) == 1
    assert mean.p_value(0.0) == 0


def test_two_terms_are_enough_and_one_is_not():
    assert mean_of(np.array([0.0, 1.0])).degrees_of_freedom == 1
    with pytest.raises(ValueError, match="an interval needs at least 2 rows, but there is 1"):
        mean_of(np.array([1.0]))
