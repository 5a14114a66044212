# SPDX-License-Identifier: Apache-2.0
"""Predictive mixtures with known answers, and their methods compiled, shared by the tests."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from fpovi.inference import weight_space
from fpovi.likelihoods import LIKELIHOODS, gaussian
from fpovi.networks import mlp
from fpovi.predictive import Predictive

PARTICLES, ROWS = 4, 3
# one object each: quantiles are compiled per likelihood object
MADE = {name: make() for name, make in LIKELIHOODS.items()} | {"gaussian": gaussian(floor=0.0)}

log_prob = jax.jit(lambda p, y: p.log_prob(y))
cdf = jax.jit(lambda p, y: p.cdf(y))
mean_and_std = jax.jit(lambda p: (p.mean, p.std))
sample = jax.jit(lambda p, key, n: p.sample(key, n), static_argnums=2)


def predictive(likelihood, f, params=(), shift=0.0, scale=1.0):
    f = jnp.asarray(f, jnp.float32)
    params = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), params)
    return Predictive(likelihood, f, params, jnp.asarray(shift, jnp.float32), jnp.asarray(scale, jnp.float32))


def values(targets=1, particles=PARTICLES):
    """Return function values that float32 holds exactly, so that numpy and jax start from the same numbers."""
    return np.random.default_rng(0).normal(size=(particles, ROWS, targets)).astype(np.float32).astype(float)


def mixture(targets=1, shift=0.0, scale=1.0):
    """Return a Gaussian mixture, a noise scale per particle, and the same as scipy's normals ``(n, B, m)``."""
    f, rho = values(targets), np.array([-2.0, -1.0, 0.0, 1.0])
    noise = np.log1p(np.exp(rho))[:, None, None]
    twin = stats.norm(shift + scale * f, scale * noise)
    return predictive(MADE["gaussian"], f, rho, shift, scale), twin


def fitted(key, likelihood, outputs=1):
    network = mlp((2, 3, outputs))
    return network, weight_space(network, likelihood).init(key, PARTICLES)
