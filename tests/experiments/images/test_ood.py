# SPDX-License-Identifier: Apache-2.0
"""Images of another set, on a few images and steps: extra points, pools, and what a row says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fpovi.experiments.harness.experiment import Options
from fpovi.experiments.harness.store import Cell, Row
from fpovi.experiments.harness.view import markdown
from fpovi.experiments.images import ood, training
from fpovi.inference.batches import make_batch

pytestmark = pytest.mark.usefixtures("loose_dtypes")  # optax mixes whole and real numbers
ROWS, SHIFT = 60, 0.25


def some_images(seed=0):
    """Two classes told apart by which half of an image is bright."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, ROWS).astype(np.int32)
    x = np.float32(0.2) * rng.random((ROWS, 784), np.float32)
    x[np.arange(ROWS)[:, None], 392 * y[:, None] + np.arange(392)] += np.float32(0.7)
    x -= np.float32(SHIFT)
    return training.Images(make_batch(x, y), x[:30], y[:30], x[30:], y[30:], SHIFT)


@pytest.fixture
def small(monkeypatch):
    """A cell takes a second: networks of four units, a few images of either set, four extra points."""
    monkeypatch.setattr(ood, "prepare", lambda name, *args, **options: some_images(len(name)))
    monkeypatch.setattr(ood, "grey_photographs", lambda: np.full((9, 28, 28, 1), 0.5, np.float32))
    monkeypatch.setattr(ood, "SIZES", (784, 4, 10))
    monkeypatch.setitem(ood.PRESETS, "full", ood.Preset(1, 2, None, tuple(ood.LABELS)))
    ood.method.cache_clear()
    yield
    ood.method.cache_clear()


@pytest.mark.parametrize("name", ["ensemble", "f-mixed", "f-unlabelled"])
def test_a_row_says_how_both_kinds_of_images_are_told(name, small):
    metrics = ood.run_cell(Cell("ood", name, "mnist", 0, 0, "full"))
    assert set(ood.COLUMNS) < set(metrics)
    for outside in ("other", "noise"):
        for score in ("auroc", "aupr", "fpr95"):
            assert 0 <= metrics[f"{outside}_{score}_entropy"] <= 1


@pytest.mark.parametrize("name", ood.EXTRA)
def test_extra_points_are_images_beside_the_labelled_ones(name, key):
    labelled = some_images().train.x[:12]
    pool = jnp.full((5, 784), jnp.float32(0.125))
    x = ood.EXTRA[name][1](pool)(key, labelled)
    extra = x[12:]
    np.testing.assert_array_equal(x[:12], labelled)
    assert extra.shape == (0 if name == "f-none" else ood.EXTRA_POINTS, 784)
    from_pool = name in ("f-train", "f-unlabelled", "f-other")
    assert from_pool == bool(extra.size and jnp.all(extra == pool[0]))
    assert jnp.all((extra >= labelled.min()) & (extra <= labelled.max()))


def test_patches_keep_the_pixels_of_an_image_and_blends_do_not(key):
    """Of rows of pixels without their shape, a patch would be a stretch of a line."""
    labelled = some_images().train.x[:1]
    pool = jnp.zeros((1, 784))
    patches, mixed = (ood.EXTRA[name][1](pool)(key, labelled)[1:] for name in ("f-patches", "f-mixed"))
    same = np.sort(np.asarray(labelled[0]))
    assert all(np.array_equal(np.sort(row), same) for row in np.asarray(patches))
    assert not np.array_equal(patches[0], labelled[0])
    square = np.asarray(patches[0]).reshape(28, 28)[:7, :7].ravel()
    assert any(
        np.array_equal(square, np.asarray(labelled[0]).reshape(28, 28)[i : i + 7, j : j + 7].ravel())
        for i in range(0, 28, 7)
        for j in range(0, 28, 7)
    )
    kept = [np.allclose(np.sort(row), same, atol=1e-6) for row in np.asarray(mixed)]  # of float32, in blends
    assert (sum(kept), len(kept)) == (34 + 33, 100)  # blends of one image with itself are that image


def test_pools_are_in_the_units_of_the_training_images(small):
    grey = ood.pool_of("f-unlabelled", "mnist", SHIFT)
    assert grey.shape == (9, 784)
    np.testing.assert_array_equal(grey, np.float32(0.5 - SHIFT))
    assert ood.pool_of("f-other", "mnist", SHIFT).shape == (ROWS, 784)
    assert all(ood.pool_of(name, "mnist", SHIFT) is None for name in ("ensemble", "f-train", "f-noise"))


def test_noise_covers_the_range_of_pixels():
    noise = ood.noise_like(some_images()) + SHIFT
    assert noise.shape == (30, 784)
    assert 0 <= noise.min() < 0.01
    assert 0.99 < noise.max() <= 1
    np.testing.assert_array_equal(noise, ood.noise_like(some_images()) + SHIFT)


@pytest.mark.parametrize("name", ood.LABELS)
def test_every_method_has_an_algorithm(name):
    made = ood.method(name)
    assert made is ood.method(name)
    algorithm = made.algorithm(jnp.zeros((3, 784)), 5).algorithm
    state = jax.eval_shape(lambda key: algorithm.init(key, made.members), jax.random.key(0))
    assert state.particles.weights[0].shape == (5, 784, 400)


def test_presets_ask_both_ways():
    found = ood.cells(Options("full"))
    assert len(found) == 3 * 2 * len(ood.LABELS)
    assert {cell.dataset for cell in ood.cells(Options("quick"))} == {"mnist", "fashion-mnist"}


def test_the_table_and_the_figure_have_a_line_per_method():
    rows = [
        Row(Cell("ood", name, dataset, 0, seed, "full"), dict.fromkeys(ood.COLUMNS, 0.9 + 0.01 * seed), 60.0, {})
        for dataset in ood.OTHER
        for name in ("ensemble", "f-patches")
        for seed in range(2)
    ]
    table = markdown(ood.view(rows)).splitlines()
    assert [line.split(" | ")[1] for line in table[2:]] == ["ensemble of 5", "f-GFSF, shuffled patches"] * 2
    axes = ood.figure(rows).axes
    assert [axis.get_title(loc="left") for axis in axes] == ["mnist", "fashion-mnist", "", ""]
    assert axes[0].get_yticklabels()[1].get_text() == "shuffled patches"


def test_a_candidate_is_judged_by_strange_held_out_images_alone(small, monkeypatch):
    name = next(iter(ood.CANDIDATES))
    monkeypatch.setitem(ood.PRESETS, "tuning", ood.Preset(1, 2, None, (name,)))
    cells = ood.cells(Options("tuning", datasets=("mnist",)))
    assert [cell.method for cell in cells] == [name]
    metrics = ood.run_cell(cells[0])
    assert set(ood.TUNING) <= set(metrics)
    assert not {"error", "other_auroc_entropy"} & set(metrics)
    assert "halves swapped" in markdown(ood.view([Row(cells[0], metrics, 1.0, {})]))


def test_strange_images_stay_in_the_range_of_pixels():
    images = some_images()
    for name, x in ood.strange(images).items():
        pixels = x + np.float32(SHIFT)
        assert pixels.shape == images.x_valid.shape, name
        assert -1e-6 <= pixels.min() < pixels.max() <= 1 + 1e-6  # float32
        assert not np.array_equal(x, images.x_valid)
