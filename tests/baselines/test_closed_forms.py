# SPDX-License-Identifier: Apache-2.0
"""Linear networks have exact posteriors, and dropout a forward pass that can be written by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import integrate, stats

from fpovi.baselines import sghmc
from fpovi.baselines.dropout import dropout, hidden_widths, masked_forward, thinned, unit_masks
from fpovi.baselines.layers import describe_layers
from fpovi.baselines.mean_field import (
    MeanField,
    ScaleMixture,
    divergence,
    drawn_divergence,
    locally_random_forward,
    mean_field,
)
from fpovi.inference.batches import make_batch
from fpovi.inference.loop import run
from fpovi.likelihoods import gaussian
from fpovi.networks import MLP, mlp
from fpovi.types import Scales
from support.scenarios import linear_network, linear_posterior, polynomial

pytestmark = pytest.mark.usefixtures("loose_dtypes")
NOISE = 0.3
OTHERS = [(False, None), (False, 16), (True, None)]
SCALES = Scales(jnp.asarray([1.0, 2.0]), jnp.asarray([3.0]), jnp.asarray([0.5]), jnp.asarray(NOISE))


def correlated_rows(rows=40):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(rows, 2)).astype(np.float32)
    x[:, 1] += 0.7 * x[:, 0]
    return x, (x @ [0.5, -0.4] + 0.2 + NOISE * rng.normal(size=rows)).astype(np.float32)


def posterior_of_linear_mlp(x, y):
    """θ = (W, b) of mlp((2, 1), scales=SCALES): mean and precision."""
    design = np.column_stack([x * np.asarray(SCALES.input), np.ones(len(x))])
    prior = np.diag([2 / 3.0, 2 / 3.0, 1 / 0.5])  # W ~ N(0, 3/2), b ~ N(0, .5)
    precision = prior + design.T @ design / NOISE**2
    return np.linalg.solve(precision, design.T @ y / NOISE**2), precision


def flat(theta):
    return np.concatenate([np.asarray(theta.weights[0]).ravel(), np.asarray(theta.biases[0])])


@pytest.mark.parametrize(
    ("unit_weights", "batch_size"), [(True, 16), *(pytest.param(*each, marks=pytest.mark.slow) for each in OTHERS)]
)
def test_mean_field_finds_the_exact_mean_and_the_known_variance(unit_weights, batch_size, key):
    """The best independent Gaussians have the exact mean and variance 1/diag(precision), not the marginal one."""
    x, y = correlated_rows()
    network = mlp((2, 1), scales=SCALES, unit_weights=unit_weights)
    steps = 6000
    algorithm = mean_field(network, gaussian(NOISE), optax.adam(optax.cosine_decay_schedule(2e-2, steps), b2=0.99))
    state = run(key, algorithm, algorithm.init(key, 4), make_batch(x, y), steps, batch_size=batch_size).state
    mean, precision = posterior_of_linear_mlp(x, y)
    known = 1 / np.sqrt(np.diag(precision))
    assert np.all(known < 0.9 * np.sqrt(np.diag(np.linalg.inv(precision)))[:2].max())
    factor = flat(describe_layers(network).factor)
    for member in range(4):
        found = jax.tree.map(lambda leaf, at=member: leaf[at], state.particles)
        # the last steps are small, but their gradients random: a few hundredths of a standard deviation are left
        np.testing.assert_allclose(flat(found.mean) * factor, mean, atol=0.1 * known.min())
        np.testing.assert_allclose(flat(found.std) * factor, known, rtol=0.05)


def a_member(key, network):
    mean, _ = network.init(key)
    return MeanField(mean, jax.tree.map(lambda leaf: jnp.full_like(leaf, -1.0) + 0.3 * leaf, mean))


def test_divergence_is_the_integral_it_stands_for(key):
    network = mlp((1, 2, 1))
    posterior, prior = a_member(key, network), describe_layers(network).prior_std
    total = 0.0
    for mean, std, sigma in zip(*map(jax.tree.leaves, (posterior.mean, posterior.std, prior)), strict=True):
        for m, s, p in zip(*(np.asarray(leaf, float).ravel() for leaf in (mean, std, sigma)), strict=True):
            q, prior_density = stats.norm(m, s), stats.norm(0, p)
            gap = lambda t, q=q, p=prior_density: q.pdf(t) * (q.logpdf(t) - p.logpdf(t))  # noqa: E731
            total += integrate.quad(gap, m - 10 * s, m + 10 * s)[0]
    assert float(divergence(posterior, prior)) == pytest.approx(total, rel=1e-5)


def test_the_drawn_divergence_has_the_integral_for_its_mean(key):
    network = mlp((1, 2, 1))
    posterior, prior = a_member(key, network), ScaleMixture(0.3, 1.5, 0.2)
    density = lambda t: 0.3 * stats.norm(0, 1.5).pdf(t) + 0.7 * stats.norm(0, 0.2).pdf(t)  # noqa: E731
    total = 0.0
    for mean, std in zip(*map(jax.tree.leaves, (posterior.mean, posterior.std)), strict=True):
        for m, s in zip(np.asarray(mean, float).ravel(), np.asarray(std, float).ravel(), strict=True):
            q = stats.norm(m, s)
            gap = lambda t, q=q: q.pdf(t) * (q.logpdf(t) - np.log(density(t)))  # noqa: E731
            total += integrate.quad(gap, m - 10 * s, m + 10 * s)[0]
    drawn = jax.vmap(lambda key: drawn_divergence(key, posterior, prior))(jax.random.split(key, 20_000))
    # four standard errors of the mean of so many draws
    assert float(drawn.mean()) == pytest.approx(total, abs=4 * float(drawn.std()) / 20_000**0.5)


@pytest.mark.parametrize("unit_weights", [False, True])
def test_random_sums_have_the_moments_of_random_weights(unit_weights, key):
    """Of one layer, whose outputs are Gaussian: mean and variance over draws of weights."""
    network = mlp((2, 1), scales=SCALES, unit_weights=unit_weights)
    posterior, layers = a_member(key, network), describe_layers(network)
    x = jnp.asarray([[1.0, -2.0], [0.3, 0.1]])
    keys = jax.random.split(key, 20_000)
    direct = jax.vmap(lambda key: network.apply(posterior.sample(key), (), x, False)[0])(keys)
    local = jax.vmap(lambda key: locally_random_forward(key, layers, posterior, x))(keys)
    # 20,000 draws: means to 1/140 of a standard deviation, deviations to .5 %; four of those
    deviation = np.asarray(direct.std(0))
    np.testing.assert_allclose(local.mean(0), direct.mean(0), atol=0.04 * deviation.max())
    np.testing.assert_allclose(local.std(0), deviation, rtol=0.03)


@pytest.mark.parametrize(("hidden", "unit_weights"), [((), False), ((5, 4), False), ((5, 4), True)])
def test_dropout_is_a_forward_pass_with_masks(hidden, unit_weights, key):
    """By hand in NumPy; then the thinned network, and no masks at all."""
    sizes = (3, *hidden, 2)
    network = mlp(sizes, activation=jnp.tanh, unit_weights=unit_weights)
    theta, _ = network.init(key)
    layers = describe_layers(network)
    x = jax.random.normal(key, (7, 3))
    masks = unit_masks(key, hidden_widths(theta), 0.4, (7,))
    scaled = jax.tree.map(lambda leaf, factor: np.asarray(leaf * factor), theta, layers.factor)
    outputs = np.asarray(x) @ scaled.weights[0] + scaled.biases[0]
    for layer in range(1, len(sizes) - 1):
        outputs = (np.tanh(outputs) * np.asarray(masks[layer - 1])) @ scaled.weights[layer] + scaled.biases[layer]
    np.testing.assert_allclose(masked_forward(layers, theta, masks, x), outputs, rtol=2e-5, atol=1e-6)

    shared = unit_masks(key, hidden_widths(theta), 0.4)
    of_thinned, _ = network.apply(thinned(theta, shared), (), x, False)
    np.testing.assert_allclose(masked_forward(layers, theta, shared, x), of_thinned, rtol=2e-5, atol=1e-6)
    none = unit_masks(key, hidden_widths(theta), 0.0)
    np.testing.assert_allclose(
        masked_forward(layers, theta, none, x), network.apply(theta, (), x, False)[0], rtol=2e-5, atol=1e-6
    )


def test_masks_keep_the_mean(key):
    theta, _ = mlp((1, 30_000, 1)).init(key)
    (mask,) = unit_masks(key, hidden_widths(theta), 0.25)
    assert sorted(set(np.asarray(mask).tolist())) == [0, pytest.approx(4 / 3)]
    # a share of 30,000 units is known to .0025
    assert float(mask.mean()) == pytest.approx(1, abs=0.015)


def test_dropout_of_a_linear_network_is_its_maximum(key):
    """No hidden units, so nothing to leave out: ridge regression."""
    x, y = correlated_rows()
    algorithm = dropout(mlp((2, 1), scales=SCALES), gaussian(NOISE), 0.5, optax.adam(1e-2))
    state = run(key, algorithm, algorithm.init(key, 1), make_batch(x, y), 3000).state
    theta = MLP(*(tuple(leaf[0] for leaf in part) for part in (state.particles.weights, state.particles.biases)))
    np.testing.assert_allclose(flat(theta), posterior_of_linear_mlp(x, y)[0], atol=1e-3)


@pytest.mark.parametrize(("batch_size", "width"), [pytest.param(None, 0.1, marks=pytest.mark.slow), (10, 0.2)])
def test_sghmc_recovers_a_linear_models_posterior(batch_size, width, key):
    """Parameters of unlike scale, as 1, x and x²/30 have: without P the step would serve one of them only."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (40, 1)).astype(np.float32)
    y = (1 + 2 * x[:, 0] + NOISE * rng.normal(size=40)).astype(np.float32)
    features = lambda x: polynomial(x) * jnp.asarray([1.0, 1.0, 1 / 30])  # noqa: E731
    network = linear_network(features, 3)
    state = sghmc(
        key, network, gaussian(NOISE), make_batch(x, y), num_steps=8000, n=2000, chains=20, batch_size=batch_size
    )  # fmt: skip
    mean, covariance = linear_posterior(np.asarray(features(jnp.asarray(x))), y, NOISE)
    deviation = np.sqrt(np.diag(covariance))
    draws = np.asarray(state.particles)
    # 20 chains, each dozens of correlation times long: over 500 effective draws, so 4 standard errors are these
    np.testing.assert_allclose((draws.mean(0) - mean) / deviation, 0, atol=0.18)
    np.testing.assert_allclose(draws.std(0) / deviation, 1, atol=width + 0.1)
    found = np.corrcoef(draws.T)
    known = covariance / np.outer(deviation, deviation)
    np.testing.assert_allclose(found, known, atol=0.2)


@pytest.mark.slow
def test_sghmc_samples_a_noise_scale(key):
    """f = 0 known: p(σ | y) ∝ N(y; 0, σ²) IG(σ; 1, .1), by quadrature; the change of variables must be right."""
    y = np.array([0.5, -0.2, 0.1, -0.4, 0.3], np.float32)
    silent = linear_network(lambda x: jnp.zeros((x.shape[0], 1)), 1)
    data = make_batch(np.zeros((5, 1), np.float32), y)
    state = sghmc(key, silent, gaussian(floor=0.0), data, num_steps=8000, n=2000, chains=20)
    sigma = np.asarray(jax.vmap(gaussian(floor=0.0).noise)(state.params))
    grid = np.linspace(1e-3, 5, 50_000)
    log_density = -5 * np.log(grid) - np.sum(y**2) / (2 * grid**2) - 2 * np.log(grid) - 0.1 / grid
    density = np.exp(log_density - log_density.max())
    known = np.interp([0.25, 0.5, 0.75], np.cumsum(density) / density.sum(), grid)
    # quantiles of some 500 effective draws: a few hundredths; the step adds as much
    np.testing.assert_allclose(np.quantile(sigma, [0.25, 0.5, 0.75]), known, rtol=0.12)
