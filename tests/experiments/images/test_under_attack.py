# SPDX-License-Identifier: Apache-2.0
"""Attacks on classifiers whose weakest direction is known, and the ensemble that others are attacked through."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fpovi.experiments.harness.store import Store
from fpovi.experiments.images import training
from fpovi.experiments.images.methods import falling_adam, fan_out_mlp, weight_method
from fpovi.experiments.images.under_attack import (
    Attacked,
    accuracy_in_ball,
    is_right,
    plain_source,
    radius_curves,
    targeted_curves,
)
from fpovi.experiments.paper_parts import PAPER_FLOWS, median_rbf
from fpovi.inference.batches import make_batch
from fpovi.networks import MLP, mlp
from fpovi.robustness import LogProbs

pytestmark = pytest.mark.usefixtures("loose_dtypes")  # optax mixes whole and real numbers
RNG = np.random.default_rng(0)
FEATURES, RADIUS = 5, 0.1
NETWORK = mlp((FEATURES, 2))
WEIGHT = RNG.normal(size=(FEATURES, 2)).astype(np.float32)
X = RNG.uniform(-1, 1, size=(40, FEATURES)).astype(np.float32)


def linear(scale=1.0):
    """Two classes told apart by a plane; the larger the scale, the surer."""
    theta = MLP((jnp.asarray(scale * WEIGHT),), (jnp.zeros(2),))
    return LogProbs(NETWORK, jax.tree.map(lambda leaf: leaf[None], theta))


def case(scale=1.0, wrong=4):
    model = linear(scale)
    y = np.argmax(X @ WEIGHT, axis=1)
    y[:wrong] = 1 - y[:wrong]
    return Attacked(model, model, X, y, -2.0, 2.0)


# float32 has no gradient of the mean probability left where the margin is some hundreds
@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_rows_stand_that_are_farther_from_the_plane_than_the_ball_reaches(scale):
    difference = WEIGHT[:, 1] - WEIGHT[:, 0]
    distance = np.abs(X @ difference) / np.abs(difference).sum()  # in the maximum norm
    standing = (distance > RADIUS) & (np.arange(len(X)) >= 4)
    assert 5 < standing.sum() < 35
    assert accuracy_in_ball(case(scale), RADIUS, steps=10, restarts=2) == standing.mean()


def test_a_large_ball_leaves_nothing():
    assert accuracy_in_ball(case(), 2.0, steps=10, restarts=1) == 0


def test_curves_begin_with_images_as_they_are_and_fall_to_nothing():
    found = radius_curves(case(), linear(), (0.01, RADIUS, 2.0))
    assert set(found) == {"own", "mean_log", "transfer"}
    for curve in found.values():
        assert curve["accuracy"][0] == pytest.approx(0.9)
        assert curve["accuracy"][-1] <= curve["accuracy"][2] <= curve["accuracy"][1] <= 0.9
    # away from what is predicted, rows that were wrong become right; away from the label they do not
    assert found["own"]["accuracy"][-1] == pytest.approx(0.1)
    assert found["transfer"]["accuracy"][-1] == 0


def test_steps_towards_a_class_are_as_many_as_asked():
    found = targeted_curves(case(), linear(), target=0, step=0.2, steps=12)
    y = case().y
    for curve in found.values():
        assert len(curve["accuracy"]) == len(curve["entropy"]) == 13
        assert curve["accuracy"][-1] == pytest.approx(np.mean(y == 0))


def test_the_ensemble_s_class_is_that_of_the_mean_probability():
    f = np.log([[[0.9, 0.1]], [[0.4, 0.6]], [[0.4, 0.6]]])
    assert is_right(f, np.asarray([0])).tolist() == [True]


def test_the_source_is_trained_once(tmp_path):
    images = training.Images(make_batch(X, (X[:, 0] > 0).astype(np.int32)), X[:9], (X[:9, 0] > 0) * 1, X, None, 0.0)
    task = training.ImageTask(1000, images, 2, 20)
    rate = partial(falling_adam, rate=1e-2)
    plain = weight_method(partial(fan_out_mlp, (FEATURES, 3, 2)), PAPER_FLOWS["ensemble"], median_rbf(), 3, rate)
    store = Store(tmp_path / "rows" / "cifar.jsonl")
    first = plain_source(task, plain, "a preset", store)
    (kept,) = store.path.parent.iterdir()
    written = kept.stat().st_mtime_ns
    again = plain_source(task, plain, "a preset", store)
    assert kept.stat().st_mtime_ns == written
    jax.tree.map(np.testing.assert_array_equal, first.particles, again.particles)
    plain_source(task, plain, "another", store)
    assert len(list(store.path.parent.iterdir())) == 2
    jax.tree.map(np.testing.assert_array_equal, plain_source(task, plain, "", None).particles, first.particles)
