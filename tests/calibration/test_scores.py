# SPDX-License-Identifier: Apache-2.0
"""Scores against scikit-learn, and errors for input that does not fit."""

import jax
import numpy as np
import pytest
from sklearn import metrics

from fpovi import calibration
from fpovi.calibration import accuracy, brier, evaluate, nll, rmse
from support.mixtures import MADE, PARTICLES, ROWS, mixture, predictive, values

RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 4, 60)
CLASSES = predictive(MADE["categorical"], jax.nn.log_softmax(RNG.normal(size=(PARTICLES, 60, 4)).astype(np.float32)))
YES_OR_NO = predictive(MADE["bernoulli"], RNG.normal(size=(PARTICLES, 60, 1)))
WEIGHT = RNG.uniform(size=60)


@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_classes_score_as_in_scikit_learn(weight):
    probs = np.exp(np.asarray(CLASSES.f, float)).mean(axis=0)
    probs /= probs.sum(axis=1, keepdims=True)  # float32 rows sum to 1 within 1e-7
    kw = {"sample_weight": weight}
    assert nll(CLASSES, LABELS, weight) == pytest.approx(metrics.log_loss(LABELS, probs, **kw), rel=1e-6)
    assert accuracy(CLASSES, LABELS, weight) == pytest.approx(
        metrics.accuracy_score(LABELS, probs.argmax(axis=1), **kw)
    )
    expected = metrics.brier_score_loss(LABELS, probs, labels=range(4), scale_by_half=False, **kw)
    assert brier(CLASSES, LABELS, weight) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_yes_or_no_scores_as_in_scikit_learn(weight):
    y, probs = LABELS % 2, np.asarray(YES_OR_NO.mean, float)[:, 0]
    kw = {"sample_weight": weight}
    assert nll(YES_OR_NO, y, weight) == pytest.approx(metrics.log_loss(y, probs, **kw), rel=1e-5)  # float32 mean
    assert brier(YES_OR_NO, y, weight) == pytest.approx(metrics.brier_score_loss(y, probs, **kw), rel=1e-5)
    assert accuracy(YES_OR_NO, y, weight) == pytest.approx(metrics.accuracy_score(y, probs > 0.5, **kw))
    np.testing.assert_equal(brier(YES_OR_NO, y == 1, weight), brier(YES_OR_NO, y, weight))


@pytest.mark.parametrize("weight", [None, [1.0, 0.0, 3.0]])
def test_rmse_averages_targets_as_scikit_learn_does(weight):
    ours, twin = mixture(2, np.array([5.0, -1.0]), np.array([2.0, 100.0]))
    y = values(2)[0]
    expected = metrics.root_mean_squared_error(y, twin.mean().mean(axis=0), sample_weight=weight)
    assert rmse(ours, y, weight) == pytest.approx(expected, rel=1e-6)  # float32 units


def test_nll_keeps_its_digits_far_from_zero():
    """In float32 a y near a million is known to .06, six noise scales of the sharpest particle."""
    ours, twin = mixture(1, 1e6, 0.08)
    y = 1e6 + 0.08 * values()[0]
    expected = np.mean(-np.log(np.mean(twin.pdf(y), axis=0)))
    assert nll(ours, y) == pytest.approx(expected, abs=1e-4)  # float32 .08 and rho


@pytest.mark.parametrize("name", MADE)
def test_evaluate_tells_the_scores_that_fit(name):
    likelihood = MADE[name]
    f = likelihood.canonical(np.float32(values(likelihood.width(2))))
    params = jax.tree.map(lambda leaf: np.full(PARTICLES, leaf), likelihood.init())
    y = np.array([[0, 1], [1, 1], [1, 0]])
    found = evaluate(predictive(likelihood, f, params), y[:, :1] if name == "categorical" else y)
    labels = name in ("categorical", "bernoulli")
    expected = ["nll", "accuracy", "brier", "ece"] if labels else ["nll", "rmse", "crps", "coverage_95", "width_95"]
    assert list(found) == expected
    assert all(type(value) is float and np.isfinite(value) for value in found.values())


@pytest.mark.parametrize(
    ("y", "said"),
    [
        ([0.0, np.nan, np.inf], "y has 2 values that are not finite: leave those rows out"),
        (np.zeros(ROWS + 1), r"y has shape \(4, 1\), but \(3, 1\) is needed: a row for every input"),
        (np.zeros((ROWS, 2)), r"y has shape \(3, 2\), but \(3, 1\)"),
        (0.0, r"y has shape \(\), but \(3, 1\)"),
        (["a", "b", "c"], "y has dtype .U1, but numbers are needed"),
    ],
)
@pytest.mark.parametrize("score", ["nll", "rmse", "crps", "pit", "variance_scaling", "conformal", "evaluate"])
def test_bad_targets_are_turned_away(score, y, said):
    with pytest.raises(ValueError, match=said):
        getattr(calibration, score)(mixture()[0], y)


@pytest.mark.parametrize("name", ["gaussian", "student_t", "poisson"])
def test_particles_that_are_no_numbers_are_turned_away(name):
    params = np.zeros(PARTICLES) if name != "poisson" else ()
    with pytest.raises(ValueError, match="predictive holds values that are not finite"):
        evaluate(predictive(MADE[name], np.full((PARTICLES, ROWS, 1), np.nan), params), np.zeros(ROWS))


def test_no_rows_have_no_score():
    with pytest.raises(ValueError, match="y is empty, but at least one row is needed"):
        evaluate(predictive(MADE["gaussian"], np.zeros((2, 0, 1)), np.zeros(2)), [])


def test_labels_the_likelihood_cannot_mean():
    with pytest.raises(ValueError, match=r"4 classes are integers 0…3"):
        evaluate(CLASSES, np.full(60, 4))
    with pytest.raises(ValueError, match=r"4 classes are integers 0…3"):
        evaluate(CLASSES, LABELS.astype(float))
    with pytest.raises(ValueError, match="this likelihood is for 0 or 1"):
        brier(YES_OR_NO, LABELS)


def test_scores_of_another_kind_say_which_to_use():
    for score in ("brier", "accuracy", "ece", "reliability", "temperature_scaling"):
        with pytest.raises(ValueError, match=rf"{score} is for classes .*: see crps|reliability is for classes"):
            getattr(calibration, score)(mixture()[0], np.zeros(ROWS))
    for score in ("rmse", "pit", "crps"):
        with pytest.raises(ValueError, match=f"{score} is for targets with an order, but these are classes: see nll"):
            getattr(calibration, score)(CLASSES, LABELS)


@pytest.mark.parametrize(
    ("weight", "said"),
    [
        ([1.0], r"sample_weight has shape \(1,\), but \(3,\) is needed"),
        ([1.0, -1.0, 1.0], "must be finite and not negative"),
        ([0.0, 0.0, 0.0], "some of it positive"),
        ([1.0, np.nan, 1.0], "must be finite"),
    ],
)
def test_bad_weights_are_turned_away(weight, said):
    with pytest.raises(ValueError, match=said):
        nll(mixture()[0], np.zeros(ROWS), weight)
