# SPDX-License-Identifier: Apache-2.0
"""Rewards of a row are predicted by a model that did not see it, for arrays and data frames alike."""

import numpy as np
import pandas as pd
import pytest
from off_policy_coverage import MODELS, asked, means, simulate
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from fpovi import BNNRegressor
from fpovi.bandits import cross_fit, estimate_value, make_logs


def test_no_model_saw_the_rows_it_answers_for():
    logs = simulate(0, "explores", 100)
    memory = cross_fit(logs, KNeighborsRegressor(1), folds=4)  # returns the reward of any row it saw
    chosen = memory.per_fold[:, np.arange(100), logs.chosen]
    seen = memory.fold != np.arange(4)[:, None]
    np.testing.assert_array_equal(chosen[seen], np.tile(logs.rewards, (4, 1))[seen])
    assert not np.any(chosen[~seen] == logs.rewards[np.where(~seen)[1]])
    np.testing.assert_array_equal(memory.held_out, [memory.per_fold[f, i] for i, f in enumerate(memory.fold)])


def test_arms_are_spread_over_folds():
    logs = simulate(0, "explores", 203)
    fold = cross_fit(logs, LinearRegression(), folds=5).fold
    counts = np.array([np.bincount(fold[logs.chosen == arm], minlength=5) for arm in range(4)])
    assert np.all(np.ptp(counts, axis=1) <= 1)
    assert np.ptp(np.bincount(fold)) <= 1
    assert not np.array_equal(fold, cross_fit(logs, LinearRegression(), random_state=1).fold)


def test_a_model_of_the_right_form_finds_the_means():
    logs = simulate(0, "even", 4000)
    error = cross_fit(logs, MODELS["right"]).held_out - means(logs.contexts)
    assert np.sqrt(np.mean(error**2)) < 0.2  # noise 1, 20 or so coefficients for each of 4 arms with 800 rows


def test_frames_keep_their_columns_and_gain_one_per_arm():
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"colour": random.choice(["red", "blue"], 400), 7: random.normal(size=400)})
    arms = random.choice(["call", "mail"], 400)
    rewards = 1.0 * (frame["colour"] == "red") + 2.0 * (arms == "mail") + frame[7]
    frame.index = np.full(400, 3)
    logs = make_logs(frame, arms, rewards, [0.5] * 400)
    encode = make_column_transformer((OneHotEncoder(), ["colour"]), remainder="passthrough")
    predicted = cross_fit(logs, make_pipeline(encode, LinearRegression()))
    np.testing.assert_allclose(predicted.held_out[:, 1] - predicted.held_out[:, 0], 2.0)
    np.testing.assert_allclose(predicted.held_out[np.arange(400), logs.chosen], logs.rewards)
    clash = make_logs(pd.DataFrame({"arm=call": [1.0, 2.0]}), ["call", "mail"], [1, 0], [0.5, 0.5])
    with pytest.raises(ValueError, match="contexts have columns of equal names, or some called like"):
        cross_fit(clash, LinearRegression(), folds=2)


def test_words_in_arrays_reach_the_model():
    logs = make_logs([["red"], ["blue"]] * 20, ["a", "a", "b", "b"] * 10, [1.0, 0.0, 3.0, 2.0] * 10, [0.5] * 40)
    encode = make_column_transformer((OneHotEncoder(), [0]), remainder="passthrough")
    predicted = cross_fit(logs, make_pipeline(encode, LinearRegression()), folds=2)
    np.testing.assert_allclose(predicted.held_out, [[1.0, 3.0], [0.0, 2.0]] * 20, atol=1e-12)


def test_what_is_no_use_is_refused():
    logs = simulate(0, "even", 20)
    for folds in (1, 21):
        with pytest.raises(ValueError, match=f"folds={folds} must be at least 2 and at most the 20 rows"):
            cross_fit(logs, LinearRegression(), folds=folds)
    images = make_logs(np.zeros((4, 2, 2)), [0, 1, 0, 1], [0.0] * 4, [0.5] * 4)
    with pytest.raises(ValueError, match=r"contexts have shape \(4, 2, 2\), but a model of rewards needs rows"):
        cross_fit(images, LinearRegression(), folds=2)


@pytest.mark.slow  # fits networks
def test_a_bayesian_network_makes_intervals_narrower(loose_dtypes):
    logs = simulate(0, "even", 1000)
    predicted = cross_fit(logs, BNNRegressor(n_particles=5, max_epochs=200, random_state=0), folds=2)
    assert np.corrcoef(predicted.held_out.ravel(), means(logs.contexts).ravel())[0, 1] > 0.8
    with_network, without = (
        estimate_value(logs, asked, method, rewards=predicted) for method in ("doubly_robust", "ips")
    )
    assert with_network.standard_error < 0.8 * without.standard_error
