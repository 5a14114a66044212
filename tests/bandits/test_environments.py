# SPDX-License-Identifier: Apache-2.0
"""Problems against closed forms of their expected rewards and regrets."""

import os

import numpy as np
import pandas as pd
import pytest

from fpovi.bandits import Rewards, draw, mushroom, regrets, table, uniform_regrets, wheel
from fpovi.bandits.environments import Wheel

MANY = 200_000
needs_data = pytest.mark.skipif(not os.environ.get("FPOVI_DATA"), reason="FPOVI_DATA names no data folder")


def standard_errors(values, expected):
    """How many standard errors the mean of values is from what it should be."""
    return abs(values.mean() - expected) / (values.std() / np.sqrt(len(values)))


@pytest.mark.parametrize("delta", [0.5, 0.95])
def test_wheel_pays_what_its_definition_says(delta):
    stream = draw(wheel(delta), MANY, seed=3)
    outside = np.linalg.norm(stream.contexts, axis=1) >= delta
    # uniform in the disc: outside with probability 1 − δ²; four standard errors have a chance of 1e-4
    assert standard_errors(outside.astype(float), 1 - delta**2) < 4
    assert np.linalg.norm(stream.contexts, axis=1).max() <= 1
    assert standard_errors(stream.contexts[:, 0] ** 2, 0.25) < 4
    np.testing.assert_array_equal(stream.best == 4, ~outside)
    assert standard_errors(stream.rewards.drawn[~outside, 4], 1.2) < 4
    assert standard_errors(stream.rewards.drawn[:, 0][~outside], 1.0) < 4
    np.testing.assert_allclose(stream.rewards.drawn[~outside].std(axis=0), 0.05, rtol=0.02)
    big = stream.rewards.drawn[outside, stream.best[outside]]
    np.testing.assert_allclose([big.mean(), big.std()], [50, 0.01], rtol=0.02)
    for chosen, lost in ((4, (1 - delta**2) * 48.8), (0, delta**2 * 0.2 + (1 - delta**2) * 0.75 * 49)):
        pseudo = regrets(stream, np.full(MANY, chosen))["pseudo"]
        assert standard_errors(pseudo, lost) < 4


def test_each_quadrant_of_the_wheel_has_its_arm():
    points = np.array([[0.5, 0.5], [0.5, -0.5], [-0.5, 0.5], [-0.5, -0.5], [0.5, 0.0], [0.0, 0.5]])
    assert Wheel.quadrant(points).tolist() == [0, 1, 2, 3, 1, 2]


@needs_data
def test_mushrooms_pay_what_their_definition_says():
    problem = mushroom()
    assert problem.contexts.shape == (8124, 117)
    assert (problem.contexts.sum(axis=1) == 22).all()  # one of each attribute
    assert problem.codes.sum() == 3916  # the poisonous ones, as the file's description counts them
    stream = draw(problem, MANY)
    poisonous = stream.rewards.expected[:, 1] < 0
    assert stream.arms == ("pass", "eat")
    assert set(stream.rewards.drawn[poisonous, 1]) == {-35.0, 5.0}
    assert set(stream.rewards.drawn[~poisonous, 1]) == {5.0}
    assert not stream.rewards.drawn[:, 0].any()
    assert standard_errors(stream.rewards.drawn[poisonous, 1], -15) < 4
    share = 3916 / 8124
    assert standard_errors(uniform_regrets(stream)["pseudo"], 0.5 * (share * 15 + (1 - share) * 5)) < 4
    eaten = regrets(stream, np.ones(MANY, int))
    assert standard_errors(eaten["expected"], 15 * share) < 4
    np.testing.assert_array_equal(eaten["realised"][~poisonous], 0)


def test_a_table_pays_for_the_right_class_or_what_it_is_told():
    frame = pd.DataFrame({"age": [20.0, 30.0, 40.0], "town": ["a", "b", "a"]})
    stream = draw(table(frame, ["no", "yes", "no"]), 500)
    assert stream.arms == ("no", "yes")
    assert list(stream.contexts.columns) == ["age", "town"]
    np.testing.assert_array_equal(stream.rewards.drawn[:, 1] == 1, stream.contexts["town"] == "b")
    rewards = {"yes": {"lend": 2, "refuse": 0}, "no": {"refuse": 0, "lend": -5}}
    stream = draw(table(frame, ["no", "yes", "no"], rewards), 500)
    assert stream.arms == ("lend", "refuse")
    np.testing.assert_array_equal(stream.rewards.drawn[:, 0], np.where(stream.contexts["town"] == "b", 2, -5))
    with pytest.raises(ValueError, match="rewards of class 'no' are for"):
        table(frame, ["no", "yes", "no"], {"yes": {"lend": 2}, "no": {"refuse": 0}})


class Coins:
    """An environment of one's own."""

    arms = ("heads", "tails")

    def draw_contexts(self, random, size):
        return random.normal(size=(size, 1)), None

    def draw_rewards(self, random, contexts, hidden):
        expected = np.full((len(contexts), 2), 0.5)
        return Rewards((random.random(expected.shape) < expected).astype(float), expected)


def test_rounds_are_those_of_the_seed_and_contexts_do_not_depend_on_rewards():
    one, same, other = (draw(Coins(), 50, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.rewards.drawn, same.rewards.drawn)
    np.testing.assert_array_equal(one.contexts, same.contexts)
    assert not np.array_equal(one.contexts, other.contexts)


def test_an_environment_with_rewards_of_another_shape_is_refused():
    class Wrong(Coins):
        def draw_rewards(self, random, contexts, hidden):
            return Rewards(np.zeros((len(contexts), 3)), np.zeros((len(contexts), 3)))

    with pytest.raises(ValueError, match=r"finite numbers \(5, 2\) are needed"):
        draw(Wrong(), 5)
    with pytest.raises(ValueError, match=r"delta=1\.5 must lie"):
        wheel(1.5)
