# SPDX-License-Identifier: Apache-2.0
"""The learner of a bandit's arm, without the library that asks for it."""

import numpy as np
import pytest

from fpovi import BNNRegressor
from fpovi.adapters import BanditLearner
from support.small_fits import SETTINGS, plane

pytestmark = pytest.mark.usefixtures("loose_dtypes")
X, Y = plane(32)


def learner(**options):
    return BanditLearner(BNNRegressor(**SETTINGS), random_state=0, **options)


def test_before_anything_is_known_draws_are_standard_normal():
    new = learner(prior_std=3.0)
    draws = new.sample(X[:5], size=2000)
    assert draws.shape == (2000, 5)
    np.testing.assert_allclose(draws.std(), 3.0, rtol=0.05)  # of 10,000 draws the standard error is .7 %
    np.testing.assert_array_equal(new.predict(X[:5]), 0)
    new.partial_fit(X[:3], np.ones(3))  # there is nothing to learn of one reward
    np.testing.assert_array_equal(new.predict(X[:5]), 0)


def test_it_learns_what_the_model_learns():
    new = learner().partial_fit(X[:10], Y[:10]).partial_fit(X[10:], Y[10:])
    expected = BNNRegressor(**SETTINGS).fit(X, Y)
    np.testing.assert_array_equal(new.predict(X), expected.predict(X))
    means = np.asarray(expected.predict_dist(X).particle_means)[..., 0]
    for draw in new.sample(X, size=5):  # each one coherent function
        assert np.isclose(draw, means, rtol=1e-4, atol=1e-5).all(axis=1).any()


def test_it_is_fitted_when_rows_have_grown():
    new = learner(growth=0.5).partial_fit(X[:16], Y[:16])
    first = new.predict(X)
    np.testing.assert_array_equal(new.partial_fit(X[16:20], Y[16:20]).predict(X), first)
    assert not np.array_equal(new.partial_fit(X[20:], Y[20:]).predict(X), first)


def test_forgotten_rows_count_less():
    new = learner(decay_rate=0.5).partial_fit(X[:16], Y[:16])
    new.decay()
    new.decay(decay_rate=0.25)
    new.decay(type("Rule", (), {"rate": 0.5})(), steps=2)
    new.partial_fit(X[16:], Y[16:])
    weights = np.repeat([0.5 * 0.25 * 0.5**2, 1.0], 16)
    expected = BNNRegressor(**SETTINGS).fit(X, Y, weights)
    np.testing.assert_array_equal(new.predict(X), expected.predict(X))


def test_draws_of_an_agent_come_from_its_generator():
    new = learner()
    new.random_state = np.random.default_rng(7)
    first = new.sample(X, 3)
    assert not np.array_equal(new.sample(X, 3), first)
    new.random_state = 7
    np.testing.assert_array_equal(new.sample(X, 3), first)


def test_bad_rows_are_refused_and_forgotten():
    new = learner().partial_fit(X[:16], Y[:16])
    before = new.predict(X)
    for rows, rewards, said in [
        (X[:2], Y[:3], "one row for each of 3 rewards"),
        (X[0], Y[:1], "one row for each of 1 rewards"),
        (X[:1], [np.nan], "not finite"),
    ]:
        with pytest.raises(ValueError, match=said):
            new.partial_fit(rows, rewards)
    with pytest.raises(ValueError, match="rate of decay is 0, but it must be above 0"):
        new.decay(decay_rate=0)
    np.testing.assert_array_equal(new.predict(X), before)
