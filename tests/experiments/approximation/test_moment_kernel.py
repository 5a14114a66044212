# SPDX-License-Identifier: Apache-2.0
"""The linear kernel in the particles' own coordinates, against the definition and the moments of a normal."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fpovi.experiments.approximation.versions import MomentKernel
from fpovi.flows import repulsion, svgd

PRECISION = np.array([[2.0, 0.6, 0.0], [0.6, 1.0, -0.3], [0.0, -0.3, 5.0]])
MEAN = np.array([1.0, -2.0, 0.5])


def particles(n=12):
    return jnp.asarray(np.random.default_rng(0).normal(size=(n, 3)) @ np.diag([3.0, 0.2, 1.0]))


def score(f):
    return -(f - MEAN) @ PRECISION


def test_the_push_is_that_of_the_definition(x64):
    f, weight = particles(), jnp.linspace(0.5, 2, 12)
    kernel = MomentKernel().at(f)
    by_differentiating = repulsion(f, lambda a, b: kernel(a, b), weight)
    np.testing.assert_allclose(kernel.repulsion(f, weight), by_differentiating, rtol=1e-10, atol=1e-12)


def test_the_velocity_is_that_of_a_normal_in_wasserstein_space(x64):
    """The score less that of a normal with the particles' moments; the covariance has n − 1 where SVGD's mean has n."""
    f = particles(12)
    centred = f - f.mean(axis=0)
    expected = score(f).mean(axis=0) + centred @ jnp.linalg.inv(jnp.cov(f.T)) - 11 / 12 * centred @ PRECISION
    np.testing.assert_allclose(svgd(f, score(f), MomentKernel().at(f)), expected, rtol=1e-9, atol=1e-11)


def test_svgd_finds_both_moments_of_a_normal_with_few_particles(x64):
    """To rounding: ten particles in three dimensions."""
    step = jax.jit(lambda f: f + 0.02 * svgd(f, score(f), MomentKernel().at(f)))
    f = jax.lax.fori_loop(0, 4000, lambda _, f: step(f), particles(10))
    np.testing.assert_allclose(f.mean(axis=0), MEAN, atol=1e-9)
    np.testing.assert_allclose(np.cov(f.T, bias=True), np.linalg.inv(PRECISION), atol=1e-9)


def test_one_value_will_do(x64):
    f = particles()[:, :1]
    np.testing.assert_allclose(MomentKernel()(f, f), 1 + (f - f.mean()) * (f - f.mean()).T / np.var(f, ddof=1))


def test_fewer_particles_than_dimensions_have_no_such_coordinates():
    with pytest.raises(ValueError, match="3 particles are compared at 3 values: MomentKernel needs more particles"):
        MomentKernel().at(particles(3))
