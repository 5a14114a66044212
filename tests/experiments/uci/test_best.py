# SPDX-License-Identifier: Apache-2.0
"""Candidates are chosen by training rows alone."""

import jax.numpy as jnp
import numpy as np
import pytest

from fpovi.experiments.uci import best as uci_best
from fpovi.experiments.uci import run as uci
from fpovi.likelihoods import gaussian
from fpovi.predictive import Predictive
from fpovi.types import DivergedError
from support.small_splits import SHORT_RUN, a_split

pytestmark = pytest.mark.usefixtures("loose_dtypes")


@pytest.mark.parametrize(("rows", "parts"), [(287, 4), (465, 4), (937, 2), (5010, 1)])
def test_folds_are_of_training_rows_and_held_out_once(rows, parts):
    split = a_split(rows=rows)
    found = uci_best.held_out_folds(0, split)
    assert len(found) == parts
    held = np.concatenate([fold.y_test for fold in found])
    assert len(set(held)) == len(held)
    for fold in found:
        np.testing.assert_array_equal(np.sort(np.append(fold.y_train, fold.y_test)), np.sort(split.y_train))
        assert len(fold.y_test) == round(0.15 * (rows - 10))
        where = {tuple(x): y for x, y in zip(split.x_train, split.y_train, strict=True)}
        assert all(where[tuple(x)] == y for x, y in zip(fold.x_test, fold.y_test, strict=True))


def fixed_candidates(monkeypatch, **candidates):
    """Replace candidates by ones that are off by ``shift`` everywhere and have a noise; return a list of the calls."""
    asked = []

    def fit_predict(name, inputs, seed, hidden, given, settings):
        asked.append((name, inputs, len(given.y_train), settings.steps))
        shift, noise = candidates[name]
        f = jnp.asarray(given.y_test[None, :, None] + shift, jnp.float32)
        return Predictive(gaussian(noise), f, (), jnp.zeros(()), jnp.ones(()))

    monkeypatch.setattr(uci_best, "fit_predict", fit_predict)
    return asked


WRONG = (60.0, 1.0)  # far off


def test_the_candidate_that_predicts_held_out_rows_learns_from_all(monkeypatch):
    """The best is trained once more, with all rows and all steps."""
    candidates = {"gaussian": WRONG, "mixture": (6.0, 1.0), "student_t": (0.5, 1.0)}
    split, asked = a_split(), fixed_candidates(monkeypatch, **candidates)
    monkeypatch.setattr(uci_best, "TRIAL_STEPS", 5)
    found = uci.METHODS["fpovi"](uci.TrainingTask(0, split, (5,), 10, 4), lambda *_: None)
    assert found.metrics["way"] == "student_t"
    # errors are half the noise; factors are 6 % apart
    assert found.metrics["stretch"] == pytest.approx(0.5, rel=0.03)
    np.testing.assert_allclose(found.predictive.std, found.metrics["stretch"], rtol=1e-5)
    np.testing.assert_allclose(found.predictive.mean[:, 0], split.y_test + 0.5, rtol=1e-6)
    assert asked[-1] == ("student_t", "plain", 30, 12)
    assert {(rows, steps) for _, _, rows, steps in asked[:-1]} == {(26, 5)}  # 4 of 30 rows held out


@pytest.mark.parametrize(("off", "chosen"), [(1.05, "mixture"), (1.2, "gaussian")])
def test_a_candidate_far_off_is_not_chosen_however_likely(off, chosen, monkeypatch):
    """Of two with one noise each, the other's is far too small for its errors."""
    fixed_candidates(monkeypatch, gaussian=(1.0, 0.1), mixture=(off, 1.0), student_t=WRONG)
    assert uci_best.choose(0, (5,), a_split(), SHORT_RUN).candidate == chosen


@pytest.mark.parametrize("better", uci_best.INPUTS)
def test_all_get_the_inputs_that_gaussian_noise_prefers(better, monkeypatch):
    given = []

    def fit_predict(name, inputs, seed, hidden, split, settings):
        given.append((name, inputs))
        f = jnp.asarray(split.y_test[None, :, None] + (1.0 if inputs == better else 2.0), jnp.float32)
        return Predictive(gaussian(1.0), f, (), jnp.zeros(()), jnp.ones(()))

    monkeypatch.setattr(uci_best, "fit_predict", fit_predict)
    assert uci_best.choose(0, (5,), a_split(), SHORT_RUN).inputs == better
    others = [("mixture", better), ("student_t", better)]
    first = [*(("gaussian", inputs) for inputs in uci_best.INPUTS), *others]
    assert given[::4] == [*first, ("gaussian", better), *others]  # 4 folds of each, all but the first with more steps


