# SPDX-License-Identifier: Apache-2.0
"""The flows and kernels of the experiments are the paper's, whatever the library's defaults are."""

import jax
import jax.numpy as jnp
import numpy as np

from fpovi.experiments.paper_parts import PAPER_FLOWS, PAPER_KERNELS, median_rbf
from fpovi.flows import FLOWS, repulsion


def test_every_flow_of_the_library_has_the_papers_settings():
    assert PAPER_FLOWS.keys() == FLOWS.keys()


def test_gfsf_has_no_ridge(key, x64):
    """The definition: the score plus K⁻¹ times the repulsion, with nothing added to K."""
    f, score = jax.random.normal(key, (2, 6, 3), "float64")
    kernel = median_rbf().at(f)
    expected = score + np.linalg.solve(kernel(f, f), repulsion(f, kernel))
    np.testing.assert_allclose(PAPER_FLOWS["gfsf"](f, score, kernel), expected, rtol=1e-9)  # float64


def test_the_lengthscale_is_the_median_heuristics(key):
    """ℓ² = median(d²)/(2 log(n + 1)) over the whole matrix, times the square of the factor."""
    f = jax.random.normal(key, (6, 3))
    squared = np.median(np.sum((np.asarray(f)[:, None] - np.asarray(f)[None]) ** 2, axis=-1)) / (2 * np.log(7))
    for factor in (1.0, 2.0):
        np.testing.assert_allclose(median_rbf(factor).at(f).lengthscale, factor * squared**0.5, rtol=1e-5)  # float32
    bases = [PAPER_KERNELS["rbf"], PAPER_KERNELS["function_value"].base, PAPER_KERNELS["activation"].base]
    for base in bases:
        np.testing.assert_allclose(base.at(f).lengthscale, squared**0.5, rtol=1e-5)  # float32
    assert jnp.ndim(bases[0].at(f).lengthscale) == 0
