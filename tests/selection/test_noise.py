# SPDX-License-Identifier: Apache-2.0
"""The noise of most evidence."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fpovi.networks import fan_in_scales
from fpovi.selection import evident_noise, log_evidence
from fpovi.selection.noise import CANDIDATES
from fpovi.types import Architecture

SIZES = (2, 10, 1)


def drawn(noise, rows=150):
    """Data from the prior itself."""
    rng = np.random.default_rng(0)
    x, weight = rng.normal(size=(rows, 2)), rng.integers(1, 4, rows).astype(float)
    architecture = Architecture(SIZES, jax.nn.relu, fan_in_scales(SIZES))
    with jax.enable_x64(True):
        from fpovi.priors import nngp_covariance

        covariance = np.asarray(jax.jit(nngp_covariance(architecture))(x, x))
    f = rng.multivariate_normal(np.zeros(rows), covariance, method="eigh")
    return architecture, x, (f + noise * rng.normal(size=rows) / np.sqrt(weight))[:, None], weight


@pytest.mark.parametrize("noise", [0.03, 0.5])
def test_the_noise_of_data_from_the_prior_is_found(noise, key):
    found = evident_noise(key, *drawn(noise))
    assert found == pytest.approx(noise, rel=0.3)  # 150 rows know a scale to 6 %, candidates are 14 % apart


def test_it_is_the_best_of_all_candidates(key):
    """As the evidence, computed by Cholesky factors, has it."""
    architecture, x, y, weight = drawn(0.1, rows=40)
    found = evident_noise(key, architecture, x, y, weight)
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda a: jnp.asarray(np.asarray(a, float)), architecture.scales)
        rows = [jnp.asarray(a) for a in (x, y, weight[:, None])]
        at = lambda s: log_evidence(architecture._replace(scales=wide._replace(noise=s)), *rows)  # noqa: E731
        assert found == CANDIDATES[np.argmax(jax.jit(jax.vmap(at))(CANDIDATES))]


def test_many_rows_are_sampled(key):
    architecture, x, y, weight = drawn(0.3)
    repeated = [np.concatenate([a] * 10) for a in (x, y, weight)]
    assert evident_noise(key, architecture, *repeated, max_rows=100) < 0.6
