# SPDX-License-Identifier: Apache-2.0
"""Every flow against its formula, and what all flows have in common."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fpovi.flows import FLOWS, gfsf, repulsion
from fpovi.kernels import imq, rbf
from support.scenarios import correlated_gaussian

REPULSIVE = sorted(set(FLOWS) - {"ensemble"})
LENGTHSCALE = 1.3


def gaussian(a, b):
    return np.exp(-np.sum((a - b) ** 2) / (2 * LENGTHSCALE**2))


def gaussian_gradient(a, b):
    """∂/∂b of the Gaussian kernel."""
    return gaussian(a, b) * (a - b) / LENGTHSCALE**2


def multiquadric(a, b):
    return (1 + np.sum((a - b) ** 2) / (2 * LENGTHSCALE**2)) ** -0.5


def multiquadric_gradient(a, b):
    return multiquadric(a, b) ** 3 * (a - b) / (2 * LENGTHSCALE**2)


KERNELS = {
    "rbf": (rbf(LENGTHSCALE), gaussian, gaussian_gradient),
    "imq": (imq(LENGTHSCALE), multiquadric, multiquadric_gradient),
}


def velocity(name, f, score, kernel):
    """The flow, compiled: operation by operation it would take seconds."""
    return jax.jit(lambda f, score: FLOWS[name](f, score, kernel))(f, score)


def naive(name, f, s, k, dk):
    """The formula in the flow's docstring, by loops."""
    n = len(f)
    gram = np.array([[k(f[i], f[j]) for j in range(n)] for i in range(n)])
    out = np.zeros_like(f)
    for i in range(n):
        if name in ("svgd", "pi_sgld"):
            for j in range(n):
                out[i] += (gram[i, j] * s[j] + dk(f[i], f[j])) / n
        if name in ("w_sgld_b", "pi_sgld"):
            out[i] += s[i]
            for j in range(n):
                out[i] += dk(f[i], f[j]) / gram[j].sum() + dk(f[i], f[j]) / gram[i].sum()
        if name == "gfsf":
            out[i] += s[i]
            inverse = np.linalg.inv(gram + 1e-3 * np.eye(n))  # the default ridge
            for j in range(n):
                for m in range(n):
                    out[i] += inverse[i, j] * dk(f[j], f[m])
        if name == "ensemble":
            out[i] += s[i]
    return out


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", FLOWS)
def test_flow_is_its_formula(name, kernel, x64):
    rng = np.random.default_rng(0)
    f, score = rng.normal(size=(2, 6, 3))
    ours, k, dk = KERNELS[kernel]
    expected = naive(name, f, score, k, dk)
    # float64 throughout; the 6×6 inverse of gfsf loses the most digits
    np.testing.assert_allclose(velocity(name, jnp.asarray(f), jnp.asarray(score), ours), expected, rtol=1e-8, atol=1e-8)


def test_gfsf_ridge_is_added_to_the_gram_matrix(x64):
    rng = np.random.default_rng(0)
    f, score = (jnp.asarray(a) for a in rng.normal(size=(2, 5, 2)))
    kernel = rbf(LENGTHSCALE)
    gram = np.asarray(kernel(f, f))
    expected = score + np.linalg.solve(gram + 0.1 * np.eye(5), np.asarray(repulsion(f, kernel)))
    np.testing.assert_allclose(gfsf(f, score, kernel, ridge=0.1), expected, rtol=1e-10)


@pytest.mark.parametrize("name", FLOWS)
def test_one_particle_moves_by_its_score(name, key):
    f, score = jax.random.normal(key, (2, 1, 4))
    factor = 2 if name == "pi_sgld" else 1
    # exact but for the rounding of float32
    np.testing.assert_allclose(velocity(name, f, score, rbf()), factor * score, rtol=1e-6)


@pytest.mark.parametrize("name", FLOWS)
def test_a_flow_is_affine_in_the_score(name, key):
    """The engine scales the repulsion by what is left without a score."""
    f, first, second = jax.random.normal(key, (3, 5, 3))
    middle = velocity(name, f, (first + second) / 2, rbf())
    halves = (velocity(name, f, first, rbf()) + velocity(name, f, second, rbf())) / 2
    # sums in another order: a few units in the last place of float32
    np.testing.assert_allclose(middle, halves, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", FLOWS)
def test_translation_changes_nothing(name, key):
    f, score = jax.random.normal(key, (2, 5, 3))
    moved = velocity(name, f + 10.0, score, rbf())
    # a shift by 10 costs about one decimal of float32
    np.testing.assert_allclose(moved, velocity(name, f, score, rbf()), rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("name", FLOWS)
def test_permuted_particles_have_permuted_velocities(name, key):
    f, score = jax.random.normal(key, (2, 5, 3))
    order = jnp.asarray([3, 1, 4, 0, 2])
    permuted = velocity(name, f[order], score[order], rbf())
    # sums in another order: a few units in the last place of float32, times the condition of gfsf's matrix
    np.testing.assert_allclose(permuted, velocity(name, f, score, rbf())[order], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", REPULSIVE)
def test_without_a_score_two_particles_part(name):
    f = jnp.asarray([[-0.1, 0.0], [0.1, 0.0]])
    push = velocity(name, f, jnp.zeros_like(f), rbf(1.0))
    assert push[0, 0] < 0 < push[1, 0]


@pytest.mark.parametrize("name", REPULSIVE)
def test_a_gaussian_is_recovered(name, key):
    target = correlated_gaussian()
    flow = FLOWS[name]

    @jax.jit
    def settle(f):
        def step(_, f):
            kernel = rbf().at(f)
            return f + 0.05 * flow(f, target.score(f), kernel)

        return jax.lax.fori_loop(0, 2000, step, f)

    f = settle(jax.random.normal(key, (100, 2)))
    # the mean is exact by symmetry; 100 particles under the median heuristic hold the variance to about 15 %
    # (w_sgld_b and pi_sgld to 30 %: the blob approximation smooths the density it repels from)
    np.testing.assert_allclose(f.mean(0), target.mean, atol=0.08)
    tolerance = 0.15 if name in ("svgd", "gfsf") else 0.3
    np.testing.assert_allclose(jnp.cov(f.T), target.covariance, atol=tolerance)


def test_repulsion_of_any_callable_is_the_derivative_in_the_second_argument(x64):
    """A kernel that is not stationary, where the derivative in the first argument would be something else."""

    def kernel(a, b):
        return (1 + a @ b.T) ** 2 * jnp.exp(-jnp.sum(b**2, axis=1))

    f = jnp.asarray(np.random.default_rng(0).normal(size=(4, 2)))
    pair = lambda a, b: kernel(a[None], b[None])[0, 0]  # noqa: E731
    expected = [sum(jax.grad(pair, argnums=1)(f[i], f[j]) for j in range(4)) for i in range(4)]
    np.testing.assert_allclose(repulsion(f, kernel), jnp.stack(expected), rtol=1e-12)


@pytest.mark.parametrize("make", [rbf, imq])
def test_shortcut_repulsion_equals_the_general_one(make, key, x64):
    f = jax.random.normal(key, (5, 3))
    kernel, weight = make(0.7), jnp.arange(1.0, 6.0)
    general = repulsion(f, lambda a, b: kernel(a, b), weight)
    np.testing.assert_allclose(repulsion(f, kernel, weight), general, rtol=1e-10)
