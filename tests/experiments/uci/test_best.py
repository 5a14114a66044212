# SPDX-License-Identifier: Apache-2.0
"""Ways to learn are chosen by training rows alone."""

import jax.numpy as jnp
import numpy as np
import pytest

from fpovi.experiments.uci import best as uci_best
from fpovi.experiments.uci import methods as uci_methods
from fpovi.likelihoods import gaussian
from fpovi.predictive import Predictive
from fpovi.types import DivergedError
from support.small_splits import PLAN, a_split

pytestmark = pytest.mark.usefixtures("loose_dtypes")


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

    def learn(way, inputs, seed, hidden, given, plan):
        asked.append((way, inputs, len(given.y_train), plan.steps))
        shift, noise = ways[way]
        f = jnp.asarray(given.y_test[None, :, None] + shift, jnp.float32)
        return Predictive(gaussian(noise), f, (), jnp.zeros(()), jnp.ones(()))

    monkeypatch.setattr(uci_best, "learn", learn)
    return asked


WRONG = (60.0, 1.0)  # far off


def test_the_way_that_predicts_held_out_rows_learns_from_all(monkeypatch):
    """The best is asked once more, with all rows and all steps."""
    ways = {"gaussian": WRONG, "mixture": (6.0, 1.0), "student_t": (0.5, 1.0)}
    split, asked = a_split(), fixed_ways(monkeypatch, **ways)
    monkeypatch.setattr(uci_best, "TRIAL_STEPS", 5)
    found = uci_methods.METHODS["fpovi"](uci_methods.Task(0, split, (5,), 10, 4), lambda *_: None)
    assert found.facts["way"] == "student_t"
    # errors are half the noise; factors are 6 % apart
    assert found.facts["stretch"] == pytest.approx(0.5, rel=0.03)
    np.testing.assert_allclose(found.said.std, found.facts["stretch"], rtol=1e-5)
    np.testing.assert_allclose(found.said.mean[:, 0], split.y_test + 0.5, rtol=1e-6)
    assert asked[-1] == ("student_t", "plain", 30, 12)
    assert {(rows, steps) for _, _, rows, steps in asked[:-1]} == {(26, 5)}  # 4 of 30 rows held out


@pytest.mark.parametrize(("off", "chosen"), [(1.05, "mixture"), (1.2, "gaussian")])
def test_a_way_far_off_is_not_taken_however_likely(off, chosen, monkeypatch):
    """Of two with one noise each, the other's is far too small for its errors."""
    fixed_ways(monkeypatch, gaussian=(1.0, 0.1), mixture=(off, 1.0), student_t=WRONG)
    assert uci_best.choose(0, (5,), a_split(), PLAN).way == chosen


@pytest.mark.parametrize("better", uci_best.INPUTS)
def test_all_get_the_inputs_that_gaussian_noise_prefers(better, monkeypatch):
    given = []

    def learn(way, inputs, seed, hidden, split, plan):
        given.append((way, inputs))
        f = jnp.asarray(split.y_test[None, :, None] + (1.0 if inputs == better else 2.0), jnp.float32)
        return Predictive(gaussian(1.0), f, (), jnp.zeros(()), jnp.ones(()))

    monkeypatch.setattr(uci_best, "learn", learn)
    assert uci_best.choose(0, (5,), a_split(), PLAN).inputs == better
    others = [("mixture", better), ("student_t", better)]
    first = [*(("gaussian", inputs) for inputs in uci_best.INPUTS), *others]
    assert given[::4] == [*first, ("gaussian", better), *others]  # 4 folds of each, all but the first with more steps


