# SPDX-License-Identifier: Apache-2.0
"""The mixture over particles, its arithmetic by hand and its quantiles by scipy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats
from scipy.optimize import brentq

from fpovi.inference import weight_space
from fpovi.likelihoods import LIKELIHOODS, categorical, gaussian, poisson, student_t
from fpovi.networks import mlp
from fpovi.predictive import Predictive, predict

PARTICLES, ROWS = 4, 3
NUMERIC = sorted(set(LIKELIHOODS) - {"categorical"})
# made once: quantiles are compiled for a likelihood, and one made anew is another
MADE = {name: make() for name, make in LIKELIHOODS.items()}
GAUSSIAN, STUDENT_T = gaussian(0.25), student_t(3.0, 0.25)

log_prob = jax.jit(lambda p, y: p.log_prob(y))
cdf = jax.jit(lambda p, y: p.cdf(y))
mean_and_std = jax.jit(lambda p: (p.mean, p.std))
sample = jax.jit(lambda p, key, n: p.sample(key, n), static_argnums=2)


def predictive(likelihood, f, params=(), shift=0.0, scale=1.0):
    f = jnp.asarray(f, jnp.float32)
    params = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), params)
    return Predictive(likelihood, f, params, jnp.asarray(shift, jnp.float32), jnp.asarray(scale, jnp.float32))


def values(targets=1, particles=PARTICLES):
    """Function values that float32 holds exactly, so that numpy and jax start from the same numbers."""
    return np.random.default_rng(0).normal(size=(particles, ROWS, targets)).astype(np.float32).astype(float)


def mixture(targets=1, shift=0.0, scale=1.0):
    """A Gaussian mixture, a noise scale per particle, and the same as scipy's normals ``(n, B, m)``."""
    f, rho = values(targets), np.array([-2.0, -1.0, 0.0, 1.0])
    noise = np.log1p(np.exp(rho))[:, None, None]
    twin = stats.norm(shift + scale * f, scale * noise)
    return predictive(MADE["gaussian"], f, rho, shift, scale), twin


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
    f = likelihood.canonical(jnp.asarray(values(2, 1), jnp.float32))
    params = likelihood.init()
    y = jnp.asarray([[0], [1], [1]], jnp.int32 if name == "categorical" else jnp.float32)
    y = y if name in ("categorical", "heteroscedastic") else jnp.tile(y, (1, 2))
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


def classes(*probs):
    """Particles that give the classes these probabilities, at one input."""
    with np.errstate(divide="ignore"):
        return predictive(MADE["categorical"], np.log(np.array(probs))[:, None, :])


def test_class_probabilities_are_averaged():
    ours = classes([0.5, 0.3, 0.2], [0.1, 0.1, 0.8])
    np.testing.assert_allclose(ours.probs, [[0.3, 0.2, 0.5]], rtol=1e-6)  # float32, here and below
    for label, p in enumerate([0.3, 0.2, 0.5]):
        np.testing.assert_allclose(ours.log_prob(jnp.asarray([[label]])), [np.log(p)], rtol=1e-6)
        np.testing.assert_array_equal(ours.log_prob([label]), ours.log_prob(np.array([[label]], np.uint8)))


def test_entropy_and_mutual_information_by_hand():
    p, r = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.1, 0.8])
    ours = classes(p, r)
    total, within = stats.entropy((p + r) / 2), (stats.entropy(p) + stats.entropy(r)) / 2
    np.testing.assert_allclose(ours.entropy, [total], rtol=1e-6)  # float32
    np.testing.assert_allclose(ours.mutual_information, [total - within], rtol=1e-5)


def test_particles_that_agree_share_no_information():
    ours = classes(*[[0.7, 0.2, 0.1]] * 3)
    assert 0 <= float(ours.mutual_information[0]) < 1e-6  # float32, never below 0
    np.testing.assert_allclose(ours.entropy, [stats.entropy([0.7, 0.2, 0.1])], rtol=1e-6)


