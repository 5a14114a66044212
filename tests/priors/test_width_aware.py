# SPDX-License-Identifier: Apache-2.0
"""The finite-width prior between its two known ends: a mixture of Gaussians when narrow, nngp when wide."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fpovi.inference.particles import sample_prior
from fpovi.networks import mlp
from fpovi.priors import nngp, width_aware

COPIES = 100  # independent chains at the same f


def relative_error(a, b):
    return float(np.linalg.norm(np.asarray(a) - np.asarray(b)) / np.linalg.norm(b))


def long_run_score(key, network, prior, f, x, settle, average):
    """The average of ``advance`` over steps and over chains, at fixed f ``(B, 1)``."""
    copies = jnp.broadcast_to(f, (COPIES, *f.shape))

    def one(carry, key):
        score, carry = prior.advance(key, carry, copies, x)
        return carry, jnp.mean(score, axis=0)

    @jax.jit
    def all_steps(key):
        key_start, key_steps = jax.random.split(key)
        _, scores = jax.lax.scan(
            one,
            prior.init(key_start, sample_prior(key_start, network, COPIES)),
            jax.random.split(key_steps, settle + average),
        )
        return jnp.mean(scores[settle:], axis=0)

    return all_steps(key)


def mixture_score(key, network, f, x, jitter, bank=50_000):
    """−Σ_m r_m Σ_m⁻¹ f over a bank of hidden layers, r_m ∝ N(f; 0, Σ_m), for one hidden ReLU layer and unit scales."""
    theta = jax.jit(jax.vmap(network.sample_prior))(jax.random.split(key, bank))
    w, b = np.asarray(theta.weights[0], np.float64), np.asarray(theta.biases[0], np.float64)
    phi = np.maximum(np.asarray(x, np.float64) @ w + b[:, None, :], 0)  # (bank, B, h)
    sigma = phi @ phi.transpose(0, 2, 1) / phi.shape[-1] + 1 + jitter * np.eye(len(x))
    f = np.asarray(f, np.float64)
    solved = np.linalg.solve(sigma, np.broadcast_to(f, (bank, *f.shape)))[..., 0]
    log_r = -0.5 * solved @ f[:, 0] - 0.5 * np.linalg.slogdet(sigma)[1]
    r = np.exp(log_r - log_r.max())
    return -(r / r.sum()) @ solved


@pytest.mark.parametrize(
    ("points", "values"), [([[2.0]], [[4.0]]), ([[-1.0], [2.0]], [[2.5], [-2.0]])], ids=["one point", "two points"]
)
def test_a_narrow_network_has_the_score_of_its_mixture(points, values, key):
    network = mlp((1, 4, 1))
    x, f, jitter = jnp.asarray(points), jnp.asarray(values), 0.05
    exact = mixture_score(key, network, f, x, jitter)
    ours = long_run_score(key, network, width_aware(network, jitter=jitter), f, x, settle=1000, average=4000)[:, 0]
    gaussian = jax.jit(nngp(network, jitter=jitter).score)(key, f[None], x)[0, :, 0]
    # 100 chains of 4000 steps, correlated over some hundreds, are about 1000 draws: 1 to 2 %
    assert relative_error(ours, exact) < 0.06
    assert relative_error(gaussian, exact) > 0.2


@pytest.mark.slow
def test_a_wide_network_has_the_score_of_nngp(key):
    x = jnp.asarray([[-1.0, 0.5], [0.3, -1.2], [1.5, 1.0]])
    f = jnp.asarray([[0.5], [-1.0], [1.5]])
    copies = jnp.broadcast_to(f, (COPIES, *f.shape))
    errors = []
    for width in (5, 500):
        network = mlp((2, width, 1))
        ours = jax.jit(width_aware(network, jitter=0.01).score)(key, copies, x).mean(0)
        errors.append(relative_error(ours, jax.jit(nngp(network, jitter=0.01).score)(key, f[None], x)[0]))
    # hidden layers of 500 units shake Σ by √(1/500) = 4 %; the mean over chains leaves the curvature, of that squared
    assert errors[1] < 0.05
    assert errors[0] > 3 * errors[1]


def test_the_auxiliaries_of_a_step_follow_from_those_before(key):
    """The carry is what makes the average over steps: a step from a settled carry is not one from a fresh one."""
    network = mlp((1, 4, 1))
    prior = width_aware(network)
    x, f = jnp.asarray([[0.5], [1.0]]), jnp.ones((3, 2, 1))
    advance = jax.jit(prior.advance)
    fresh = prior.init(key, sample_prior(key, network, 3))
    first, carry = advance(key, fresh, f, x)
    second, _ = advance(key, carry, f, x)
    assert not jnp.array_equal(first, second)
    # one move of .01 changes little
    assert relative_error(second, first) < 0.2


@pytest.mark.parametrize("size", [1.0, 100.0])
def test_large_features_of_few_units_keep_the_jitter(size, key):
    """4 units at 12 points: ΦΦᵀ is singular, and at 100 times the size its rounding in float32 is larger than ε.

    The score of a step is −Σ_Φ⁻¹ f; f is of the span of Φ, as the outputs of the network itself would be.
    """
    network, jitter = mlp((1, 4, 1)), 1e-3
    x = jnp.linspace(-2, 2, 12)[:, None]
    theta = jax.tree.map(lambda leaf: size * leaf, sample_prior(key, network, 1))
    w, b = np.asarray(theta.weights[0][0], np.float64), np.asarray(theta.biases[0][0], np.float64)
    phi = np.maximum(np.asarray(x, np.float64) @ w + b, 0)
    f = jnp.asarray(phi @ [1.0, -0.5, 0.3, 0.7] / size, jnp.float32)
    prior = width_aware(network, jitter=jitter)
    score, _ = jax.jit(prior.advance)(key, prior.init(key, theta), f[None, :, None], x)
    exact = -np.linalg.solve(phi @ phi.T / 4 + 1 + jitter * np.eye(12), np.asarray(f, np.float64))
    assert jnp.all(jnp.isfinite(score))
    # f itself is rounded to float32, 1e-7, and what is not of the span is divided by ε
    np.testing.assert_allclose(np.asarray(score)[0, :, 0], exact, atol=2e-3)