@pytest.mark.parametrize(
    ("whole", "longer", "tried", "taken"), [(12, 1.0, {12, 20}, 20), (12, 2.0, {12, 20}, 12), (50, 1.0, {20}, 40)]
)
def test_few_rows_choose_how_many_steps_they_want(whole, longer, tried, taken, monkeypatch):
    """Of the paper's number and that of the longest trial; where the former is greater, it is taken up to a limit."""
    asked = []

    def learn(way, inputs, seed, hidden, split, plan):
        asked.append(plan.steps)
        f = jnp.asarray(split.y_test[None, :, None] + (longer if plan.steps == 20 else 1.5), jnp.float32)
        return Predictive(gaussian(1.0), f, (), jnp.zeros(()), jnp.ones(()))

    monkeypatch.setattr(uci_best, "learn", learn)
    monkeypatch.setattr(uci_best, "TRIAL_STEPS", 20)
    monkeypatch.setattr(uci_best, "MOST_STEPS", 40)
    assert uci_best.choose(0, (5,), a_split(), PLAN._replace(steps=whole)).steps == taken
    assert set(asked) == tried


@pytest.mark.parametrize(("units", "more"), [(199, ["smooth"]), (200, [])])  # 996 and 1,001 weights
def test_of_many_rows_other_ways_are_tried(units, more, monkeypatch):
    asked = fixed_ways(monkeypatch, **dict.fromkeys(uci_best.WAYS, (1.0, 1.0)))
    uci_best.choose(0, (units,), a_split(rows=uci_best.MANY_ROWS + 20), PLAN._replace(steps=uci_best.TRIAL_STEPS))
    assert [way for way, *_ in asked] == ["gaussian"] * 3 + ["mixture", "smooth mixture", *more]


@pytest.mark.parametrize(("best", "asked_for"), [("smooth", [6000, 30_000]), ("mixture", [6000])])
def test_the_stretch_of_gauss_newton_is_that_of_a_whole_run(best, asked_for, monkeypatch):
    """Of a run whose noise falls from twice what is right to that."""
    asked = []

    def learn(way, inputs, seed, hidden, given, plan):
        asked.append((way, plan.steps))
        f = jnp.asarray(given.y_test[None, :, None] + (1.0 if way == best else 5.0), jnp.float32)
        return Predictive(gaussian(2.0 if plan.steps == 6000 else 1.0), f, (), jnp.zeros(()), jnp.ones(()))

    monkeypatch.setattr(uci_best, "learn", learn)
    found = uci_best.choose(0, (5,), a_split(rows=uci_best.MANY_ROWS + 20), PLAN._replace(steps=30_000))
    assert (found.way, found.steps) == (best, 30_000)
    assert [steps for way, steps in asked if way == best] == asked_for
    assert found.stretch == pytest.approx(1.0 if best == "smooth" else 0.5, rel=0.03)  # factors are 6 % apart


def test_a_way_that_diverges_is_not_taken(monkeypatch):
    fixed_ways(monkeypatch, gaussian=(1.0, 1.0), mixture=WRONG)
    fixed = uci_best.learn

    def learn(way, *rest):
        if way == "student_t":
            raise DivergedError(3, None, "a lower rate")
        return fixed(way, *rest)

    monkeypatch.setattr(uci_best, "learn", learn)
    assert uci_best.choose(0, (5,), a_split(), PLAN).way == "gaussian"


@pytest.mark.parametrize("right", [0.8, 1.0, 2.0])
def test_answers_are_stretched_as_far_as_held_out_rows_want(right):
    """Rows drawn from noise that is ``right`` times what the answers say, in two folds."""
    rng = np.random.default_rng(0)
    f = jnp.zeros((3, 2000, 1), jnp.float32)
    said = [
        (Predictive(gaussian(1.0), f, (), jnp.zeros(()), jnp.ones(())), right * rng.normal(size=2000)) for _ in range(2)
    ]
    stretch, loss = uci_best.best_stretch(said)
    # factors are 6 % apart; 4,000 rows know a standard deviation to 1 %
    assert stretch == pytest.approx(right, rel=0.05)
    assert loss == pytest.approx(0.5 * np.log(2 * np.pi * np.e * right**2), abs=0.03)
