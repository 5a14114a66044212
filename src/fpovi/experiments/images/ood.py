# SPDX-License-Identifier: Apache-2.0
"""``ood``: does a classifier know that it has never seen such images, and what do extra measurement points do for it?

Networks learn digits and are shown clothes, or the other way round, and both are shown noise. Flows in function space
differ in one thing: where functions are compared with the prior and with each other beside the labelled images. Every
setting was chosen on held-out training images, as they are and turned, inverted or dimmed; test images of the other set
had no say.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fpovi._lookup import lookup
from fpovi.datasets.images import load_images
from fpovi.experiments.harness.experiment import Experiment, Options, Watch, silent
from fpovi.experiments.harness.statistics import collect, mean_of
from fpovi.experiments.harness.store import Cell, Row, Store
from fpovi.experiments.harness.view import View, method_chart
from fpovi.experiments.images.methods import (
    LIKELIHOOD,
    SPREAD,
    Method,
    drawn_from,
    fan_out_mlp,
    function_method,
    weight_method,
)
from fpovi.experiments.images.mnist import ADAM, OTHER, PARTICLES, SIZES
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
from fpovi.experiments.images.view import CLEAN, Column, method_table
from fpovi.experiments.paper_parts import PAPER_FLOWS, median_rbf
from fpovi.measurement import mixup, shuffled_patches, train_only, uniform_box
from fpovi.plots import FUNCTION_SPACE, WEIGHT_SPACE
from fpovi.priors import sampled_gp
from fpovi.robustness import ood_scores
from fpovi.types import FunctionPrior, Key, Measurement, Network

SHAPE = (28, 28, 1)
EXTRA_POINTS, PRIOR_DRAWS, PRIOR_POINTS, LOGIT_STD = 100, 40, 64, 1.0
LUMINANCE = np.asarray([0.299, 0.587, 0.114], np.float32)


class Preset(NamedTuple):
    """How many seeds, epochs and training images, and which methods."""

    seeds: int
    epochs: int
    rows: int | None
    methods: tuple[str, ...]


def as_images(measurement: Measurement) -> Measurement:
    """Return a measurement set of images for networks that take them as vectors."""

    def draw(key: Key, labelled: Float[Array, "B_ d_x"]) -> Float[Array, "B d_x"]:
        return measurement(key, labelled.reshape(-1, *SHAPE)).reshape(-1, labelled.shape[1])

    return draw


def several(*measurements: Measurement) -> Measurement:
    """Return the extra points of several measurement sets, one after the other."""

    def draw(key: Key, labelled: Float[Array, "B_ *d_x"]) -> Float[Array, "B *d_x"]:
        keys = jax.random.split(key, len(measurements))
        extra = [one(key, labelled)[len(labelled) :] for one, key in zip(measurements, keys, strict=True)]
        return jnp.concatenate([labelled, *extra])

    return draw


def _third(size: int) -> Measurement:
    """Return noise, shuffled patches and blends, as many of each as possible."""
    share = size // 3
    return as_images(several(shuffled_patches(size - 2 * share), mixup(share), uniform_box(share)))


from_pool = partial(drawn_from, size=EXTRA_POINTS)
# method -> what it is called, and its measurement set given a pool of images
EXTRA: dict[str, tuple[str, Callable[[Array], Measurement]]] = {
    "f-none": ("f-GFSF, no extra points", lambda pool: train_only()),
    "f-train": ("f-GFSF, more training images", from_pool),
    "f-noise": ("f-GFSF, noise", lambda pool: as_images(uniform_box(EXTRA_POINTS))),
    "f-blends": ("f-GFSF, blends of two images", lambda pool: as_images(mixup(EXTRA_POINTS))),
    "f-patches": ("f-GFSF, shuffled patches", lambda pool: as_images(shuffled_patches(EXTRA_POINTS))),
    "f-mixed": ("f-GFSF, a third of each of these three", lambda pool: _third(EXTRA_POINTS)),
    "f-unlabelled": ("f-GFSF, grey photographs", from_pool),
    "f-other": ("f-GFSF, the other set (sees its training images)", from_pool),
}
LABELS = {"ensemble": "ensemble of 5", **{name: label for name, (label, _) in EXTRA.items()}}
COLUMNS = {
    **CLEAN,
    "other_auroc_entropy": Column("AUROC, entropy", more=True),
    "other_auroc_mutual_information": Column("mutual information", more=True),
    "other_auroc_disagreement": Column("disagreement", more=True),
    "other_aupr_entropy": Column("AUPR", more=True),
    "other_fpr95_entropy": Column("FPR at 95 %"),
    "noise_auroc_entropy": Column("noise: AUROC", more=True),
    "noise_fpr95_entropy": Column("noise: FPR"),
}
PRESETS = {
    "quick": Preset(1, 6, 10_000, ("ensemble", "f-none", "f-train", "f-noise", "f-patches", "f-unlabelled")),
    "full": Preset(3, 12, None, tuple(LABELS)),
}


def _prior(network: Network) -> FunctionPrior:
    return sampled_gp(network, LIKELIHOOD, PRIOR_DRAWS, LOGIT_STD)


@lru_cache
def method(name: str) -> Method:
    """Return a method by its name."""
    lookup(LABELS, name, "method")
    if name == "ensemble":
        spread = partial(fan_out_mlp, SIZES, SPREAD)
        return weight_method(spread, PAPER_FLOWS["ensemble"], median_rbf(), PARTICLES, ADAM)
    _, measurement = EXTRA[name]
    return function_method(
        partial(fan_out_mlp, SIZES), _prior, PAPER_FLOWS["gfsf"], median_rbf(), PARTICLES, measurement, ADAM,
        prior_size=PRIOR_POINTS,
    )  # fmt: skip


def grey_photographs() -> Float[np.ndarray, "N 28 28 1"]:
    """Return the middle of all training images of the part of CIFAR-10, in shades of grey."""
    return (load_images("cifar10").x_train @ LUMINANCE)[:, 2:30, 2:30, None]


def pool_of(name: str, dataset: str, shift: float) -> Float[np.ndarray, "M d_x"] | None:
    """Return the images a method takes extra points from, or None for the training images."""
    if name == "f-unlabelled":
        return grey_photographs().reshape(-1, SIZES[0]) - np.float32(shift)
    return np.asarray(prepare(OTHER[dataset], shift=shift, flat=True).train.x) if name == "f-other" else None


def noise_like(images: Images, seed: int = 0) -> Float[np.ndarray, "N d_x"]:
    """Return as many images of noise, each pixel uniform between black and white, as there are test images."""
    pixels = np.random.default_rng(seed).random(images.x_test.shape, np.float32)
    return pixels - np.float32(images.shift)


def cells(options: Options) -> list[Cell]:
    """Return the cells of every seed, set and method of a preset."""
    preset = lookup(PRESETS, options.preset, "preset")
    return image_cells("ood", options, preset.seeds, tuple(OTHER), preset.methods, OTHER, LABELS)


def run_cell(cell: Cell, watch: Watch = silent, store: Store | None = None) -> dict[str, Any]:
    """Return the scores of the test images, and how well the other set's and noise are told from them."""
    preset, chosen = lookup(PRESETS, cell.preset, "preset"), method(cell.method)
    images = prepare(cell.dataset, preset.rows, flat=True)
    pool = pool_of(cell.method, cell.dataset, images.shift)
    task = ImageTask(cell.seed, images, preset.epochs, checkpoint=checkpoint_of(store, cell), pool=pool)
    found = train_images(task, chosen, watch)
    on = partial(log_probs, chosen.network(), found.particles, found.network_state)
    inside = on(images.x_test)
    outside = {"other": prepare(OTHER[cell.dataset], 1, images.shift, flat=True).x_test, "noise": noise_like(images)}
    told = {
        f"{name}_{score}": value
        for name, x in outside.items()
        for score, value in ood_scores(inside, on(x)).items()
    }  # fmt: skip
    clean = class_scores(inside, images.y_test)
    return {**clean, **told, "epoch": found.epoch, "valid_nll": found.valid_nll}


