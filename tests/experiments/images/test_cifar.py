# SPDX-License-Identifier: Apache-2.0
"""Residual networks on a few small images: what is compared, what a row says, and where a stopped run goes on."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fpovi.experiments.harness.experiment import Options
from fpovi.experiments.harness.store import Cell, Row, Store
from fpovi.experiments.harness.view import markdown
from fpovi.experiments.images import cifar, training
from fpovi.experiments.images.methods import LIKELIHOOD
from fpovi.inference.batches import make_batch
from fpovi.inference.particles import init_particles
from fpovi.networks import resnet

pytestmark = pytest.mark.usefixtures("loose_dtypes")  # optax mixes whole and real numbers
RANDOM = np.random.default_rng(0)
NETWORK = resnet(8, width=2)


def a_few_images(rows=60):
    """Two classes told apart by their colour."""
    y = RANDOM.integers(0, 2, rows).astype(np.int32)
    x = 0.1 * RANDOM.normal(size=(rows, 8, 8, 3)).astype(np.float32)
    x[..., 0] += 0.2 * y[:, None, None]
    x = np.clip(x, -0.5, 0.5)
    return training.Images(make_batch(x, y), x[:20], y[:20], x[:30], y[:30], 0.5)


@pytest.fixture
def small(monkeypatch):
    images = a_few_images()
    preset = cifar.PRESETS["quick"]._replace(width=2, particles=2, epochs=4, batch_size=20)
    monkeypatch.setitem(cifar.PRESETS, "quick", preset)
    monkeypatch.setattr(cifar, "prepare", lambda *args: images)
    monkeypatch.setattr(cifar, "clothes_like", lambda images: images.x_test[::-1])
    monkeypatch.setattr(cifar, "EXTRA_POINTS", 6)
    cifar.method.cache_clear()
    yield images
    cifar.method.cache_clear()


def test_a_row_has_clean_attacked_noisy_and_foreign_images(small):
    metrics = cifar.run_cell(Cell("cifar", "f-gfsf", "cifar10", 0, 0, "quick"))
    assert set(cifar.COLUMNS) <= set(metrics)
    assert all(np.isfinite(value) for value in metrics.values())
    assert metrics["fgsm_1"] >= metrics["fgsm_16"] - 0.2
    assert metrics["clothes_auroc_entropy"] == pytest.approx(0.5)  # they are the test images here


@pytest.mark.slow  # every method compiles a residual network
@pytest.mark.parametrize("name", cifar.LABELS)
def test_every_method_trains(name, small):
    chosen = cifar.method(name, "quick", 60)
    task = training.ImageTask(0, small, 2, 20)
    found = training.train_images(task, chosen, lambda *told: None)
    assert np.isfinite(found.valid_nll)


@pytest.mark.slow  # ResNet-32 takes minutes to compile
def test_the_paper_preset_starts_and_goes_on(monkeypatch, tmp_path):
    images = a_few_images(16)
    monkeypatch.setitem(cifar.PRESETS, "paper", cifar.PRESETS["paper"]._replace(particles=2, epochs=4, batch_size=8))
    monkeypatch.setattr(cifar, "prepare", lambda *args: images)
    monkeypatch.setattr(cifar, "clothes_like", lambda images: images.x_test)
    cell, store = Cell("cifar", "f-paper-rate", "cifar10-full", 0, 0, "paper"), Store(tmp_path / "cifar.jsonl")

    def stopped(done, total, score):
        if done >= 4:
            raise KeyboardInterrupt

    whole = cifar.run_cell(cell)
    with pytest.raises(KeyboardInterrupt):
        cifar.run_cell(cell, stopped, store)
    assert training.checkpoint_of(store, cell).exists()
    again = cifar.run_cell(cell, lambda *told: None, store)
    assert again["nll"] == pytest.approx(whole["nll"], rel=1e-5)  # programs of other shapes round differently
    cifar.method.cache_clear()


def test_features_follow_the_logits(key):
    theta, state = NETWORK.init(key)
    x = jax.random.normal(key, (4, 8, 8, 3))
    outputs, after = cifar.with_features(NETWORK).apply(theta, state, x, True)
    logits, plain = NETWORK.apply(theta, state, x, True)
    np.testing.assert_allclose(outputs[:, :10], logits, rtol=1e-5, atol=1e-6)  # float32
    np.testing.assert_allclose(outputs[:, 10:] @ theta.weight + theta.bias, logits, rtol=1e-4, atol=1e-5)
    jax.tree.map(np.testing.assert_array_equal, after, plain)


def test_features_say_nothing_of_labels(key):
    likelihood = cifar.of_logits(LIKELIHOOD)
    outputs = jax.random.normal(key, (5, 13))
    f, y = likelihood.canonical(outputs), jnp.arange(5)[:, None]
    np.testing.assert_allclose(f[:, :10], LIKELIHOOD.canonical(outputs[:, :10]))
    np.testing.assert_array_equal(f[:, 10:], outputs[:, 10:])
    np.testing.assert_array_equal(likelihood.log_prob((), f, y), LIKELIHOOD.log_prob((), f[:, :10], y))


def test_what_is_learned_counts_less(key):
    f = jnp.log(jnp.asarray([[[0.9, 0.1], [0.5, 0.5]], [[0.9, 0.1], [0.5, 0.5]]]))
    batch = make_batch(np.zeros((2, 1)), [0, 0])
    weight = cifar.by_loss(f, batch)
    losses = -np.log([0.9, 0.5])
    np.testing.assert_allclose(weight[:, 0] ** 2, losses / losses.mean(), rtol=1e-6)


def test_rates_fall_when_the_paper_s_do():
    schedule = cifar.in_steps(0.1, 200)
    np.testing.assert_allclose(
        [schedule(step) for step in (0, 81, 83, 122, 124)], [0.1, 0.1, 0.01, 0.01, 0.001], rtol=1e-5
    )
    assert cifar.early(10)(5) == 0


def test_clothes_become_photographs_of_their_own_background(monkeypatch):
    grey = training.Images(None, None, None, RANDOM.random((3, 28, 28, 1)).astype(np.float32), None, 0.5)
    monkeypatch.setattr(cifar, "prepare", lambda *args: grey)
    made = cifar.clothes_like(a_few_images())
    assert made.shape == (3, 32, 32, 3)
    np.testing.assert_array_equal(made[:, 2:30, 2:30, 1], grey.x_test[..., 0])
    np.testing.assert_array_equal(made[:, 0, 5], made[:, 2, 5])


def test_the_table_shows_a_line_per_method():
    rows = [
        Row(Cell("cifar", name, "cifar10", 0, seed, "subset"), dict.fromkeys(cifar.COLUMNS, 0.1 + seed / 100), 60.0, {})
        for name in ("single", "ensemble") for seed in range(2)
    ]  # fmt: skip
    table = markdown(cifar.view(rows)).splitlines()
    assert len(table) == 4
    assert "accuracy, FGSM 8/255" in table[0]
    assert len(cifar.cells(Options("subset"))) == 3 * len(cifar.LABELS)
    assert {cell.dataset for cell in cifar.cells(Options("paper"))} == {"cifar10-full"}


def test_learning_rates_are_per_row_and_weights_keep_their_prior(key):
    theta, _ = init_particles(key, NETWORK, 2)
    zero = jax.tree.map(jnp.zeros_like, theta)
    flat, with_prior = (
        cifar._momentum(cifar.PRESETS["subset"], 50, weights_of=network)(10) for network in (None, NETWORK)
    )
    grads = jax.tree.map(jnp.ones_like, theta)
    moved, _ = flat.update(grads, flat.init(theta), theta)
    np.testing.assert_allclose(jax.tree.leaves(moved)[0], -0.1 / 50, rtol=1e-6)
    pulled, _ = with_prior.update(zero, with_prior.init(theta), theta)
    expected = jax.tree.map(lambda g: 0.1 / 50 * g, jax.grad(lambda t: jax.vmap(NETWORK.log_prior)(t).sum())(theta))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-9), pulled, expected)
    assert isinstance(flat, optax.GradientTransformation)