def test_two_particles_certain_of_different_classes_disagree_by_log_two():
    ours = classes([1.0, 0.0], [0.0, 1.0])
    np.testing.assert_allclose(ours.mutual_information, [np.log(2)], rtol=1e-6)  # float32
    np.testing.assert_allclose(ours.entropy, [np.log(2)], rtol=1e-6)


def test_class_samples_have_the_probabilities(key):
    samples = sample(classes([0.5, 0.3, 0.2], [0.1, 0.1, 0.8]), key, 10_000)
    frequency = np.bincount(np.asarray(samples).ravel(), minlength=3) / 10_000
    np.testing.assert_allclose(frequency, [0.3, 0.2, 0.5], atol=5 * (0.25 / 10_000) ** 0.5)  # five standard errors


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


def test_float64_particles_have_float64_quantiles(x64):
    ours = Predictive(gaussian(1.0), jnp.zeros((1, 1, 1)), (), jnp.zeros(()), jnp.ones(()))
    for q in (1e-30, 1e-4, 0.3, 0.999):
        np.testing.assert_allclose(ours.quantile(q), stats.norm.ppf(q), rtol=1e-12)


def fitted(key, likelihood, outputs=1):
    network = mlp((2, 3, outputs))
    return network, weight_space(network, likelihood).init(key, PARTICLES)


def test_predict_runs_the_networks_and_undoes_the_scaling(key):
    network, state = fitted(key, gaussian())
    x = np.random.default_rng(0).normal(size=(ROWS, 2)).astype(np.float32)
    ours = predict(network, gaussian(), state, x, shift=np.array([-7.0]), scale=3.0)
    each = [
        network.apply(jax.tree.map(lambda leaf, i=i: leaf[i], state.particles), (), jnp.asarray(x), False)[0]
        for i in range(PARTICLES)
    ]
    np.testing.assert_allclose(ours.particle_means, -7 + 3 * jnp.stack(each), rtol=1e-5)  # float32
    np.testing.assert_allclose(ours.aleatoric_std, 1.5, rtol=1e-5)


def test_predict_normalises_classes(key):
    network, state = fitted(key, categorical(), outputs=3)
    probs = predict(network, categorical(), state, jnp.ones((ROWS, 2))).particle_means
    np.testing.assert_allclose(probs.sum(axis=-1), 1, rtol=1e-6)  # float32


@pytest.mark.parametrize(
    ("units", "said"),
    [
        ({"scale": 0.0}, "scale=0.0 finite and positive"),
        ({"scale": -1.0}, "scale=-1.0 finite and positive"),
        ({"scale": float("inf")}, "scale=inf finite and positive"),
        ({"shift": float("nan")}, "shift=nan must be finite"),
    ],
)
def test_units_must_make_sense(units, said, key):
    network, state = fitted(key, gaussian())
    with pytest.raises(ValueError, match=said):
        predict(network, gaussian(), state, jnp.ones((ROWS, 2)), **units)


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


def test_classes_must_be_whole_numbers():
    with pytest.raises(ValueError, match=r"y has dtype float32, but classes are integers 0…2"):
        classes([0.5, 0.3, 0.2]).log_prob([[1.0]])


@pytest.mark.parametrize("q", [0.0, 1.0, -0.1, float("nan")])
def test_q_and_level_lie_between_zero_and_one(q):
    ours, _ = mixture()
    with pytest.raises(ValueError, match=f"q={q} must lie strictly between 0 and 1"):
        ours.quantile(q)
    with pytest.raises(ValueError, match=f"level={q} must lie strictly between 0 and 1"):
        ours.interval(q)


def test_at_least_one_sample(key):
    with pytest.raises(ValueError, match="n=0 draws were asked for, but at least 1 is needed"):
        mixture()[0].sample(key, 0)


def test_classes_have_no_quantiles_and_numbers_no_entropy():
    with pytest.raises(ValueError, match="classes have no order and so no quantiles"):
        classes([0.5, 0.5]).quantile(0.5)
    for ask in ("probs", "entropy", "mutual_information"):
        for numbers in (mixture()[0], predictive(MADE["bernoulli"], values())):
            with pytest.raises(ValueError, match="are for classes"):
                getattr(numbers, ask)
