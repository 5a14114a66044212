# SPDX-License-Identifier: Apache-2.0
"""The mixture over particles against NumPy and SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from fpovi.likelihoods import LIKELIHOODS, gaussian, poisson
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

GAUSSIAN = gaussian(0.25)
UNITS = [(0.0, 1.0), (-7.0, 3.0), (1e3, 0.1)]


@pytest.mark.parametrize(("shift", "scale"), UNITS)
@pytest.mark.parametrize("targets", [1, 2])
def test_log_prob_is_log_mean_exp_of_the_rows_joint_density(targets, shift, scale):
    ours, twin = mixture(targets, shift, scale)
    y = shift + scale * values(targets)[0] + 0.5 * scale
    expected = special.logsumexp(twin.logpdf(y).sum(axis=-1), axis=0) - np.log(PARTICLES)
    # float32: near 1000 y is known to 3e-5, and the sharpest particle's noise scale is .013
    np.testing.assert_allclose(log_prob(ours, y), expected, atol=2e-2 if shift > 100 else 2e-5)


def test_log_prob_far_from_all_particles_does_not_underflow():
    ours, twin = mixture()
    y = np.full((ROWS, 1), 100.0)
    expected = special.logsumexp(twin.logpdf(y).sum(axis=-1), axis=0) - np.log(PARTICLES)
    assert np.all(expected < -1_000)  # exp of this is 0 even in float64
    np.testing.assert_allclose(log_prob(ours, y), expected, rtol=1e-5)  # float32


@pytest.mark.parametrize(("shift", "scale"), UNITS)
def test_variance_is_mean_of_variances_plus_variance_of_means(shift, scale):
    ours, twin = mixture(2, shift, scale)
    np.testing.assert_allclose(ours.mean, twin.mean().mean(axis=0), rtol=1e-5)  # float32, here and below
    np.testing.assert_allclose(ours.particle_means, twin.mean(), rtol=1e-5)
    np.testing.assert_allclose(ours.epistemic_std, twin.mean().std(axis=0), rtol=1e-5)
    np.testing.assert_allclose(ours.aleatoric_std**2, np.broadcast_to(twin.var().mean(axis=0), (ROWS, 2)), rtol=1e-5)
    np.testing.assert_allclose(ours.std**2, twin.var().mean(axis=0) + twin.mean().var(axis=0), rtol=1e-5)


def test_units_may_differ_from_target_to_target():
    shift, scale = np.array([5.0, -1.0]), np.array([2.0, 0.5])
    ours, twin = mixture(2, shift, scale)
    y = shift + scale * values(2)[1]
    expected = special.logsumexp(twin.logpdf(y).sum(axis=-1), axis=0) - np.log(PARTICLES)
    np.testing.assert_allclose(log_prob(ours, y), expected, rtol=1e-5)  # float32, here and below
    np.testing.assert_allclose(ours.mean, twin.mean().mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(cdf(ours, y), twin.cdf(y).mean(axis=0), rtol=1e-5)
    alone = [mixture(2, shift[i], scale[i])[0].quantile(0.3)[:, i] for i in range(2)]
    np.testing.assert_allclose(ours.quantile(0.3), np.stack(alone, axis=1), rtol=1e-5)


def test_disagreement_survives_a_large_shift():
    """float32 near 1e6 has steps of .06: differences between particles must be taken before they are shifted."""
    ours, twin = mixture(1, 1e6, 0.01)
    np.testing.assert_allclose(ours.epistemic_std, twin.mean().std(axis=0), rtol=1e-5)


@pytest.mark.parametrize(("shift", "scale"), UNITS)
def test_one_particle_is_that_one_model(shift, scale):
    f = values(particles=1)
    ours, twin = predictive(GAUSSIAN, f, (), shift, scale), stats.norm(shift + scale * f[0], scale * 0.25)
    y = shift + scale * (f[0] + 0.5)
    # float32: near 1000 y is known to 3e-5, which is .0012 noise scales, and y is two of them away
    np.testing.assert_allclose(log_prob(ours, y), twin.logpdf(y)[:, 0], atol=3e-3 if shift > 100 else 1e-5)
    mean, std = mean_and_std(ours)
    np.testing.assert_allclose(mean, twin.mean(), rtol=1e-6)
    np.testing.assert_allclose(std, twin.std(), rtol=1e-6)
    for q in (1e-4, 0.3, 0.9999):
        np.testing.assert_allclose(ours.quantile(q), twin.ppf(q), rtol=1e-6)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_one_particle_has_the_likelihoods_own_density_and_moments(name):
    """To a few roundings of float32: the order of operations differs."""
    likelihood = MADE[name]
    outputs = values(2 if name == "categorical" else likelihood.width(2), 1)
    f = likelihood.canonical(jnp.asarray(outputs, jnp.float32))
    params = likelihood.init()
    y = jnp.asarray([[0], [1], [1]], jnp.int32 if name == "categorical" else jnp.float32)
    y = jnp.tile(y, (1, likelihood.targets(f.shape[-1])))
    ours = predictive(likelihood, f, jax.tree.map(lambda leaf: leaf[None], params))
    alone = jax.jit(
        lambda f, y: (
            likelihood.log_prob(params, f, y).sum(axis=1),
            likelihood.cdf(params, f, y),
            likelihood.mean(params, f),
            likelihood.variance(params, f) ** 0.5,
        )
    )(f[0], y)
    for got, expected in zip((log_prob(ours, y), cdf(ours, y), *mean_and_std(ours)), alone, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_a_sample_is_one_particles_function(key):
    f = values()
    ours = predictive(gaussian(1e-6), f, (), -7.0, 3.0)
    samples = np.asarray(sample(ours, key, 400))[:, :, 0]
    distance = np.abs(samples[:, None] - (-7 + 3 * f[None, :, :, 0])).max(axis=-1)  # (draws, n), worst input
    nearest = distance.argmin(axis=1)
    assert np.all(distance.min(axis=1) < 1e-4)  # noise of 3e-6 and float32 near 10
    # 400 draws of four: each comes up 100 times, give or take five standard errors √(400·¼·¾)
    assert np.all(np.abs(np.bincount(nearest, minlength=PARTICLES) - 100) < 5 * 75**0.5)


def test_samples_depend_on_the_key_only(key):
    ours, _ = mixture()
    np.testing.assert_array_equal(sample(ours, key, 3), sample(ours, key, 3))
    assert not np.array_equal(sample(ours, key, 3), sample(ours, jax.random.key(1), 3))


def test_works_compiled_and_batched():
    ours, _ = mixture()
    y = ours.mean + 0.5
    say = lambda p: (p.log_prob(y), p.quantile(0.3), p.std)  # noqa: E731
    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), ours)
    for plain, compiled, batched in zip(say(ours), jax.jit(say)(ours), jax.vmap(say)(stacked), strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=1e-5)  # float32, other fusions
        np.testing.assert_allclose(batched, jnp.stack([plain, plain]), rtol=1e-5)


def test_dtype_follows_the_particles(key, x64):
    ours, _ = mixture()
    y = np.zeros((ROWS, 1))
    say = lambda p: (p.mean, p.std, p.log_prob(y), p.cdf(y), p.quantile(0.2), p.sample(key, 2))  # noqa: E731
    assert {result.dtype for result in jax.eval_shape(say, ours)} == {jnp.dtype(jnp.float32)}


def test_predict_runs_the_networks_and_undoes_the_scaling(key):
    network, state = fitted(key, gaussian(floor=0.0))
    x = np.random.default_rng(0).normal(size=(ROWS, 2)).astype(np.float32)
    ours = predict(network, gaussian(floor=0.0), state, x, shift=np.array([-7.0]), scale=3.0)
    each = [
        network.apply(jax.tree.map(lambda leaf, i=i: leaf[i], state.particles), (), jnp.asarray(x), False)[0]
        for i in range(PARTICLES)
    ]
    np.testing.assert_allclose(ours.particle_means, -7 + 3 * jnp.stack(each), rtol=1e-5)  # float32
    np.testing.assert_allclose(ours.aleatoric_std, 1.5, rtol=1e-5)


@pytest.mark.parametrize(
    ("units", "said"),
    [
        ({"scale": 0.0}, "scale=0.0 finite and positive"),
        ({"scale": -1.0}, "scale=-1.0 finite and positive"),
        ({"scale": float("inf")}, "scale=inf finite and positive"),
        ({"shift": float("nan")}, "shift=nan must be finite"),
        ({"shift": [1.0, 2.0, 3.0]}, "one number, or one for each of"),
    ],
)
def test_units_must_make_sense(units, said, key):
    network, state = fitted(key, gaussian(floor=0.0))
    with pytest.raises(ValueError, match=said):
        predict(network, gaussian(floor=0.0), state, jnp.ones((ROWS, 2)), **units)


def test_counts_have_no_units(key):
    network, state = fitted(key, poisson())
    with pytest.raises(ValueError, match=r"shift=0\.0 and scale=2\.0 must be left out: counts and classes have no"):
        predict(network, poisson(), state, jnp.ones((ROWS, 2)), scale=2.0)


def test_one_target_may_come_without_its_axis():
    ours, _ = mixture()
    y = np.linspace(-1, 1, ROWS)
    np.testing.assert_array_equal(ours.log_prob(y), ours.log_prob(y[:, None]))
    np.testing.assert_array_equal(ours.cdf([0, 1, 2]), ours.cdf([[0.0], [1.0], [2.0]]))


@pytest.mark.parametrize("y", [np.zeros((ROWS + 1, 1)), np.zeros((ROWS, 2)), np.zeros(1), np.float64(0.0)])
def test_targets_must_match_the_inputs(y):
    ours, _ = mixture()
    for method in (ours.log_prob, ours.cdf):
        with pytest.raises(ValueError, match=r"y has shape .*, but \(3, 1\) is needed: a row for every input"):
            method(y)


def test_at_least_one_sample(key):
    with pytest.raises(ValueError, match="n=0 draws were asked for, but at least 1 is needed"):
        mixture()[0].sample(key, 0)
