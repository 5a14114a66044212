# SPDX-License-Identifier: Apache-2.0
"""Scales chosen by marginal likelihood: against SciPy, finite differences and the scales behind the data."""

import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from fpovi.networks import fan_in_scales, mlp
from fpovi.priors import nngp_covariance
from fpovi.selection import evidence, log_evidence
from fpovi.types import Architecture, Scales

module = sys.modules["fpovi.selection.evidence"]
SIZES = (3, 50, 1)
# the first bias has the variance of the inputs' part, (3² + 1² + .1²)/3, as evidence has it
TRUE = Scales(jnp.asarray([3.0, 1.0, 0.1]), jnp.asarray([1.0, 4.0]), jnp.asarray([3.337, 0.5]), jnp.asarray(0.2))


def architecture(scales=TRUE, phi=jax.nn.relu):
    return Architecture((len(scales.input), 50, 1), phi, scales)


def repeated_rows(rng, rows=12, features=3):
    x = rng.normal(size=(rows, features))
    x[-3:] = x[:3]
    return x


@jax.jit
def true_covariance(scales, x):
    return nngp_covariance(architecture(scales))(x, x)


@jax.jit
def log_evidence_of(scales, x, y):
    return log_evidence(architecture(scales), x, y)


def drawn(rows, targets=1, scales=TRUE, seed=0):
    """Data from the Gaussian process itself."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, len(scales.input)))
    with jax.enable_x64(True):
        padded = np.pad(x, ((0, -rows % 128), (0, 0)))  # so that few programs serve all lengths
        covariance = np.asarray(true_covariance(scales, padded))[:rows, :rows]
    covariance = covariance + float(scales.noise) ** 2 * np.eye(rows)
    return x, np.linalg.cholesky(covariance) @ rng.normal(size=(rows, targets))


@pytest.mark.parametrize("phi", [jax.nn.relu, jax.scipy.special.erf, jnp.tanh])
def test_log_evidence_against_scipy(phi, x64):
    rng = np.random.default_rng(0)
    x, y = repeated_rows(rng), rng.normal(size=(12, 2))
    weight = rng.uniform(0.5, 2.0, size=(12, 2))
    weight[4, 0] = weight[7] = 0.0
    covariance = np.asarray(nngp_covariance(architecture(phi=phi))(jnp.asarray(x), jnp.asarray(x)))
    total = 0.0
    for target in range(2):
        seen = weight[:, target] > 0
        noise = np.diag(0.2**2 / weight[seen, target])
        total += multivariate_normal(cov=covariance[np.ix_(seen, seen)] + noise).logpdf(y[seen, target])
    ours = jax.jit(partial(log_evidence, architecture(phi=phi)))(x, y, weight)
    np.testing.assert_allclose(ours, total, rtol=1e-6)  # the noise passes through float32 as .2 is kept there


def test_targets_with_common_weights_sum(x64):
    rng = np.random.default_rng(1)
    x, y = jnp.asarray(repeated_rows(rng)), jnp.asarray(rng.normal(size=(12, 3)))
    weight = jnp.asarray(rng.uniform(0.5, 2.0, size=(12, 1)))
    ours = jax.jit(partial(log_evidence, architecture()))
    together = ours(x, y, weight)
    apart = sum(ours(x, y[:, j : j + 1], weight) for j in range(3))
    np.testing.assert_allclose(together, apart, rtol=1e-12)


@pytest.mark.parametrize(
    ("phi", "hidden"),
    [
        (jax.nn.relu, ()),
        (jax.nn.relu, (50,)),
        (jax.nn.relu, (50, 50)),
        (jax.scipy.special.erf, (50,)),
        pytest.param(jnp.tanh, (50,), marks=pytest.mark.slow),  # long to compile
    ],
)
def test_gradient_against_differences_where_rows_repeat(phi, hidden, x64):
    rng = np.random.default_rng(0)
    x, y = jnp.asarray(repeated_rows(rng)), jnp.asarray(rng.normal(size=(12, 1)))
    layers = len(hidden) + 1

    def of_logs(logs):
        parts = jnp.split(jnp.exp(logs), [3, 3 + layers, 3 + 2 * layers])
        return log_evidence(Architecture((3, *hidden, 1), phi, Scales(*parts[:3], parts[3][0])), x, y)

    logs = jnp.asarray(rng.normal(size=4 + 2 * layers)) / 2
    gradient = jax.jit(jax.grad(of_logs))(logs)
    step, value = 1e-5, jax.jit(of_logs)
    differences = [(value(logs + step * e) - value(logs - step * e)) / (2 * step) for e in jnp.eye(len(logs))]
    # central differences: error step² times third derivatives, and rounding 1e-14/1e-5 of values near 100
    np.testing.assert_allclose(gradient, jnp.stack(differences), rtol=1e-5, atol=1e-6)


def test_finds_the_scales_behind_the_data(key):
    x, y = drawn(120, targets=8)
    found = evidence(key, x, y, SIZES)
    np.testing.assert_allclose(found.noise, TRUE.noise, rtol=0.1)  # 960 residuals, about half explained: 3 %
    # under ReLU only input² · weight[1] is identified; the last feature hardly matters, so it is only known to be small
    amplitude = np.asarray(found.input) * np.sqrt(float(found.weight_variance[1]))
    np.testing.assert_allclose(amplitude[:2], [6.0, 2.0], rtol=0.35)
    assert amplitude[2] < 0.5
    with jax.enable_x64(True):
        at = [float(log_evidence_of(s, x, y)) for s in (found, TRUE)]
    assert at[0] > at[1] - 5  # the penalty may cost a few nats of several hundred


def test_beats_the_default_scales_and_one_common_scale(key):
    x, y = drawn(64, seed=2)
    found = evidence(key, x, y, SIZES)
    with jax.enable_x64(True):
        default, own, common = (
            float(log_evidence_of(scales, x, y))
            for scales in (fan_in_scales(SIZES), found, found._replace(input=jnp.full(3, jnp.mean(found.input))))
        )
    assert own > common > default


def test_same_key_same_scales_and_a_large_table_is_sampled(key):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100_000, 3))
    y = np.sin(2 * x[:, 0]) + 0.1 * rng.normal(size=100_000)
    first, again = (evidence(key, x, y, SIZES, max_rows=64) for _ in range(2))
    jax.tree.map(np.testing.assert_array_equal, first, again)
    np.testing.assert_allclose(first.noise, 0.1, rtol=0.4)  # from 64 rows
    assert all(leaf.dtype == jnp.float32 for leaf in first)
    mlp(SIZES, scales=first)


@pytest.mark.parametrize(("rows", "climbs"), [(60, 6), (600, 7)], ids=["one size", "coarse, then fine"])
def test_one_may_watch_it_climb(monkeypatch, rows, climbs, key):
    monkeypatch.setattr(module, "_climb", lambda objective, point, *data: (point, float(len(data[0]))))
    seen = []
    evidence(key, *drawn(rows), SIZES, watch=lambda *told: seen.append(told))
    assert [told[:2] for told in seen] == [(done, climbs) for done in range(1, climbs + 1)]
    assert seen[-1][2] == -(640.0 if rows == 600 else 64.0)


def test_units_of_the_data_do_not_matter(key):
    x, y = drawn(60)
    here = evidence(key, x, y, SIZES)
    there = evidence(key, x * np.asarray([1e4, 1e-3, 1.0]), 100 * y, SIZES)
    np.testing.assert_allclose(there.input * jnp.asarray([1e4, 1e-3, 1.0]), here.input, rtol=1e-3)
    np.testing.assert_allclose(there.noise, 100 * here.noise, rtol=1e-3)
    np.testing.assert_allclose(there.weight_variance, here.weight_variance * jnp.asarray([1.0, 1e4]), rtol=1e-3)


def test_rows_of_weight_zero_are_left_out(key):
    x, y = drawn(60)
    poison = np.concatenate([y, np.full((40, 1), 1e6)])
    weight = np.repeat([1.0, 0.0], [60, 40])
    found = evidence(key, np.concatenate([x, x[:40]]), poison, SIZES, weight=weight)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4), found, evidence(key, x, y, SIZES))


def test_heavy_rows_are_trusted(key):
    """Half the rows have noise of sd .1, half of .4, and the weights say so."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 3))
    weight = np.repeat([1.0, 1 / 16], 32)
    y = x[:, 0] + 0.1 / np.sqrt(weight) * rng.normal(size=64)
    np.testing.assert_allclose(evidence(key, x, y, SIZES, weight=weight).noise, 0.1, rtol=0.3)  # 4 / √(2·64)


