# SPDX-License-Identifier: Apache-2.0
"""The loop: a killed run goes on with the same numbers, and what was lost is counted as defined."""

import numpy as np
import pytest

from fpovi.bandits import Agent, Rewards, Stream, draw, play, regrets, relative_regret, runner, uniform_regrets, wheel
from fpovi.persistence import FileError

pytestmark = pytest.mark.usefixtures("loose_dtypes")  # optax mixes whole and real numbers


def make(stream, **options):
    return Agent(stream.arms, 2, "linear", seed=3, **options)


class Killed(Exception):
    """Ends a run in the middle."""


def test_a_killed_run_goes_on_with_the_same_numbers(tmp_path, monkeypatch):
    stream = draw(wheel(0.5), 60, seed=2)
    unbroken = play(make(stream), stream, together=4)
    monkeypatch.setattr(runner, "SECONDS_BETWEEN_SAVES", 0.0)
    seen = []

    def kill(done, total, score):
        seen.append(done)
        if done == 20:
            raise Killed

    for _ in range(2):
        with pytest.raises(Killed):
            play(make(stream), stream, together=4, checkpoint=tmp_path / "run", watch=kill)
    note = lambda done, total, score: seen.append(done)  # noqa: E731
    broken = play(make(stream), stream, together=4, checkpoint=tmp_path / "run", watch=note)
    assert seen == [*range(4, 21, 4), *range(20, 21, 4), *range(20, 61, 4)]  # what came after a save is played again
    for one, other in zip(unbroken, broken, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not (tmp_path / "run").exists()


def test_a_checkpoint_of_another_run_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "SECONDS_BETWEEN_SAVES", 0.0)
    stream = draw(wheel(0.5), 8, seed=2)

    def kill(done, total, score):
        if done == 4:
            raise Killed

    with pytest.raises(Killed):
        play(make(stream), stream, together=2, checkpoint=tmp_path / "run", watch=kill)
    other = draw(wheel(0.5), 8, seed=3)
    with pytest.raises(FileError, match="belongs to a run of another agent or problem"):
        play(make(other), other, together=2, checkpoint=tmp_path / "run")
    with pytest.raises(FileError, match="belongs to a run of another agent or problem"):
        play(make(stream, floor=0.1), stream, together=2, checkpoint=tmp_path / "run")


def test_what_was_lost_is_counted_as_defined():
    drawn, expected = np.array([[1.0, 4.0], [7.0, 0.0]]), np.array([[2.0, 3.0], [5.0, 1.0]])
    stream = Stream(("a", "b"), np.zeros((2, 1)), Rewards(drawn, expected))
    lost = regrets(stream, np.array([0, 0]))
    assert lost["expected"].tolist() == [3.0 - 1.0, 5.0 - 7.0]
    assert lost["realised"].tolist() == [4.0 - 1.0, 0.0]
    assert lost["pseudo"].tolist() == [1.0, 0.0]
    chance = uniform_regrets(stream)
    assert chance["pseudo"].tolist() == [0.5, 2.0]
    assert chance["realised"].tolist() == [1.5, 3.5]
    assert relative_regret(lost["pseudo"], chance["pseudo"]) == pytest.approx(100 / 2.5)
    assert relative_regret(lost["pseudo"], chance["pseudo"], rounds=1) == pytest.approx(200)
    assert relative_regret(lost["pseudo"], chance["pseudo"], last=1) == 0


def test_uniform_choice_loses_what_it_should():
    stream = draw(wheel(0.9), 4000, seed=0)
    played = play(Agent(stream.arms, 2, "uniform"), stream, together=500)
    lost, chance = regrets(stream, played.columns), uniform_regrets(stream)
    for name in lost:
        # four standard errors of the difference of sums
        error = (lost[name] - chance[name]).std() * 4000**0.5
        assert abs(lost[name].sum() - chance[name].sum()) < 4 * error
    np.testing.assert_allclose(played.probabilities[10:], 0.2)


def test_an_agent_of_other_arms_is_refused():
    stream = draw(wheel(0.9), 3)
    with pytest.raises(ValueError, match="those of the problem are"):
        play(Agent(["a"], 2, "uniform"), stream)
    with pytest.raises(ValueError, match="together=0 must be at least 1"):
        play(make(stream), stream, together=0)
