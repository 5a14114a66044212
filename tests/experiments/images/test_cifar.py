# SPDX-License-Identifier: Apache-2.0
"""Residual networks on a few small images: what is compared, what a row says, and where a stopped run goes on."""

import numpy as np
import pytest

from fpovi.experiments.harness.experiment import Options
from fpovi.experiments.harness.store import Cell, Row, Store
from fpovi.experiments.harness.view import markdown
from fpovi.experiments.images import cifar, residual, training
from fpovi.inference.batches import make_batch

pytestmark = pytest.mark.usefixtures("loose_dtypes")  # optax mixes whole and real numbers
RNG = np.random.default_rng(0)
METRICS = {
    **dict.fromkeys(cifar.SCORES, 0.1),
    **{name: 0.5 for name in cifar.ATTACKS if name.startswith("pgd")},
    "curves": {name: {"accuracy": [0.9, 0.8, 0.7, 0.6, 0.5, 0.4]} for name in ("own", "mean_log", "transfer")},
}


def a_few_images(rows=60):
    """Two classes told apart by their colour."""
    y = RNG.integers(0, 2, rows).astype(np.int32)
    x = 0.1 * RNG.normal(size=(rows, 8, 8, 3)).astype(np.float32)
    x[..., 0] += 0.2 * y[:, None, None]
    x = np.clip(x, -0.5, 0.5)
    return training.Images(make_batch(x, y), x[:20], y[:20], x[:30], y[:30], 0.5)


@pytest.fixture
def small(monkeypatch):
    """A preset becomes one of ResNet-8 with two channels, a few images and short attacks; the rest of it stays."""
    images = a_few_images(40)
    for name, preset in cifar.PRESETS.items():
        tiny = preset._replace(
            setting=preset.setting._replace(depth=8, width=2, particles=2), epochs=4, batch_size=20, attacked=10
        )
        monkeypatch.setitem(cifar.PRESETS, name, tiny)
    monkeypatch.setattr(cifar, "prepare", lambda *args, **options: images)
    monkeypatch.setattr(cifar, "clothes_like", lambda images: images.x_test[::-1])
    monkeypatch.setattr(residual, "EXTRA_POINTS", 6)
    monkeypatch.setattr(cifar, "PGD_STEPS", 2)
    monkeypatch.setattr(cifar, "RESTARTS", 1)


def stopped(done, total, score):
    if done == total:
        raise KeyboardInterrupt


def test_a_row_has_clean_attacked_noisy_and_foreign_images_and_a_stopped_run_goes_on(small, tmp_path):
    """With all that the paper's preset asks for but the size."""
    cell, store = Cell("cifar", "f-gfsf", "cifar10-full", 0, 0, "paper"), Store(tmp_path / "cifar.jsonl")
    with pytest.raises(KeyboardInterrupt):
        cifar.run_cell(cell, stopped, store)
    assert training.checkpoint_of(store, cell).exists()
    again = cifar.run_cell(cell, lambda *told: None, store)
    whole = cifar.run_cell(cell, lambda *told: None, store)
    assert again["nll"] == pytest.approx(whole["nll"], rel=1e-5)  # programs of other shapes round differently
    assert set(cifar.SCORES) <= set(whole)
    assert {name for name in cifar.ATTACKS if name.startswith("pgd")} <= set(whole)
    assert all(len(curve["accuracy"]) == 6 for curve in whole["curves"].values())
    assert whole["clothes_auroc_entropy"] == pytest.approx(0.5)  # they are the test images here
    assert whole["repulsion_middle"] > 0
    assert (whole["epoch"], whole["valid_nll"]) == (4, None)  # nothing is held out, and the last epoch counts


@pytest.mark.slow  # ResNet-32 takes minutes to compile
def test_the_paper_s_network_starts(small, monkeypatch):
    whole = cifar.PRESETS["paper"]
    monkeypatch.setitem(cifar.PRESETS, "paper", whole._replace(setting=whole.setting._replace(depth=32, width=16)))
    found = cifar.run_cell(Cell("cifar", "f-gfsf", "cifar10-full", 0, 0, "paper"))
    assert np.isfinite(found["nll"])


def test_the_paper_preset_has_the_code_s_settings():
    paper = cifar.PRESETS["paper"]
    assert paper.setting == residual.Setting(32, 16, 8, residual.in_steps, 0.1, 0.25, 1.0)
    assert (paper.epochs, paper.batch_size, paper.rows, paper.hold_out) == (200, 128, None, False)


def test_a_candidate_says_how_it_did_on_held_out_images(small):
    found = cifar.run_cell(Cell("cifar", "f-weights repulsion=100", "cifar10", 0, 0, "tuning"))
    assert set(found) == {"epoch", "valid_nll", *cifar.REPULSION}
    rows = [Row(cell, found, 60.0, {}) for cell in cifar.cells(Options("tuning"))]
    assert len(rows) == len(cifar.CANDIDATES)
    assert "NLL, held-out" in markdown(cifar.view(rows))
    assert not cifar.figure(rows).axes[0].lines


def test_clothes_become_photographs_of_their_own_background(monkeypatch):
    grey = training.Images(None, None, None, RNG.random((3, 28, 28, 1)).astype(np.float32), None, 0.5)
    monkeypatch.setattr(cifar, "prepare", lambda *args: grey)
    made = cifar.clothes_like(a_few_images())
    assert made.shape == (3, 32, 32, 3)
    np.testing.assert_array_equal(made[:, 2:30, 2:30, 1], grey.x_test[..., 0])
    np.testing.assert_array_equal(made[:, 0, 5], made[:, 2, 5])


def test_some_methods_are_repeated_with_other_seeds():
    found = cifar.cells(Options("subset"))
    assert [cell.method for cell in found if cell.seed == 0] == list(residual.LABELS)
    assert {cell.method for cell in found if cell.seed == 2} == set(cifar.PRESETS["subset"].repeated)
    assert {cell.seed for cell in cifar.cells(Options("subset", methods=("f-loss",)))} == {0, 1, 2}
    assert {cell.method for cell in cifar.cells(Options("subset", seed=7))} == set(residual.LABELS)
    assert {cell.dataset for cell in cifar.cells(Options("paper"))} == {"cifar10-full"}


def test_tables_and_figure_show_a_line_per_method():
    rows = [
        Row(Cell("cifar", name, "cifar10", 0, seed, "subset"), METRICS, 60.0, {})
        for name in ("single", "ensemble", "f-late") for seed in range(2)
    ]  # fmt: skip
    table = markdown(cifar.view(rows)).splitlines()
    assert len(table) == 5
    assert "FGSM 8 |" in table[0]
    assert "FGSM 8 |" not in markdown(cifar.scores(rows))
    attacked = markdown(cifar.attacks(rows))
    assert "PGD 64" in attacked
    assert "NLL" not in attacked
    figure = cifar.figure(rows)
    assert len(figure.axes) == 6
    assert [line.get_label() for line in figure.axes[2].lines] == ["one network", "ensemble"]  # those with more seeds
    assert [label.get_text() for label in figure.axes[3].get_yticklabels()] == [
        "one network", "ensemble", "… repulsion that ends after two thirds",
    ]  # fmt: skip


def test_the_paper_s_numbers_stand_beside_those_of_its_images():
    row = Row(Cell("cifar", "f-gfsf", "cifar10-full", 0, 0, "paper"), METRICS, 60.0, {})
    table = markdown(cifar.scores([row]))
    assert "published NLL" in table
    assert "0.218" in table
    assert cifar.view([]).lines == []