def test_one_program_for_tables_of_about_the_same_length(key):
    evidence(key, *drawn(60), SIZES)
    seen = module._loss._cache_size()
    for rows in (3, 17, 64):
        evidence(key, *drawn(rows), (3, 20, 1))
    assert module._loss._cache_size() == seen


def few_rows_many_features(rng):
    x = rng.normal(size=(20, 200))
    return x, x[:, 0]


DEGENERATE = {
    "two rows": lambda rng: (rng.normal(size=(2, 3)), np.asarray([-1.0, 1.0])),
    "one row": lambda rng: (rng.normal(size=(1, 3)), np.ones(1)),
    "constant target": lambda rng: (rng.normal(size=(30, 3)), np.zeros(30)),
    "constant features": lambda rng: (np.full((30, 3), 1e-13), rng.normal(size=30)),
    "no noise": lambda rng: (np.linspace(-1, 1, 120).reshape(40, 3), np.linspace(-1, 1, 40)),
    "nothing but noise": lambda rng: (rng.normal(size=(40, 3)), rng.normal(size=40)),
    "one row, many times": lambda rng: (np.ones((40, 3)), np.ones(40)),
    "repeated rows that disagree": lambda rng: (np.ones((40, 3)), rng.normal(size=40)),
    "many features": few_rows_many_features,
    "large numbers": lambda rng: (1e15 * rng.normal(size=(30, 3)), 1e12 * rng.normal(size=30)),
    "an outlier": lambda rng: (rng.normal(size=(30, 3)), np.eye(30)[0] * 1e6),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_tables_give_usable_scales(name, key):
    x, y = DEGENERATE[name](np.random.default_rng(0))
    found = evidence(key, x, y, (x.shape[1], 50, 1))
    assert all(np.all(np.isfinite(leaf)) and np.all(np.asarray(leaf) > 0) for leaf in found)
    relative = np.asarray(found.input, np.float64) * module._units(x)
    assert np.all((relative > 1e-3) & (relative < 1e3))
    assert float(found.noise) > 1e-4 * float(module._root_mean_square(np.asarray(y)))


def test_few_rows_do_not_tell_many_features_apart(key):
    """Not even the one that is the target: any of 200 may fit 20 rows by chance."""
    x, y = few_rows_many_features(np.random.default_rng(0))
    scales = np.asarray(evidence(key, x, y, (200, 50, 1)).input)
    assert scales.max() / np.median(scales) < 3


def test_constant_column_keeps_the_common_scale(key):
    x, y = drawn(100)
    x = np.concatenate([x, np.full((100, 1), -2e-14)], axis=1)
    scales = np.asarray(evidence(key, x, y, (4, 50, 1)).input)
    assert scales[:3].min() < scales[3] < scales[:3].max()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"x": np.zeros(5)}, "x has shape"),
        ({"x": np.full((5, 3), np.nan)}, "x has 15 NaN"),
        ({"y": np.zeros(4)}, "y has shape"),
        ({"y": np.full(5, np.inf)}, "y has 5 NaN"),
        ({"sizes": (2, 50, 1)}, "must begin with the 3 features"),
        ({"sizes": (3,)}, "must begin with the 3 features"),
        ({"weight": np.ones(4)}, "weight has shape"),
        ({"weight": -np.ones(5)}, "weight must not be negative"),
        ({"weight": np.zeros(5)}, "weight must not be negative"),
        ({"max_rows": 0}, "max_rows=0"),
    ],
)
def test_bad_arguments_are_named(change, said, key):
    arguments = {"x": np.zeros((5, 3)), "y": np.zeros(5), "sizes": SIZES, **change}
    with pytest.raises(ValueError, match=said):
        evidence(key, **arguments)
