# SPDX-License-Identifier: Apache-2.0
"""Quantiles of the mixture against scipy, far into the tails."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats
from scipy.optimize import brentq

from fpovi.likelihoods import LIKELIHOODS, gaussian, student_t
from fpovi.predictive import Predictive
from support.mixtures import MADE, PARTICLES, ROWS, cdf, mixture, predictive, sample, values

NUMERIC = sorted(set(LIKELIHOODS) - {"categorical"})
GAUSSIAN, STUDENT_T, LEARNED = gaussian(0.25), student_t(3.0, 0.25), gaussian(floor=0.0)
QUANTILES = [1e-12, 1e-4, 0.025, 0.5, 0.975, 0.9999, 1 - 1e-9]


def exact_quantile(cdf, survival, q):
    """Root of the mixture's cdf, or of what is missing to 1 where that has more digits."""
    if q < 0.5:
        return brentq(lambda y: cdf(y) - q, -1e4, 1e4, xtol=1e-12, rtol=1e-14)
    return brentq(lambda y: survival(y) - (1 - q), -1e4, 1e4, xtol=1e-12, rtol=1e-14)


@pytest.mark.parametrize("q", QUANTILES)
@pytest.mark.parametrize("name", ["gaussian", "student_t", "heteroscedastic"])
def test_quantile_inverts_the_mixtures_cdf(name, q):
    f = values(2 if name == "heteroscedastic" else 1)
    if name == "gaussian":
        likelihood, parts = GAUSSIAN, stats.norm(f, 0.25)
    elif name == "student_t":
        likelihood, parts = STUDENT_T, stats.t(3, f, 0.25)
    else:
        likelihood = MADE["heteroscedastic"]
        parts = stats.norm(f[..., :1], 1e-3 + np.log1p(np.exp(f[..., 1:])))
    expected = [
        [exact_quantile(lambda y, i=i: parts.cdf(y)[:, i, 0].mean(), lambda y, i=i: parts.sf(y)[:, i, 0].mean(), q)]
        for i in range(ROWS)
    ]
    # a few roundings of float32; 1 − 1e-9 itself, and the cdf there, are known to eight digits in float64
    np.testing.assert_allclose(predictive(likelihood, f).quantile(q), expected, rtol=3e-6)


@pytest.mark.parametrize("q", QUANTILES)
@pytest.mark.parametrize("count", [1, 4])
def test_quantile_of_counts_is_the_smallest_that_suffices(count, q):
    log_rate = np.linspace(-2, 4, count * ROWS).reshape(count, ROWS, 1).astype(np.float32).astype(float)
    got = np.asarray(predictive(MADE["poisson"], log_rate).quantile(q), float)
    np.testing.assert_array_equal(got, np.round(got))
    mass = lambda y: stats.poisson.cdf(y, np.exp(log_rate)).mean(axis=0)  # noqa: E731
    assert np.all(mass(got) >= q)
    assert np.all(mass(got - 1) < q)
    if count == 1:
        np.testing.assert_array_equal(got, stats.poisson.ppf(q, np.exp(log_rate[0])))


def test_quantile_of_large_counts():
    """Where an incomplete gamma function in float32 has two digits left."""
    log_rate = np.full((1, 1, 1), np.float32(np.log(1e5)))
    for q in (1e-4, 0.5, 0.9999):
        expected = stats.poisson.ppf(q, np.exp(float(log_rate[0, 0, 0])))
        assert float(predictive(MADE["poisson"], log_rate).quantile(q)[0, 0]) == expected


@pytest.mark.parametrize("q", [0.01, 0.2, 0.5, 0.8, 0.99])
def test_quantile_of_yes_and_no(q):
    f = np.array([-3.0, 0.0, 3.0, 200.0, -200.0])[None, :, None]
    got = predictive(MADE["bernoulli"], f).quantile(q)
    np.testing.assert_array_equal(got, stats.bernoulli.ppf(q, special.expit(f[0])))


