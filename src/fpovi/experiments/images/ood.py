# SPDX-License-Identifier: Apache-2.0
"""``ood``: does a classifier know that it has never seen such images, and what do extra measurement points do for it?

Networks learn digits and are shown clothes, or the other way round, and both are shown noise. Flows in function space
differ in one thing: where functions are compared with the prior and with each other beside the labelled images. The
preset ``tuning`` tries settings of the ensemble and of the flow by how well they tell held-out training images that are
turned, cut in two and swapped, inverted or dimmed from those that are not; test images have no say.
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
from fpovi.experiments.images.tuning import Settings, candidates
from fpovi.experiments.images.view import CLEAN, Column, method_table
from fpovi.experiments.paper_parts import PAPER_FLOWS, median_rbf
from fpovi.measurement import mixup, shuffled_patches, train_only, uniform_box
from fpovi.plots import FUNCTION_SPACE, WEIGHT_SPACE
from fpovi.priors import sampled_gp
from fpovi.robustness import ood_scores
from fpovi.types import FunctionPrior, Key, Measurement, Network

SHAPE = (28, 28, 1)
EXTRA_POINTS, PRIOR_DRAWS = 100, 40
LUMINANCE = np.asarray([0.299, 0.587, 0.114], np.float32)


# held-out images made strange, of pixels between black (0) and white (1)
STRANGE: dict[str, Callable[[Float[np.ndarray, "N H W"]], Float[np.ndarray, "N H W"]]] = {
    "turned": lambda pixels: np.rot90(pixels, axes=(1, 2)),
    "halves swapped": lambda pixels: np.roll(pixels, pixels.shape[1] // 2, axis=1),
    "inverted": lambda pixels: 1 - pixels,
    "dimmed": lambda pixels: np.float32(0.3) * pixels,
}


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
TUNING = {
    "valid_error": Column("error, %", 100.0),
    "valid_nll": Column("NLL"),
    **{f"{name}_auroc_entropy": Column(f"AUROC, {name}", more=True) for name in STRANGE},
    "mean_auroc": Column("mean AUROC", more=True),
}
# from earlier trials by strange held-out images; the preset ``tuning`` compares them with GRID
CHOSEN: dict[str, Settings] = {"ensemble": {"spread": 100.0}, "f-gfsf": {"std": 1.0, "prior_points": 64}}
GRID: dict[str, dict[str, tuple[float, ...]]] = {
    "ensemble": {"spread": (1.0, 10.0, 100.0, 1000.0)},
    "f-none": {"std": (1.0, 3.0), "prior_points": (16, 64)},
}
CANDIDATES = candidates(GRID)
PRESETS = {
    "quick": Preset(1, 6, 10_000, ("ensemble", "f-none", "f-train", "f-noise", "f-patches", "f-unlabelled")),
    "full": Preset(3, 12, None, tuple(LABELS)),
    "tuning": Preset(1, 6, None, tuple(CANDIDATES)),
}


@lru_cache
def method(name: str) -> Method:
    """Return a method, or a candidate for one, by its name."""
    kind, settings = CANDIDATES.get(name) or (name, CHOSEN["ensemble" if name == "ensemble" else "f-gfsf"])
    lookup(LABELS, kind, "method")
    return _ensemble(**settings) if kind == "ensemble" else _function(kind, **settings)


def _ensemble(spread: float) -> Method:
    network = partial(fan_out_mlp, SIZES, spread)
    return weight_method(network, PAPER_FLOWS["ensemble"], median_rbf(), PARTICLES, ADAM)


def _function(name: str, std: float, prior_points: float) -> Method:
    _, measurement = EXTRA[name]

    def prior(network: Network) -> FunctionPrior:
        return sampled_gp(network, LIKELIHOOD, PRIOR_DRAWS, std)

    return function_method(
        partial(fan_out_mlp, SIZES), prior, PAPER_FLOWS["gfsf"], median_rbf(), PARTICLES, measurement, ADAM,
        prior_size=int(prior_points),
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
    known = LABELS.keys() | set(preset.methods)
    return image_cells("ood", options, preset.seeds, tuple(OTHER), preset.methods, OTHER, known)


def run_cell(cell: Cell, watch: Watch = silent, store: Store | None = None) -> dict[str, Any]:
    """Return the scores of the test images, and how well the other set's and noise are told from them.

    Of a candidate, the scores of held-out training images, and how well those made strange are told from them.
    """
    preset, chosen = lookup(PRESETS, cell.preset, "preset"), method(cell.method)
    images = prepare(cell.dataset, preset.rows, flat=True)
    pool = pool_of(cell.method, cell.dataset, images.shift)
    task = ImageTask(cell.seed, images, preset.epochs, checkpoint=checkpoint_of(store, cell), pool=pool)
    found = train_images(task, chosen, watch)
    on = partial(log_probs, chosen.network(), found.particles, found.network_state)
    choice = {"epoch": found.epoch, "valid_nll": found.valid_nll}
    if cell.method in CANDIDATES:
        inside = on(images.x_valid)
        told = _told(inside, {name: on(x) for name, x in strange(images).items()})
        mean = float(np.mean([told[f"{name}_auroc_entropy"] for name in STRANGE]))
        return {**told, **choice, "mean_auroc": mean, "valid_error": class_scores(inside, images.y_valid)["error"]}
    inside, other = on(images.x_test), prepare(OTHER[cell.dataset], 1, images.shift, flat=True).x_test
    told = _told(inside, {"other": on(other), "noise": on(noise_like(images))})
    return {**class_scores(inside, images.y_test), **told, **choice}


def _told(inside: np.ndarray, outside: dict[str, np.ndarray]) -> dict[str, float]:
    """Return by name how well the log-probabilities of outside images are told from those inside."""
    return {f"{name}_{score}": value for name, f in outside.items() for score, value in ood_scores(inside, f).items()}


def strange(images: Images) -> dict[str, Float[np.ndarray, "N d_x"]]:
    """Return held-out training images made strange, in the units a network sees."""
    pixels = images.x_valid.reshape(-1, *SHAPE[:2]) + np.float32(images.shift)
    return {
        name: make(pixels).reshape(images.x_valid.shape) - np.float32(images.shift) for name, make in STRANGE.items()
    }


def view(rows: Sequence[Row]) -> View:
    """Return a table with a line per method: clean scores, and how images of the other set and noise are told."""
    if all(row.cell.method in CANDIDATES for row in rows):
        return method_table(rows, {name: name for name in CANDIDATES}, "Settings by held-out training images", TUNING)
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
        label=lambda cell: f"{cell.dataset}, seed {cell.seed}: {LABELS.get(cell.method, cell.method)}",
        view=view,
        figure=figure,
    )
}
