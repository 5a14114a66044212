# SPDX-License-Identifier: Apache-2.0
"""Timing in turns, with a made-up clock: nothing here depends on how fast the machine is."""

import pytest

from fpovi.bench import timing
from fpovi.bench.timing import Timing, enough_steps, time_in_turns


class Clock:
    """A clock whose time passes only when a worker runs."""

    def __init__(self):
        self.now, self.calls = 0.0, []

    def perf_counter(self):
        return self.now

    def worker(self, name, seconds_per_step, first=0.0):
        def run(steps):
            self.now += seconds_per_step * steps + (0 if name in [call[0] for call in self.calls] else first)
            self.calls.append((name, steps))

        return run


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(timing.time, "perf_counter", clock.perf_counter)
    return clock


def test_contestants_take_turns_and_times_are_per_step(clock):
    runs = {"a": clock.worker("a", 0.001, first=3.0), "b": clock.worker("b", 0.01)}
    found = time_in_turns(runs, rounds=4)
    assert found["a"].first_call == pytest.approx(3.001)
    assert found["a"].samples == pytest.approx([0.001] * 4)
    assert found["b"].samples == pytest.approx([0.01] * 4)
    timed = [name for name, steps in clock.calls if steps == found[name].steps][-8:]
    assert timed == ["a", "b"] * 4


def test_a_sample_is_long_enough_and_warmed_up(clock):
    runs = {"a": clock.worker("a", 0.0001)}
    steps = time_in_turns(runs, rounds=2, sample_seconds=0.05)["a"].steps
    assert 0.05 <= steps * 0.0001 < 0.2
    assert clock.calls[-2:] == [("a", steps // 10), ("a", steps)]


def test_samples_of_some_are_longer(clock):
    found = time_in_turns({"a": clock.worker("a", 0.01), "b": clock.worker("b", 0.01)}, 1, 0.1, {"b": 1.0})
    assert found["a"].steps < 20
    assert found["b"].steps >= 100


@pytest.mark.parametrize("seconds_per_step", [3e-6, 1e-3, 0.04, 2.0])
def test_enough_steps_and_not_many_more(clock, seconds_per_step):
    steps = enough_steps(clock.worker("a", seconds_per_step), 0.05)
    assert steps * seconds_per_step >= 0.05
    assert steps in (1, 8) or steps * seconds_per_step <= 0.13


def test_a_few_steps_where_one_is_long(clock):
    assert enough_steps(clock.worker("a", 0.1), 0.05) == 8
    assert enough_steps(clock.worker("a", 0.4), 0.05) == 4


def test_the_slow_sit_out(clock, monkeypatch):
    monkeypatch.setattr(timing, "MOST_SECONDS", 5.0)
    found = time_in_turns({"slow": clock.worker("slow", 4.0), "fast": clock.worker("fast", 0.1)}, rounds=6)
    assert len(found["slow"].samples) == 2
    assert len(found["fast"].samples) == 6


def test_summary_is_robust_to_one_late_sample():
    summary = Timing([1.0, 1.0, 2.0, 3.0, 100.0], 5, 0.0).summary()
    assert (summary["minimum"], summary["lower"], summary["median"], summary["upper"]) == (1.0, 1.0, 2.0, 3.0)
    assert (summary["samples"], summary["steps"]) == ([1.0, 1.0, 2.0, 3.0, 100.0], 5)
