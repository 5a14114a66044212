# SPDX-License-Identifier: Apache-2.0
"""Digits under attack on a few images and steps: what a row says of every method."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fpovi.experiments.harness.experiment import Options
from fpovi.experiments.harness.store import Cell, Row
from fpovi.experiments.harness.view import markdown
from fpovi.experiments.images import adversarial, training
from fpovi.experiments.images.methods import fan_out_mlp
from fpovi.inference.batches import make_batch
from fpovi.inference.particles import num_particles
from fpovi.priors._draws import prior_draws

pytestmark = pytest.mark.usefixtures("loose_dtypes")  # optax mixes whole and real numbers
STEPS = 3


@pytest.fixture(autouse=True)
def a_few_images(monkeypatch):
    """Three classes told apart by where an image is bright, and networks of four units."""
    rng, rows = np.random.default_rng(0), 120
    y = rng.integers(0, 3, rows).astype(np.int32)
    x = np.float32(0.1) * rng.random((rows, 784), np.float32)
    x[np.arange(rows)[:, None], 200 * y[:, None] + np.arange(200)] += np.float32(0.5)
    images = training.Images(make_batch(x, y), x[:40], y[:40], x[:60], y[:60], 0.0)
    monkeypatch.setattr(adversarial, "prepare", lambda *args, **options: images)
    tiny = adversarial.PRESETS["paper"]._replace(
        sizes=(784, 4, 10), particles=3, epochs=20, batch_size=40, rate=0.03, attacked=20, steps=STEPS
    )
    monkeypatch.setitem(adversarial.PRESETS, "paper", tiny)
    monkeypatch.setattr(adversarial, "PGD_STEPS", 2)
    return images


@pytest.mark.parametrize("name", ["f-svgd-text", "mc-dropout"])
def test_a_method_is_attacked_in_every_way(name):
    metrics = adversarial.run_cell(Cell("mnist-adversarial", name, "mnist", 0, 0, "paper"))
    assert set(metrics["curves"]) == {"own", "mean_log", "transfer"}
    for curve in metrics["curves"].values():
        assert all(len(values) == STEPS + 1 for values in curve.values())
        assert all(0 <= value <= 1 for value in curve["accuracy"])
        assert curve["mutual_information"][0] <= curve["entropy"][0] + 1e-4
    # before the first step all attacks see the same images; masks are drawn anew for two of three curves
    if name != "mc-dropout":
        assert len({curve["accuracy"][0] for curve in metrics["curves"].values()}) == 1
    assert {"pgd_0.05", "pgd_0.1", "pgd_0.5", "error", "nll", "ece", "epoch"} <= set(metrics)


def test_images_of_the_target_are_left_out(monkeypatch):
    """Were they attacked too, steps towards their own class would keep a third of the accuracy."""
    preset = adversarial.PRESETS["paper"]._replace(sizes=(784, 50, 10), epochs=5, steps=30)
    monkeypatch.setitem(adversarial.PRESETS, "paper", preset)
    monkeypatch.setattr(adversarial, "STEP", 0.05)
    accuracy = adversarial.run_cell(Cell("mnist-adversarial", "ensemble", "mnist", 0, 0, "paper"))["curves"]["own"]
    assert accuracy["accuracy"][0] > 0.9
    assert accuracy["accuracy"][-1] == 0


@pytest.mark.parametrize("name", adversarial.LABELS)
def test_every_method_has_an_algorithm(name, a_few_images):
    made = adversarial.method(name, adversarial.PRESETS["paper"])
    state = made.algorithm(a_few_images.train.x, 5).algorithm.init(jax.random.key(0), made.members)
    assert num_particles(state.particles) == (1 if name == "mc-dropout" else 3)
    assert made is adversarial.method(name, adversarial.PRESETS["paper"])


def test_a_candidate_says_how_it_did_on_held_out_images(monkeypatch):
    tiny = adversarial.PRESETS["paper"]._replace(methods=tuple(adversarial.CANDIDATES))
    monkeypatch.setitem(adversarial.PRESETS, "tuning", tiny)
    found = adversarial.run_cell(Cell("mnist-adversarial", "ensemble rate=0.002", "mnist", 0, 0, "tuning"))
    assert set(found) == {"epoch", "valid_nll"}
    rows = [Row(cell, found, 60.0, {}) for cell in adversarial.cells(Options("tuning"))]
    assert len(rows) == len(adversarial.CANDIDATES)
    assert "NLL, held-out" in markdown(adversarial.view(rows))
    assert not adversarial.EXPERIMENTS["mnist-adversarial"].figure(rows).axes[0].lines


def test_presets_name_methods():
    assert [cell.method for cell in adversarial.cells(Options("paper"))] == list(adversarial.LABELS)
    assert {cell.method for cell in adversarial.cells(Options("quick"))} < set(adversarial.LABELS)


def test_the_table_and_the_curves_show_every_attack():
    curve = {"accuracy": [1.0, 0.6, 0.25], "entropy": [0.1, 0.5, 0.4], "mutual_information": [0.0, 0.1, 0.1]}
    metrics = {"error": 0.02, "nll": 0.06, "ece": 0.01, "pgd_0.05": 0.5, "pgd_0.1": 0.3, "pgd_0.5": 0.0,
               "curves": dict.fromkeys(("own", "mean_log", "transfer"), curve)}  # fmt: skip
    rows = [
        Row(Cell("mnist-adversarial", name, "mnist", 0, 0, "paper"), metrics, 60.0, {}) for name in ("f-svgd", "w-svgd")
    ]
    table = markdown(adversarial.view(rows)).splitlines()
    assert "along mean log" in table[0]
    assert "0.6" in table[2]
    assert "0.25" in table[2]
    figure = adversarial.EXPERIMENTS["mnist-adversarial"].figure(rows)
    assert len(figure.axes) == 6
    assert [line.get_label() for line in figure.axes[2].lines] == ["f-SVGD, the code's prior", "SVGD"]


def test_clean_scores_stand_beside_the_paper_s():
    curve = {"accuracy": [1.0, 0.6], "entropy": [0.1, 0.5], "mutual_information": [0.0, 0.1]}
    metrics = {"error": 0.02, "nll": 0.06, "ece": 0.01, "curves": dict.fromkeys(("own", "mean_log", "transfer"), curve)}
    rows = [Row(Cell("mnist-adversarial", "mc-dropout", "mnist", 0, 0, "paper"), metrics, 60.0, {})]
    columns, _, line = markdown(adversarial.clean(rows)).splitlines()
    assert "published error, % | published NLL" in columns
    assert "| 1.7 | 0.075 |" in line


@pytest.mark.parametrize("hidden", [(1000, 1000, 1000), (200, 200)])
def test_logits_have_the_variance_of_the_text(hidden, key):
    """At an input of the norm of a digit."""
    sizes = (784, *hidden, 10)
    network = fan_out_mlp(sizes, 1.0, adversarial.text_factor(sizes))
    x = jax.random.normal(key, (1, 784))
    x = x * (adversarial.SQUARED_NORM / jnp.sum(x**2)) ** 0.5
    drawn = prior_draws(key, network, x, 400)
    # a variance of 10 of 4,000 numbers has a standard error of .22: three of these
    assert float(jnp.var(drawn)) == pytest.approx(adversarial.TEXT_VARIANCE, abs=0.7)
