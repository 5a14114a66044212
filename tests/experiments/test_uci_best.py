# SPDX-License-Identifier: Apache-2.0
"""Ways to learn are chosen by training rows alone, and each answers in the target's units."""

import jax.numpy as jnp
import numpy as np
import pytest

from fpovi.data.uci import Split
from fpovi.experiments import uci_best, uci_learners, uci_methods
from fpovi.experiments.uci_learners import Plan
from fpovi.likelihoods import gaussian
from fpovi.loop import _chunk
from fpovi.predictive import Predictive

pytestmark = pytest.mark.usefixtures("loose_dtypes")
PLAN = Plan(steps=12, batch_size=10, between=6)


def a_split(seed=0, rows=40):
    rng = np.random.default_rng(seed)
    x = 5 + 2 * rng.normal(size=(rows, 3))
    y = 100 + 10 * (x[:, 0] + 0.1 * rng.normal(size=rows))
    return Split(x[:-10], y[:-10], x[-10:], y[-10:])


@pytest.mark.parametrize(("rows", "parts"), [(287, 4), (465, 4), (937, 2), (5010, 1)])
def test_folds_are_of_training_rows_and_held_out_once(rows, parts):
    split = a_split(rows=rows)
    found = uci_best.folds(0, split)
    assert len(found) == parts
    held = np.concatenate([fold.y_test for fold in found])
    assert len(set(held)) == len(held)
    for fold in found:
        np.testing.assert_array_equal(np.sort(np.append(fold.y_train, fold.y_test)), np.sort(split.y_train))
        assert len(fold.y_test) == round(0.15 * (rows - 10))
        where = {tuple(x): y for x, y in zip(split.x_train, split.y_train, strict=True)}
        assert all(where[tuple(x)] == y for x, y in zip(fold.x_test, fold.y_test, strict=True))


def fixed_ways(monkeypatch, **ways):
    """Ways that are off by ``shift`` everywhere and have a noise, and a list of what they are asked."""
    asked = []

    def way(name, shift, noise):
        def learn(seed, hidden, given, plan):
            asked.append((name, len(given.y_train), plan.steps))
            f = jnp.asarray(given.y_test[None, :, None] + shift, jnp.float32)
            return Predictive(gaussian(noise), f, (), jnp.zeros(()), jnp.ones(()))

        return learn

    monkeypatch.setattr(uci_best, "WAYS", {name: way(name, *numbers) for name, numbers in ways.items()})
    return asked


def test_the_way_that_predicts_held_out_rows_learns_from_all(monkeypatch):
    """The best is asked once more, with all rows and all steps."""
    split, asked = a_split(), fixed_ways(monkeypatch, far=(6.0, 1.0), right=(0.5, 1.0), near=(3.0, 1.0))
    monkeypatch.setattr(uci_best, "MOST_TRIAL_STEPS", 5)
    found = uci_methods.METHODS["fpovi"](uci_methods.Task(0, split, (5,), 10, 4), lambda *_: None)
    assert found.way == "right"
    assert found.stretch == pytest.approx(0.7)  # errors are half the noise, and that is as narrow as it gets
    np.testing.assert_allclose(found.said.std, 0.7, rtol=1e-5)
    np.testing.assert_allclose(found.said.mean[:, 0], split.y_test + 0.5, rtol=1e-6)
    assert asked[-1] == ("right", 30, 12)
    assert {(rows, steps) for _, rows, steps in asked[:-1]} == {(26, 5)}  # 4 of 30 rows held out


@pytest.mark.parametrize(("off", "chosen"), [(1.05, "likely"), (1.2, "close")])
def test_a_way_far_off_is_not_taken_however_likely(off, chosen, monkeypatch):
    """Of two with one noise each, the other's is far too small for its errors."""
    fixed_ways(monkeypatch, close=(1.0, 0.1), likely=(off, 1.0))
    assert uci_best.choose(0, (5,), a_split(), PLAN).way == chosen


def test_a_way_that_knows_its_noise_is_not_stretched(monkeypatch):
    fixed_ways(monkeypatch, evidence=(0.5, 1.0), other=(0.54, 10.0))
    assert uci_best.choose(0, (5,), a_split(), PLAN) == ("evidence", 1.0)


@pytest.mark.parametrize("right", [0.8, 1.0, 2.0])
def test_answers_are_stretched_as_far_as_held_out_rows_want(right):
    """Rows drawn from noise that is ``right`` times what the answers say, in two folds."""
    rng = np.random.default_rng(0)
    f = jnp.zeros((3, 2000, 1), jnp.float32)
    said = [
        (Predictive(gaussian(1.0), f, (), jnp.zeros(()), jnp.ones(())), right * rng.normal(size=2000)) for _ in range(2)
    ]
    found = uci_best.judge(said, uci_best.STRETCHES.tolist())
    # factors are 6 % apart; 4,000 rows know a standard deviation to 1 %
    assert found.stretch == pytest.approx(right, rel=0.05)
    assert found.nll == pytest.approx(0.5 * np.log(2 * np.pi * np.e * right**2), abs=0.03)
    assert found.rmse == pytest.approx(right, rel=0.04)


def test_the_rate_falls_in_the_end():
    rates = [float(uci_best.rate_at(jnp.asarray(1000.0), jnp.asarray(count))) for count in (0, 700, 850, 1000)]
    np.testing.assert_allclose(rates, [0.01, 0.01, 0.0051, 0.0002], rtol=1e-4)  # halfway (1 + .02)/2 of it


@pytest.mark.parametrize(
    "name",  # the others are built alike, and take as long to compile
    [n if n == "heteroscedastic" else pytest.param(n, marks=pytest.mark.slow) for n in uci_best.LIKELIHOODS],
)
def test_splits_of_a_set_share_programs(name, monkeypatch):
    """One more split, with other rows, scales and seed, compiles no step; answers are in the target's units."""
    monkeypatch.setattr(uci_learners, "PARTICLES", 4)
    first = uci_best.WAYS[name](0, (5,), a_split(0), PLAN)
    programs = _chunk._cache_size()
    second = uci_best.WAYS[name](1, (5,), a_split(1), PLAN)
    assert _chunk._cache_size() == programs
    assert second.f.shape == first.f.shape
    assert np.all(np.abs(second.mean - 150) < 60)  # mean 150, standard deviation 20; 12 steps from near 0
    assert np.all((second.std > 5) & (second.std < 60))