def view(rows: Sequence[Row]) -> View:
    """Return a table with a line per method: clean scores, and how images of the other set and noise are told."""
    notes = (
        "AUROC, AUPR (average precision) and FPR at 95 % of test images of the other set against those of the own set, "
        "by entropy where nothing else is said.",
    )
    return method_table(rows, LABELS, "Images of another set", COLUMNS, notes=notes)


def figure(rows: Sequence[Row]) -> Figure:
    """Draw how well each method tells the other set, and noise, from what it has learnt."""
    shown = {
        "other_auroc_entropy": "AUROC, entropy",
        "other_auroc_mutual_information": "AUROC, mutual information",
    }
    found = {metric: collect(rows, metric) for metric in shown}
    names = [name for name in LABELS if any(row.cell.method == name for row in rows)]

    def draw(panel: Axes, dataset: str, metric: str) -> None:
        for height, name in enumerate(names):
            values = list(found[metric].get(dataset, {}).get(name, {}).values())
            if values:
                colour = WEIGHT_SPACE if name == "ensemble" else FUNCTION_SPACE
                mean = mean_of(values)
                panel.errorbar(mean.value, height, xerr=np.nan_to_num(mean.error), fmt="o", color=colour)

    note = "trained on the set above; the other of the two is what should be told from it"
    labels = [LABELS[name].removeprefix("f-GFSF, ") for name in names]
    return method_chart(tuple(OTHER), labels, shown, draw, (11, 0.7 * len(names) + 2), note)


EXPERIMENTS = {
    "ood": Experiment(
        cells=cells,
        run=run_cell,
        label=lambda cell: f"{cell.dataset}, seed {cell.seed}: {LABELS[cell.method]}",
        view=view,
        figure=figure,
    )
}
