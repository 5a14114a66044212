# SPDX-License-Identifier: Apache-2.0
"""Ensembles of linear classifiers, whose gradients are known, as JAX attacks them and as float64 has them."""

import jax
import jax.numpy as jnp
import numpy as np

PARTICLES, FEATURES, CLASSES, ROWS = 3, 5, 4, 10


def weights(particles=PARTICLES, seed=0):
    """Return weights (n, d, k) that float32 holds exactly."""
    drawn = np.random.default_rng(seed).normal(size=(particles, FEATURES, CLASSES))
    return drawn.astype(np.float32).astype(float)


def rows(seed=1):
    """Return inputs between 0 and 1, and labels."""
    rng = np.random.default_rng(seed)
    return rng.uniform(0.2, 0.8, (ROWS, FEATURES)).astype(np.float32), rng.integers(0, CLASSES, ROWS)


def linear(weight, x):
    return jax.nn.log_softmax(jnp.einsum("bd,ndk->nbk", x, weight))


def log_probs(weight):
    """Return the ensemble as a function of x, its weights arguments of compiled programs."""
    return jax.tree_util.Partial(linear, jnp.asarray(weight, jnp.float32))


def probs(weight, x):
    """Return probabilities (n, k) at one input, in float64."""
    logits = np.asarray(x, float) @ weight
    each = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return each / each.sum(axis=-1, keepdims=True)


def gradient(weight, x, label, loss):
    """Return the gradient of a loss at one input, from the formulas and class by class."""
    p = probs(weight, x)
    n, _, k = weight.shape
    # of p_i(c): p_i(c) (w_ic − Σ_j p_i(j) w_ij)
    of_prob = np.array([[p[i, c] * (weight[i, :, c] - weight[i] @ p[i]) for c in range(k)] for i in range(n)])
    mean = p.mean(axis=0)
    of_log_mean = np.array([of_prob[:, c].mean(axis=0) / mean[c] for c in range(k)])
    if loss == "mean_probability":
        return -of_log_mean[label]
    if loss == "mean_log":
        return -np.mean([of_prob[i, label] / p[i, label] for i in range(n)], axis=0)
    others = [c for c in range(k) if c != label]
    best = max(others, key=lambda c: mean[c])
    return of_log_mean[best] - of_log_mean[label]