@pytest.mark.parametrize(
    ("whole", "longer", "tried", "taken"), [(12, 1.0, {12, 20}, 20), (12, 2.0, {12, 20}, 12), (50, 1.0, {20}, 40)]
)
def test_few_rows_choose_how_many_steps_they_want(whole, longer, tried, taken, monkeypatch):
    """Of the paper's number and that of the longest trial; where the former is greater, it is taken up to a limit."""
    asked = []

    def fit_predict(name, inputs, seed, hidden, split, settings):
        asked.append(settings.steps)
        f = jnp.asarray(split.y_test[None, :, None] + (longer if settings.steps == 20 else 1.5), jnp.float32)
        return Predictive(gaussian(1.0), f, (), jnp.zeros(()), jnp.ones(()))

    monkeypatch.setattr(uci_best, "fit_predict", fit_predict)
    monkeypatch.setattr(uci_best, "TRIAL_STEPS", 20)
    monkeypatch.setattr(uci_best, "MAX_STEPS", 40)
    assert uci_best.choose(0, (5,), a_split(), SHORT_RUN._replace(steps=whole)).steps == taken
    assert set(asked) == tried


@pytest.mark.parametrize(("units", "more"), [(199, ["smooth"]), (200, [])])  # 996 and 1,001 weights
def test_of_many_rows_other_candidates_are_tried(units, more, monkeypatch):
    asked = fixed_candidates(monkeypatch, **dict.fromkeys(uci_best.CANDIDATES, (1.0, 1.0)))
    uci_best.choose(0, (units,), a_split(rows=uci_best.MANY_ROWS + 20), SHORT_RUN._replace(steps=uci_best.TRIAL_STEPS))
    assert [name for name, *_ in asked] == ["gaussian"] * 3 + ["mixture", "smooth mixture", *more]


@pytest.mark.parametrize(("best", "asked_for"), [("smooth", [6000, 30_000]), ("mixture", [6000])])
def test_the_spread_factor_of_gauss_newton_is_that_of_a_whole_run(best, asked_for, monkeypatch):
    """Of a run whose noise falls from twice what is right to that."""
    asked = []

    def fit_predict(name, inputs, seed, hidden, given, settings):
        asked.append((name, settings.steps))
        f = jnp.asarray(given.y_test[None, :, None] + (1.0 if name == best else 5.0), jnp.float32)
        return Predictive(gaussian(2.0 if settings.steps == 6000 else 1.0), f, (), jnp.zeros(()), jnp.ones(()))

    monkeypatch.setattr(uci_best, "fit_predict", fit_predict)
    found = uci_best.choose(0, (5,), a_split(rows=uci_best.MANY_ROWS + 20), SHORT_RUN._replace(steps=30_000))
    assert (found.candidate, found.steps) == (best, 30_000)
    assert [steps for name, steps in asked if name == best] == asked_for
    assert found.spread_factor == pytest.approx(1.0 if best == "smooth" else 0.5, rel=0.03)  # factors are 6 % apart


def test_a_candidate_that_diverges_is_not_chosen(monkeypatch):
    fixed_candidates(monkeypatch, gaussian=(1.0, 1.0), mixture=WRONG)
    fixed = uci_best.fit_predict

    def fit_predict(name, *rest):
        if name == "student_t":
            raise DivergedError(3, None, "a lower rate")
        return fixed(name, *rest)

    monkeypatch.setattr(uci_best, "fit_predict", fit_predict)
    assert uci_best.choose(0, (5,), a_split(), SHORT_RUN).candidate == "gaussian"


@pytest.mark.parametrize("right", [0.8, 1.0, 2.0])
def test_the_spread_factor_is_that_of_held_out_rows(right):
    """Rows have noise of ``right`` times the predicted scale, in two folds."""
    rng = np.random.default_rng(0)
    f = jnp.zeros((3, 2000, 1), jnp.float32)
    held_out = [
        (Predictive(gaussian(1.0), f, (), jnp.zeros(()), jnp.ones(())), right * rng.normal(size=2000)) for _ in range(2)
    ]
    factor, loss = uci_best.best_spread_factor(held_out)
    # factors are 6 % apart; 4,000 rows know a standard deviation to 1 %
    assert factor == pytest.approx(right, rel=0.05)
    assert loss == pytest.approx(0.5 * np.log(2 * np.pi * np.e * right**2), abs=0.03)
