# SPDX-License-Identifier: Apache-2.0
"""``shift``: what accuracy, NLL and calibration become as test images turn, move, or get noisy or blurred.

Perceptrons of two hidden layers of 400 units, and convolutional networks of LeNet's size, learn digits or clothes as
they are. The epoch is the one that held-out training images, as they are, prefer.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from fpovi._lookup import lookup
from fpovi.experiments.harness.experiment import Experiment, Options, Watch, silent
from fpovi.experiments.harness.store import Cell, Row, Store
from fpovi.experiments.harness.view import View
from fpovi.experiments.images.corruptions import SHIFTS, shifted
from fpovi.experiments.images.lenet import lenet, lenet_dropout
from fpovi.experiments.images.methods import (
    LIKELIHOOD,
    SPREAD,
    MakeNetwork,
    Method,
    dropout_method,
    fan_out_mlp,
    function_method,
    weight_method,
)
from fpovi.experiments.images.mnist import ADAM, PARTICLES, SIZES
from fpovi.experiments.images.per_image import as_text, differences, per_image
from fpovi.experiments.images.training import (
    Images,
    ImageTask,
    checkpoint_of,
    class_scores,
    image_cells,
    log_probs,
    prepare,
    train_images,
)
from fpovi.experiments.images.view import CLEAN, CURVE_LABELS, Column, method_table, shift_curves
from fpovi.experiments.paper_parts import PAPER_FLOWS, median_rbf
from fpovi.measurement import train_only
from fpovi.priors import sampled_gp
from fpovi.types import FunctionPrior, Network

PRIOR_DRAWS, PRIOR_POINTS, LOGIT_STD = 40, 16, 3.0
DATASETS = ("mnist", "fashion-mnist")


class Preset(NamedTuple):
    """How many seeds, epochs, training and test images, and which methods."""

    seeds: int
    epochs: int
    rows: int | None
    tests: int | None
    methods: tuple[str, ...]


OF_MLP = {
    "f-gfsf": "f-GFSF",
    "ensemble": "ensemble of 5",
    "mc-dropout": "MC dropout",
    "map": "MAP",
}
OF_LENET = {f"lenet-{name}": f"LeNet, {label}" for name, label in OF_MLP.items()}
LABELS = {**OF_MLP, **OF_LENET}
COLUMNS = {
    **CLEAN,
    "mean_accuracy": Column("shifted: accuracy", more=True),
    "mean_nll": Column("NLL"),
    "mean_ece": Column("ECE"),
    **{f"{name}_nll": Column(f"NLL, {name}") for name in SHIFTS},
}
PRESETS = {
    "quick": Preset(1, 6, 5000, 1000, ("f-gfsf", "ensemble", "lenet-f-gfsf", "lenet-ensemble")),
    "full": Preset(3, 12, None, None, tuple(LABELS)),
}


def _prior(network: Network) -> FunctionPrior:
    return sampled_gp(network, LIKELIHOOD, PRIOR_DRAWS, LOGIT_STD)


@lru_cache
def method(name: str) -> Method:
    """Return a method by its name."""
    lookup(LABELS, name, "method")
    kind, is_lenet = name.removeprefix("lenet-"), name.startswith("lenet-")
    if kind == "f-gfsf":
        network: MakeNetwork = lenet if is_lenet else partial(fan_out_mlp, SIZES)
        return function_method(
            network, _prior, PAPER_FLOWS["gfsf"], median_rbf(), PARTICLES, lambda pool: train_only(),
            ADAM, prior_size=PRIOR_POINTS,
        )  # fmt: skip
    network = partial(lenet, SPREAD) if is_lenet else partial(fan_out_mlp, SIZES, SPREAD)
    if kind == "mc-dropout":
        return (lenet_dropout if is_lenet else dropout_method)(network, optimiser=ADAM)
    return weight_method(network, PAPER_FLOWS["ensemble"], median_rbf(), 1 if kind == "map" else PARTICLES, ADAM)


def cells(options: Options) -> list[Cell]:
    """Return the cells of every seed, set and method of a preset."""
    preset = lookup(PRESETS, options.preset, "preset")
    return image_cells("shift", options, preset.seeds, DATASETS, preset.methods, DATASETS, LABELS)


def run_cell(cell: Cell, watch: Watch = silent, store: Store | None = None) -> dict[str, Any]:
    """Return the scores of test images as they are, and curves of scores over severities of each shift."""
    preset, chosen = lookup(PRESETS, cell.preset, "preset"), method(cell.method)
    images = prepare(cell.dataset, preset.rows, flat=cell.method in OF_MLP)
    task = ImageTask(cell.seed, images, preset.epochs, checkpoint=checkpoint_of(store, cell))
    found = train_images(task, chosen, watch)
    on = partial(log_probs, chosen.network(), found.particles, found.network_state)
    clean = on(images.x_test)

    def scores(name: str, severity: int) -> dict[str, float]:
        x, y = _moved(images, name, severity, preset.tests)
        return class_scores(on(x), y)

    curves = {
        name: [scores(name, severity) for severity in range(len(sizes) + 1)] for name, (_, sizes) in SHIFTS.items()
    }
    return {
        **class_scores(clean, images.y_test),
        "curves": _by_score(curves),
        "epoch": found.epoch,
        "valid_nll": found.valid_nll,
        "per_image": as_text(per_image(clean, images.y_test)),
    }


def _moved(images: Images, name: str, severity: int, tests: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the first test images at a severity of a shift, in the units a network sees, and their labels."""
    x, y = images.x_test[:tests], images.y_test[:tests]
    pixels = x.reshape(-1, 28, 28) + np.float32(images.shift)
    return shifted(pixels, name, severity).reshape(x.shape) - np.float32(images.shift), y


