# SPDX-License-Identifier: Apache-2.0
"""Digits on a few images and steps: what every method returns, and what a row says."""

import numpy as np
import pytest

from fpovi.experiments.harness.experiment import Options
from fpovi.experiments.harness.store import Cell, Row
from fpovi.experiments.harness.view import markdown
from fpovi.experiments.images import mnist, training
from fpovi.experiments.images.methods import DRAWS
from fpovi.inference.batches import make_batch

pytestmark = pytest.mark.usefixtures("loose_dtypes")  # optax mixes whole and real numbers
RANDOM = np.random.default_rng(0)


def a_few_images(rows=300):
    """Two classes that a pixel tells apart, and one epoch of them."""
    x = RANDOM.normal(size=(rows, 784)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int32)
    return training.Images(make_batch(x, y), x[:50], y[:50], x[:70], y[:70], 0.0)


@pytest.mark.parametrize("name", mnist.METHODS)
def test_every_method_trains_and_predicts(name):
    images, method, seen = a_few_images(), mnist.METHODS[name], []
    task = training.ImageTask(0, images, epochs=2, epochs_per_look=1)
    found = training.train_images(task, method, lambda done, total, score: seen.append((done, total)))
    assert seen == [(3, 6), (6, 6)]
    f = training.log_probs(method.network(), found.particles, found.network_state, images.x_test)
    assert f.shape[1:] == (70, 10)
    assert f.shape[0] in (1, mnist.PARTICLES, DRAWS)
    np.testing.assert_allclose(np.exp(f).sum(axis=2), 1, rtol=1e-5)  # float32
    scores = training.class_scores(f, images.y_test)
    assert found.epoch in (1, 2)
    assert 0 <= scores["error"] <= scores["single_error"] + 0.2
    assert found.valid_nll > 0


def test_the_epoch_is_the_one_that_held_out_images_prefer():
    images = a_few_images()
    task = training.ImageTask(0, images, epochs=3, epochs_per_look=1)
    seen = []
    found = training.train_images(task, mnist.METHODS["map"], lambda done, total, score: seen.append(score))
    assert found.valid_nll == min(seen)
    assert found.epoch == int(np.argmin(seen)) + 1


def test_presets_have_every_seed_and_a_user_may_choose_one():
    assert len(mnist.cells(Options("paper"))) == 3 * len(mnist.AS_IN_PAPER)
    chosen = mnist.cells(Options("paper", seed=7, datasets=("fashion-mnist",), methods=("map",)))
    assert chosen == [Cell("mnist", "map", "fashion-mnist", 0, 7, "paper")]


def test_the_table_has_means_over_seeds_and_published_errors():
    rows = [
        Row(
            Cell("mnist", method, "mnist", 0, seed, "paper"),
            {"error": error + seed / 1e4, "nll": 0.05, "ece": 0.01},
            60.0,
            {},
        )
        for method, error in (("f-svgd", 0.0120), ("map", 0.0150))
        for seed in range(3)
    ]
    table = markdown(mnist.view(rows)).splitlines()
    assert "**1.210 ± 0.006**" in table[2]
    assert "| 1.21 |" in table[2]
    assert "1.510 ± 0.006" in table[3]


def test_a_candidate_reads_no_test_image(monkeypatch):
    images = a_few_images()
    monkeypatch.setattr(mnist, "prepare", lambda *args, **options: images._replace(x_test=None, y_test=None))
    cell = Cell("mnist", "map rate=0.001 spread=10", "mnist", 0, 0, "tuning")
    metrics = mnist.run_cell(cell)
    assert set(metrics) == {"epoch", "valid_nll"}
    assert "map rate=0.001 spread=10" in markdown(mnist.view([Row(cell, metrics, 1.0, {})]))


def test_what_was_chosen_is_a_candidate():
    for name, grid in mnist.GRID.items():
        for setting, value in mnist.CHOSEN[name].items():
            assert value in grid.get(setting, (value,)), (name, setting)
