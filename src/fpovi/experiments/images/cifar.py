# SPDX-License-Identifier: Apache-2.0
"""``cifar``: residual networks on photographs, alone, as an ensemble, and held apart as functions.

The preset ``paper`` has the network, the schedule and the settings of the authors' released code, and needs all of
CIFAR-10 and an accelerator: ResNet-32, 8 particles, the last of 200 epochs of momentum at .1, .01 and .001, batches of
128, steps of 2/n of an ensemble's, a kernel that does not see the true class, and a prior of 16 fresh networks at 4
images, its log-density divided by its dimension. It differs from that code in these points: one mean is subtracted from
all pixels, and they are not divided by 128/255, which batch normalisation undoes; the prior looks at six classes, the
true ones of its images and random others, where the code has two random ones and the true ones; it looks at random
images of a batch, where the code takes the first; and the last batch of an epoch is used though it is not full.

The preset ``subset`` is for two cores: a fifth of the images, ResNet-8, and a rate that falls along half a cosine.

Repulsion between functions has cost accuracy in every publication. What might be done about it has a method each, all
with the ensemble's prior of weights in the place of one over functions, and repulsion times one factor, as large as
held-out images allow: at points off the data alone, between the features of the last hidden layer, where the loss is
large, or in the first two thirds of the steps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import optax
from jaxtyping import Float
from matplotlib.figure import Figure

from fpovi._lookup import lookup
from fpovi.experiments.harness.experiment import Experiment, Options, Watch, silent
from fpovi.experiments.harness.store import Cell, Row, Store
from fpovi.experiments.harness.view import View
from fpovi.experiments.images.mnist import TUNING
from fpovi.experiments.images.residual import LABELS, Setting, in_steps, method, network
from fpovi.experiments.images.training import (
    Images,
    ImageTask,
    Trained,
    checkpoint_of,
    class_scores,
    image_cells,
    log_probs,
    prepare,
    train_images,
)
from fpovi.experiments.images.tuning import candidates
from fpovi.experiments.images.under_attack import Attacked, accuracy_in_ball, plain_source, radius_curves
from fpovi.experiments.images.view import CLEAN, Column, method_table, radius_figure
from fpovi.robustness import LogProbs, ood_scores
from fpovi.types import Info

SHADES = 255
RADII = (1, 2, 4, 8, 16)  # of one step, in shades
BALLS, OVERWHELMING = (1, 2), 64  # the radius that every model has to break at
PGD_STEPS, RESTARTS = 10, 2
NOISES = (0.05, 0.1, 0.2)  # standard deviations of noise on test images, whose pixels are from 0 to 1
SOURCE_SEED = 1000  # of the plain ensemble that attacks are transferred from


class Preset(NamedTuple):
    """The data, the networks, how long they learn, how many images are attacked, and which methods.

    All methods have a run, and those ``repeated`` one for each of so many seeds. Without ``hold_out`` networks learn
    from all training images, and the last epoch counts.
    """

    dataset: str
    setting: Setting
    rows: int | None
    epochs: int
    batch_size: int
    attacked: int
    seeds: int
    methods: tuple[str, ...]
    repeated: tuple[str, ...]
    hold_out: bool = True


# candidates for the factor on repulsion, and the largest that costs less than 5 % of the NLL of held-out images
CANDIDATES = candidates({"f-weights": {"repulsion": (1.0, 100.0, 1000.0, 10_000.0)}})
SMALL = Setting(8, 8, 4, optax.cosine_decay_schedule, repulsion=1000.0)
PRESETS = {
    "quick": Preset(
        "cifar10", Setting(8, 4, 3, optax.cosine_decay_schedule), rows=2000, epochs=3, batch_size=100, attacked=100,
        seeds=1, methods=("single", "ensemble", "f-gfsf", "f-extra"), repeated=(),
    ),
    "subset": Preset(
        "cifar10", SMALL, rows=None, epochs=30, batch_size=128, attacked=1000, seeds=3,
        methods=tuple(LABELS), repeated=("single", "ensemble", "f-gfsf", "f-extra"),
    ),
    "paper": Preset(
        "cifar10-full", Setting(32, 16, 8, in_steps, share=2 / 8), rows=None, epochs=200, batch_size=128,
        attacked=1000, seeds=3, methods=("single", "ensemble", "f-svgd", "f-gfsf"),
        repeated=("single", "ensemble", "f-svgd", "f-gfsf"), hold_out=False,
    ),
    "tuning": Preset(
        "cifar10", SMALL, rows=4000, epochs=12, batch_size=128, attacked=0, seeds=1,
        methods=tuple(CANDIDATES), repeated=(),
    ),
}  # fmt: skip
# its norm beside that of the likelihood's score, in the middle epoch and in the last
REPULSION = {"repulsion_middle": Column("repulsion, middle"), "repulsion_end": Column("end")}
SCORES = {
    **CLEAN,
    "single_error": Column("error of one, %", 100.0),
    **{f"noise_{std:g}_nll": Column(f"NLL, noise {std:g}") for std in NOISES},
    "clothes_auroc_entropy": Column("AUROC, clothes", more=True),
    **REPULSION,
}
ATTACKS = {
    **{f"own_{radius}": Column(f"FGSM {radius}", more=True) for radius in RADII},
    "mean_log_4": Column("along mean log, 4", more=True),
    "transfer_4": Column("transferred, 4", more=True),
    **{f"pgd_{radius}": Column(f"PGD {radius}", more=True) for radius in (*BALLS, OVERWHELMING)},
}
# error in per cent and NLL that the paper prints for all of CIFAR-10
PUBLISHED = {
    "published error, %": {("cifar10-full", "single"): 7.5, ("cifar10-full", "ensemble"): 6.3,
                           ("cifar10-full", "f-gfsf"): 6.6},
    "published NLL": {("cifar10-full", "single"): 0.376, ("cifar10-full", "ensemble"): 0.203,
                      ("cifar10-full", "f-gfsf"): 0.218},
}  # fmt: skip


def cells(options: Options) -> list[Cell]:
    """Return the cells of every method of a preset, and of those that it repeats with more seeds."""
    preset = lookup(PRESETS, options.preset, "preset")
    known = {chosen.dataset for chosen in PRESETS.values()}
    known_methods = LABELS.keys() | CANDIDATES.keys()
    found = image_cells("cifar", options, preset.seeds, (preset.dataset,), preset.methods, known, known_methods)
    repeated = options.methods or preset.repeated
    return [cell for cell in found if cell.method in repeated or cell.seed == found[0].seed]


def run_cell(cell: Cell, watch: Watch = silent, store: Store | None = None) -> dict[str, Any]:
    """Return scores of test images as they are, noisy, attacked and foreign; of a candidate, those of held-out ones."""
    preset = lookup(PRESETS, cell.preset, "preset")
    images = prepare(cell.dataset, preset.rows, hold_out=preset.hold_out)
    name, choice = CANDIDATES.get(cell.method, (cell.method, {}))
    setting = preset.setting._replace(repulsion=choice.get("repulsion", preset.setting.repulsion))
    chosen = method(name, setting, len(images.train.x))
    task = ImageTask(
        cell.seed, images, preset.epochs, preset.batch_size, checkpoint=checkpoint_of(store, cell),
        choose=preset.hold_out,
    )  # fmt: skip
    found = train_images(task, chosen, watch)
    process = {"epoch": found.epoch, "valid_nll": found.valid_nll, **_repulsion(found, task)}
    if cell.method in CANDIDATES:
        return process
    model = LogProbs(network(preset.setting.depth, preset.setting.width), found.particles, found.network_state)
    return {**_scores(model, images), **_attacked(cell, preset, model, task, store), **process}


def _scores(model: LogProbs, images: Images) -> dict[str, float]:
    on = partial(log_probs, model.network, model.particles, model.network_state)
    inside = on(images.x_test)
    rng = np.random.default_rng(0)
    noise = rng.normal(size=images.x_test.shape).astype(np.float32)
    noisy = {
        f"noise_{std:g}_{name}": value
        for std in NOISES
        for name, value in class_scores(on(images.x_test + np.float32(std) * noise), images.y_test).items()
    }
    clothes = {f"clothes_{name}": value for name, value in ood_scores(inside, on(clothes_like(images))).items()}
    return {**class_scores(inside, images.y_test), **noisy, **clothes}


def _attacked(cell: Cell, preset: Preset, model: LogProbs, task: ImageTask, store: Store | None) -> dict[str, Any]:
    """Return accuracy of the first test images after one step of each radius, and in balls."""
    images, size = task.images, preset.attacked
    case = Attacked(
        model, model, images.x_test[:size], images.y_test[:size], -images.shift, 1 - images.shift, cell.seed
    )
    plain = method("ensemble", preset.setting, len(images.train.x))
    alike = (cell.dataset, preset.setting.depth, preset.setting.width, plain.members, preset.setting.rate)
    source = plain_source(task._replace(seed=SOURCE_SEED, checkpoint=None), plain, f"cifar {alike}", store)
    curves = radius_curves(case, source, [radius / SHADES for radius in RADII])
    in_balls = {
        f"pgd_{radius}": accuracy_in_ball(case, radius / SHADES, PGD_STEPS, RESTARTS)
        for radius in (*BALLS, OVERWHELMING)
    }
    return {"curves": curves, **in_balls}


def _repulsion(found: Trained, task: ImageTask) -> dict[str, float]:
    """Return how strong repulsion was beside the likelihood's score, in the middle epoch and in the last."""
    history: Info = found.history
    per_epoch = task.steps_per_epoch

    def ratio(until: int) -> float:
        epoch = slice(max(until - per_epoch, 0), until)
        return float(np.mean(history.repulsion_norm[epoch]) / np.mean(history.likelihood_norm[epoch]))

    return {"repulsion_middle": ratio(max(task.steps // 2, 1)), "repulsion_end": ratio(task.steps)}


def clothes_like(images: Images) -> Float[np.ndarray, "N 32 32 3"]:
    """Return test images of Fashion-MNIST in three equal channels, with borders of their own background."""
    grey = prepare("fashion-mnist", 1, images.shift).x_test[: len(images.x_test)]
    return np.repeat(np.pad(grey, ((0, 0), (2, 2), (2, 2), (0, 0)), mode="edge"), 3, axis=3)


def view(rows: Sequence[Row]) -> View:
    """Return a table with a line per method: scores of images as they are, noisy and foreign, and under attack."""
    if rows and all(row.cell.method in CANDIDATES for row in rows):
        labels, columns = {name: name for name in CANDIDATES}, {**TUNING, **REPULSION}
        return method_table(rows, labels, "Factors on repulsion, by held-out images", columns)
    return _table(rows, {**SCORES, **ATTACKS})


def scores(rows: Sequence[Row]) -> View:
    """Return the table without attacks."""
    return _table(rows, SCORES)


def attacks(rows: Sequence[Row]) -> View:
    """Return the table of accuracy under attack."""
    return _table(rows, {"error": CLEAN["error"], **ATTACKS})


def _table(rows: Sequence[Row], columns: Mapping[str, Column]) -> View:
    flat = [replace(row, metrics={**row.metrics, **_at_radii(row)}) for row in rows]
    full = any(row.cell.dataset == "cifar10-full" for row in rows)
    notes = (
        f"Accuracy on {PRESETS[rows[0].cell.preset].attacked} test images, radii of 255 shades. PGD: the worst of "
        f"three losses and {RESTARTS} random starts, {PGD_STEPS} steps each.",
    ) if rows else ()  # fmt: skip
    title = "Residual networks on photographs"
    return method_table(flat, LABELS, title, columns, PUBLISHED if full and "nll" in columns else None, notes)


def _at_radii(row: Row) -> dict[str, float]:
    return {
        f"{attack}_{radius}": accuracy
        for attack, curve in row.metrics["curves"].items()
        for radius, accuracy in zip((0, *RADII), curve["accuracy"], strict=True)
    }


def figure(rows: Sequence[Row]) -> Figure:
    """Draw accuracy against the radius of one step, and a point per method for NLL and accuracy under PGD."""
    points = {"nll": "NLL", "pgd_1": "accuracy, PGD 1/255", "pgd_2": "accuracy, PGD 2/255"}
    preset = PRESETS[rows[0].cell.preset]
    return radius_figure(rows, LABELS, (0, *RADII), points, preset.repeated or preset.methods)


EXPERIMENTS = {
    "cifar": Experiment(
        cells=cells,
        run=run_cell,
        label=lambda cell: f"{LABELS.get(cell.method, cell.method)}, seed {cell.seed}",
        view=view,
        figure=figure,
    )
}