def _by_score(curves: dict[str, list[dict[str, float]]]) -> dict[str, dict[str, list[float]]]:
    return {
        name: {
            "accuracy": [round(1 - at["error"], 5) for at in each],
            "nll": [round(at["nll"], 5) for at in each],
            "ece": [round(at["ece"], 5) for at in each],
        }
        for name, each in curves.items()
    }


def view(rows: Sequence[Row]) -> View:
    """Return a table with a line per method: clean scores, and their means over severities 1 to 5."""
    means = [replace(row, metrics={**row.metrics, **_means(row.metrics["curves"])}) for row in rows]
    notes = ("Shifted: means over severities 1 to 5, and over all four shifts where none is named.", *_beside(rows))
    return method_table(means, LABELS, "Shifted images", COLUMNS, notes=notes)


def _beside(rows: Sequence[Row]) -> list[str]:
    """Return a line for each set and kind of network: f-GFSF less the ensemble, on test images as they are."""
    lines = []
    for dataset in dict.fromkeys(row.cell.dataset for row in rows):
        of_set = [row for row in rows if row.cell.dataset == dataset]
        for prefix, network in (("", "perceptrons"), ("lenet-", "LeNets")):
            found = differences(of_set, f"{prefix}f-gfsf", f"{prefix}ensemble")
            texts = [f"{name} {one.value:+.4f} ({one.low:+.4f} to {one.high:+.4f})" for name, one in found.items()]
            if texts:
                lines.append(f"{dataset}, {network}, f-GFSF less the ensemble (95 % of resamples): {', '.join(texts)}")
    return lines


def _means(curves: dict[str, dict[str, list[float]]]) -> dict[str, float]:
    """Return the mean of each score over severities, by shift and over all shifts."""
    of_shift = {
        f"{name}_{score}": float(np.mean(curve[score][1:])) for name, curve in curves.items() for score in CURVE_LABELS
    }
    over_all = {
        f"mean_{score}": float(np.mean([of_shift[f"{name}_{score}"] for name in curves])) for score in CURVE_LABELS
    }
    return {**of_shift, **over_all}


EXPERIMENTS = {
    "shift": Experiment(
        cells=cells,
        run=run_cell,
        label=lambda cell: f"{cell.dataset}, seed {cell.seed}: {LABELS[cell.method]}",
        view=view,
        figure=lambda rows: shift_curves(rows, (OF_MLP, OF_LENET)),
    )
}
