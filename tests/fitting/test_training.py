# SPDX-License-Identifier: Apache-2.0
"""The loop of a fit: how often it looks, when it ends, and which state it returns."""

import jax
import numpy as np
import optax

from fpovi.fitting.training import train
from fpovi.inference import weight_space
from fpovi.inference.batches import make_batch
from fpovi.likelihoods import gaussian
from fpovi.networks import mlp
from support.small_fits import plane

NETWORK = mlp((2, 4, 1))
SCORES = [3.0, 1.0, 2.0, 1.5, 4.0]  # of looks, the lower the better


def looks(key, checkpoint=None, **options):
    """Train with scores that are known beforehand; return what is left, and the steps of all looks."""
    algorithm = weight_space(NETWORK, gaussian(0.1), optimiser=optax.sgd(1e-4))
    data = make_batch(*(np.asarray(part, np.float32) for part in plane()))
    seen = []

    def validate(state):
        seen.append(int(state.step))
        return SCORES[int(state.step) // 10 - 1]

    start = algorithm.init(key, 3)
    done = train(
        key, algorithm, start, data, 50, batch_size=8, validate=validate, every=10, checkpoint=checkpoint, **options
    )
    return done, seen


def test_the_best_of_all_looks_is_returned_without_patience(key):
    done, seen = looks(key, patience=None)
    assert seen == [10, 20, 30, 40, 50]
    assert int(done.state.step) == 20
    np.testing.assert_array_equal(done.scores, SCORES)
    assert done.history.finite.shape == (50,)


def test_patience_ends_the_looks(key):
    done, seen = looks(key, patience=2)
    assert seen == [10, 20, 30, 40]
    assert int(done.state.step) == 20


def test_only_what_predicts_is_kept_of_the_best_state(key):
    done, _ = looks(key, patience=None)
    assert done.state.optimiser == ()
    assert jax.tree.leaves(done.state.particles)[0].shape[0] == 3
