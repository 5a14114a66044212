# SPDX-License-Identifier: Apache-2.0
"""Recalibrated distributions and the factors found for them, against closed forms and searches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats
from sklearn.linear_model import LogisticRegression

from fpovi.calibration import crps_rows, evaluate, nll, recalibrate, temperature_scaling, variance_scaling
from fpovi.likelihoods import gaussian, student_t
from fpovi.predictive import predict
from support.mixtures import (
    MADE,
    PARTICLES,
    ROWS,
    cdf,
    fitted,
    log_prob,
    mean_and_std,
    mixture,
    predictive,
    sample,
    values,
)

GAUSSIAN, STUDENT_T = gaussian(0.25), student_t(4.0, 0.5)
FACTOR = 1.7
parts = jax.jit(lambda p: (p.particle_means, p.epistemic_std, p.aleatoric_std))


def test_one_gaussian_has_the_closed_form():
    rng = np.random.default_rng(0)
    f, y = rng.normal(size=(1, 200, 2)), rng.normal(size=(200, 2))
    ours, weight = predictive(GAUSSIAN, f), rng.uniform(size=200)
    squares = ((y - np.asarray(ours.f[0], float)) / 0.25) ** 2
    assert variance_scaling(ours, y) == pytest.approx(np.sqrt(squares.mean()), rel=1e-6)  # the search stops at 1e-8
    expected = np.sqrt(np.average(squares.mean(axis=1), weights=weight))
    assert variance_scaling(ours, y, weight) == pytest.approx(expected, rel=1e-6)


def test_factor_is_the_best_of_all():
    ours, _ = mixture()
    y = np.array([1.0, -2.0, 4.0])
    best = variance_scaling(ours, y)
    for factor in np.geomspace(0.01, 100, 41):
        assert nll(recalibrate(ours, best), y) <= nll(recalibrate(ours, float(factor)), y) + 1e-6  # float32 factor


def test_true_spread_is_recovered():
    """Targets drawn from the model stretched by 1.7; 4000 rows know the factor to about 1/√(2·4000), 1.1 %."""
    rng = np.random.default_rng(0)
    f = rng.normal(size=(1, 4_000, 1))
    ours, y = predictive(STUDENT_T, f), f[0] + FACTOR * 0.5 * rng.standard_t(4, size=(4_000, 1))
    assert variance_scaling(ours, y) == pytest.approx(FACTOR, rel=0.06)  # five such errors
    assert variance_scaling(recalibrate(ours, FACTOR), y) == pytest.approx(1, rel=0.06)


@pytest.mark.parametrize(("shift", "scale"), [(0.0, 1.0), (-7.0, 3.0)])
def test_stretched_mixture_is_the_mixture_of_stretched_normals(shift, scale):
    """m + c(Y − m) of a normal is a normal about m + c(μ − m) with c·σ: all methods, and the closed-form score."""
    ours, twin = mixture(2, shift, scale)
    wide = recalibrate(ours, FACTOR)
    centre = twin.mean().mean(axis=0)
    normals = stats.norm(centre + FACTOR * (twin.mean() - centre), FACTOR * twin.std())
    y = shift + scale * np.array([[-1.0, 0.0], [0.3, 4.0], [2.0, -2.0]])
    close = {"rtol": 2e-5, "atol": 2e-6}  # float32
    means, epistemic, aleatoric = parts(wide)
    np.testing.assert_allclose(means.mean(axis=0), centre, **close)
    np.testing.assert_allclose(means, normals.mean(), **close)
    np.testing.assert_allclose(epistemic, normals.mean().std(axis=0), **close)
    np.testing.assert_allclose(aleatoric**2, np.broadcast_to(normals.var().mean(axis=0), centre.shape), **close)
    expected = special.logsumexp(normals.logpdf(y).sum(axis=-1), axis=0) - np.log(PARTICLES)
    np.testing.assert_allclose(log_prob(wide, y), expected, **close)
    np.testing.assert_allclose(cdf(wide, y), normals.cdf(y).mean(axis=0), **close)
    np.testing.assert_allclose(normals.cdf(wide.quantile(0.2)).mean(axis=0), 0.2, rtol=1e-4)  # float32 y
    twice = recalibrate(recalibrate(ours, FACTOR / 2), 2.0)
    np.testing.assert_allclose(crps_rows(twice, y), crps_rows(wide, y), rtol=1e-5)  # float32


def test_samples_are_stretched_about_the_mean(key):
    ours, _ = mixture(1, -7.0, 3.0)
    drawn, wide = sample(ours, key, 5), sample(recalibrate(ours, FACTOR), key, 5)
    np.testing.assert_allclose(wide - ours.mean, FACTOR * (drawn - ours.mean), rtol=1e-4, atol=1e-4)  # float32 near 10


@pytest.mark.parametrize("name", ["gaussian", "student_t", "heteroscedastic", "mixture"])
def test_factor_one_changes_nothing(name):
    likelihood = MADE[name]
    params = jax.tree.map(lambda leaf: np.full(PARTICLES, leaf), likelihood.init())
    ours = predictive(likelihood, values(likelihood.width(2)), params)
    same, y = recalibrate(ours, 1.0), values(2)[1]
    say = lambda p: (*mean_and_std(p), log_prob(p, y))  # noqa: E731
    for mine, theirs in zip(say(same), say(ours), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)  # float32


def test_evaluation_of_a_recalibrated_model_is_that_of_any():
    ours, _ = mixture()
    assert evaluate(recalibrate(ours, 3.0), np.zeros(ROWS))["width_95"] == pytest.approx(
        3 * evaluate(ours, np.zeros(ROWS))["width_95"], rel=1e-5
    )  # float32


def class_mixture(rows=300):
    rng = np.random.default_rng(0)
    f = jax.nn.log_softmax(jnp.asarray(3 * rng.normal(size=(PARTICLES, rows, 3)), jnp.float32))
    ours = predictive(MADE["categorical"], f)
    log_probs = special.logsumexp(np.asarray(f, float), axis=0) - np.log(PARTICLES)
    softened = special.softmax(log_probs / 2.5, axis=1)
    return ours, log_probs, (rng.uniform(size=(rows, 1)) > np.cumsum(softened, axis=1)).sum(axis=1)


def test_tempered_classes_are_a_power_of_the_mixture():
    ours, log_probs, y = class_mixture()
    cooled = recalibrate(ours, 2.5)
    np.testing.assert_allclose(cooled.probs, special.softmax(log_probs / 2.5, axis=1), rtol=1e-5)  # float32
    assert cooled.f.shape[0] == 1
    np.testing.assert_allclose(recalibrate(ours, 1.0).probs, ours.probs, rtol=1e-5)
    assert nll(cooled, y) < nll(ours, y)


def test_temperature_is_a_regression_on_log_odds():
    """For 0 or 1 it is logistic regression without intercept on the log-odds, its coefficient being 1/T."""
    rng = np.random.default_rng(0)
    ours = predictive(MADE["bernoulli"], 4 * rng.normal(size=(PARTICLES, 400, 1)))
    one = special.expit(np.asarray(ours.f, float)).mean(axis=0)
    y = (rng.uniform(size=(400, 1)) < special.expit(special.logit(one) / 3)).astype(int)
    regression = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10).fit(special.logit(one), y[:, 0])
    assert temperature_scaling(ours, y) == pytest.approx(1 / regression.coef_[0, 0], rel=1e-5)  # of both searches
    np.testing.assert_allclose(recalibrate(ours, 3.0).mean, special.expit(special.logit(one) / 3), rtol=1e-5)


def test_temperature_is_the_best_of_all():
    ours, log_probs, y = class_mixture()
    best = temperature_scaling(ours, y)
    losses = [
        -special.log_softmax(log_probs / temperature, axis=1)[np.arange(300), y].mean()
        for temperature in (best, *np.geomspace(0.01, 100, 41))
    ]
    assert np.argmin(losses) == 0
    assert best == pytest.approx(2.5, rel=0.3)  # 300 rows


def test_no_class_underflows():
    """Probabilities of e⁻²⁰⁰ are 0 in float32, but their logarithms can be tempered."""
    ours = predictive(MADE["categorical"], np.array([[[0.0, -200.0]]]))
    np.testing.assert_allclose(recalibrate(ours, 100.0).probs[0, 1], special.expit(-2.0), rtol=1e-5)  # float32


def test_when_all_is_right_the_temperature_ends_at_its_bound():
    ours = predictive(MADE["categorical"], np.log([[[0.9, 0.1], [0.2, 0.8]]]))
    assert 0.01 <= temperature_scaling(ours, [0, 1]) < 0.05  # the NLL is 0 to sixteen digits there


def test_works_on_what_predict_returns(key):
    network, state = fitted(key, MADE["gaussian"])
    ours = predict(network, MADE["gaussian"], state, jnp.ones((ROWS, 2)), np.array([1.0]), np.array([2.0]))
    (_, wide), (_, std) = mean_and_std(recalibrate(ours, 2.0)), mean_and_std(ours)
    np.testing.assert_allclose(wide, 2 * std, rtol=1e-5)  # float32


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf")])
def test_factor_must_make_sense(factor):
    with pytest.raises(ValueError, match=f"factor={factor} must be positive and finite"):
        recalibrate(mixture()[0], factor)


def test_what_cannot_be_stretched_says_so():
    counts = predictive(MADE["poisson"], values())
    for call in (lambda: variance_scaling(counts, [0, 1, 2]), lambda: recalibrate(counts, 2.0)):
        with pytest.raises(ValueError, match="but these are counts: see conformal"):
            call()
    with pytest.raises(ValueError, match="these targets are classes: see temperature_scaling"):
        variance_scaling(class_mixture(3)[0], [0, 1, 2])
    with pytest.raises(ValueError, match="temperature_scaling is for classes"):
        temperature_scaling(mixture()[0], np.zeros(ROWS))