@pytest.mark.parametrize("f", [-0.26420972, 0.8232611, 2.9868622])
def test_quantile_jumps_where_the_cdf_does(f):
    """For two values Cantelli's inequality is an equality, and rounding may put the answer outside of its bounds."""
    ours = predictive(MADE["bernoulli"], np.full((1, 1, 1), f))
    with jax.enable_x64(True):
        none = float(jax.nn.sigmoid(-ours.f.astype(jnp.float64))[0, 0, 0])
    assert float(ours.quantile(none)[0, 0]) == 0
    assert float(ours.quantile(np.nextafter(none, 1))[0, 0]) == 1


@pytest.mark.parametrize("name", NUMERIC)
def test_quantiles_hold_their_share_of_the_samples(name, key):
    likelihood, n = MADE[name], 4_000
    params = jax.tree.map(lambda leaf: jnp.full(PARTICLES, leaf), likelihood.init())
    ours = predictive(likelihood, values(likelihood.width(1)), params)
    samples = np.asarray(sample(ours, key, n))
    assert samples.shape == (n, ROWS, 1)
    for q in (0.1, 0.5, 0.9):
        quantile = np.asarray(ours.quantile(q))
        # five standard errors of a frequency; a whole number may hold more than its share, not less
        error = 5 * np.sqrt(q * (1 - q) / n)
        assert np.all((samples <= quantile).mean(axis=0) > q - error)
        assert np.all((samples < quantile).mean(axis=0) < q + error)


def test_interval_is_central_and_covers(key):
    ours, _ = mixture(1, -7.0, 3.0)
    low, high = ours.interval(0.8)
    np.testing.assert_allclose(cdf(ours, low), 0.1, rtol=1e-4)  # float32
    np.testing.assert_allclose(cdf(ours, high), 0.9, rtol=1e-4)
    samples = np.asarray(sample(ours, key, 10_000))
    covered = np.mean((samples >= low) & (samples <= high), axis=0)
    np.testing.assert_allclose(covered, 0.8, atol=5 * (0.16 / 10_000) ** 0.5)  # five standard errors


def test_float64_particles_have_float64_quantiles(x64):
    ours = Predictive(gaussian(1.0), jnp.zeros((1, 1, 1)), (), jnp.zeros(()), jnp.ones(()))
    for q in (1e-30, 1e-4, 0.3, 0.999):
        np.testing.assert_allclose(ours.quantile(q), stats.norm.ppf(q), rtol=1e-12)


@pytest.mark.parametrize("q", [0.0, 1.0, -0.1, float("nan")])
def test_q_and_level_lie_between_zero_and_one(q):
    ours, _ = mixture()
    with pytest.raises(ValueError, match=f"q={q} must lie strictly between 0 and 1"):
        ours.quantile(q)
    with pytest.raises(ValueError, match=f"level={q} must lie strictly between 0 and 1"):
        ours.interval(q)


@pytest.mark.parametrize("q", [0.025, 0.15, 0.3, 0.35, 0.45, 0.55, 0.6, 0.85])
def test_quantile_of_many_rows_in_float64_keeps_its_bracket(q):
    """Rows end at different steps, and those that are done go on at the level of rounding, where signs are fragile."""
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        f, rho = jnp.asarray(rng.normal(size=(20, 442, 1))), jnp.asarray(rng.normal(-0.5, 0.1, 20))
        many = Predictive(LEARNED, f, rho, jnp.zeros(()), jnp.ones(()))
        parts = stats.norm(np.asarray(f), np.log1p(np.exp(np.asarray(rho)))[:, None, None])
        found = parts.cdf(np.asarray(many.quantile(q))).mean(axis=0)
    # quantiles to an ulp or two of float64 and slopes below 1: a few roundings of the cdf
    np.testing.assert_allclose(found, q, rtol=0, atol=1e-14)
