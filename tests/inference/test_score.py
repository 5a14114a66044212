# SPDX-License-Identifier: Apache-2.0
"""Where the prior is felt. What becomes of the scores is tested where they are used, in ``test_inference.py``."""

import jax.numpy as jnp
import numpy as np
import pytest

from fpovi.inference.score import prior_points


@pytest.mark.parametrize(("labelled", "extra"), [(1, 20), (3, 100), (20, 1), (20, 0), (8, 8)])
def test_as_many_points_feel_the_prior_as_asked(labelled, extra, key):
    chosen = np.asarray(prior_points(key, jnp.ones((labelled, 1)), labelled + extra, 16))
    assert len(np.unique(chosen)) == min(16, labelled + extra)


def test_padding_feels_the_prior_last(key):
    weight = jnp.zeros((20, 1)).at[jnp.asarray([3, 5, 11])].set(1.0)
    assert set(np.asarray(prior_points(key, weight, 40, 6))[:3].tolist()) == {3, 5, 11}
