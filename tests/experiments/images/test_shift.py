# SPDX-License-Identifier: Apache-2.0
"""Shifted images on a few images and steps: what a row, the table and the figure say."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fpovi.experiments.harness.experiment import Options
from fpovi.experiments.harness.store import Cell, Row
from fpovi.experiments.harness.view import markdown
from fpovi.experiments.images import shift, training
from fpovi.inference.batches import make_batch
from fpovi.inference.particles import num_particles

pytestmark = pytest.mark.usefixtures("loose_dtypes")  # optax mixes whole and real numbers
MEAN = 0.25


def some_images(flat):
    """Two classes: the left or the right half of an image is bright."""
    rng, rows = np.random.default_rng(0), 40
    y = rng.integers(0, 2, rows).astype(np.int32)
    x = np.float32(0.1) * rng.random((rows, 28, 28, 1), np.float32)
    for image, label in zip(x, y, strict=True):
        image[:, 14 * label : 14 * label + 14] += np.float32(0.8)
    x = (x.reshape(rows, -1) if flat else x) - np.float32(MEAN)
    return training.Images(make_batch(x, y), x[:20], y[:20], x[20:], y[20:], MEAN)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(shift, "prepare", lambda name, rows, flat: some_images(flat))
    monkeypatch.setattr(shift, "SIZES", (784, 8, 10))
    monkeypatch.setattr(shift, "PRIOR_DRAWS", 3)
    monkeypatch.setattr(shift, "PRIOR_POINTS", 4)
    monkeypatch.setattr(shift, "PARTICLES", 2)
    monkeypatch.setitem(shift.PRESETS, "full", shift.Preset(1, 2, None, None, tuple(shift.LABELS)))
    shift.method.cache_clear()
    yield
    shift.method.cache_clear()


@pytest.mark.parametrize("name", ["lenet-f-gfsf", "mc-dropout"])
def test_a_row_has_a_curve_for_every_shift(name, small):
    metrics = shift.run_cell(Cell("shift", name, "mnist", 0, 0, "full"))
    assert {"error", "nll", "ece", "epoch", "valid_nll"} <= set(metrics)
    assert set(metrics["curves"]) == set(shift.SHIFTS)
    for curves in metrics["curves"].values():
        assert [len(curve) for curve in curves.values()] == [6, 6, 6]
        assert all(0 <= value <= 1 for value in curves["accuracy"])
    first = [curves["nll"][0] for curves in metrics["curves"].values()]
    assert len(set(first)) == 1  # at severity 0 all are the images as they are


def test_shifts_are_of_pixels_and_networks_see_their_own_units():
    images = some_images(flat=True)
    x, y = shift._moved(images, "rotation", 0, 15)
    np.testing.assert_allclose(x, images.x_test[:15], atol=1e-7)  # added and taken away again
    assert y.shape == (15,)
    turned, _ = shift._moved(images, "rotation", 3, None)
    assert turned.shape == (20, 784)
    np.testing.assert_allclose(turned.reshape(-1, 28, 28)[:, 0, 0], -MEAN, atol=1e-6)  # corners are black


@pytest.mark.parametrize("name", shift.LABELS)
def test_every_method_has_an_algorithm(name):
    made = shift.method(name)
    algorithm = made.algorithm(jnp.zeros((3, 784)), 5).algorithm
    state = jax.eval_shape(lambda key: algorithm.init(key, made.members), jax.random.key(0))
    assert num_particles(state.particles) == (1 if name.endswith(("map", "dropout")) else 5)


def test_presets_have_both_sets_and_both_networks():
    assert len(shift.cells(Options("full"))) == 3 * 2 * 8
    assert {cell.method.startswith("lenet") for cell in shift.cells(Options("quick"))} == {True, False}


def test_the_table_has_means_over_severities_and_the_figure_all_curves():
    curves = {
        "accuracy": [1.0, 0.9, 0.8, 0.7, 0.6, 0.5],
        "nll": [0.0, 1, 2, 3, 4, 5],
        "ece": [0.0, 0.1, 0.1, 0.1, 0.1, 0.1],
    }
    metrics = {"error": 0.02, "nll": 0.06, "ece": 0.01, "curves": dict.fromkeys(shift.SHIFTS, curves)}
    rows = [
        Row(Cell("shift", name, dataset, 0, 0, "full"), metrics, 60.0, {})
        for dataset in shift.DATASETS
        for name in ("map", "lenet-map")
    ]
    table = markdown(shift.view(rows)).splitlines()
    assert "LeNet, MAP" in table[3]
    values = [text.strip(" *") for text in table[2].split("|")]
    assert values[6:9] == ["0.7", "3", "0.1"]
    figure = shift.EXPERIMENTS["shift"].figure(rows)
    assert len(figure.axes) == 3 * 2 * len(shift.SHIFTS)
    assert [line.get_label() for line in figure.axes[0].lines] == ["MAP", "LeNet, MAP"]
    np.testing.assert_array_equal(figure.axes[0].lines[0].get_ydata(), curves["accuracy"])
