# SPDX-License-Identifier: Apache-2.0
"""``adaptation``: unlabelled inputs of the region that will be asked about, as measurement points.

Wang et al. (2019) suggest to draw the measurement set from the inputs of the target domain where that is not the one of
the training rows, and report no experiment on it. Here the training rows (the source) are those at one end of the first
principal component of a UCI set's inputs, and the target is the other end. Half of the target's rows provide their
inputs, without targets, as points at which functions are compared; the other half are the test rows. Each method is run
with these inputs and without, on the same rows.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from fpovi._lookup import lookup
from fpovi.calibration import evaluate
from fpovi.datasets.uci import UCI, Regression, Split, load_uci
from fpovi.estimators import BNNRegressor
from fpovi.experiments.harness.comparison import SCORES
from fpovi.experiments.harness.experiment import Options, Watch, grid, silent
from fpovi.experiments.harness.store import Cell, Store
from fpovi.experiments.uci.methods import TrainingTask, gaussian_process, scaled_model, train_networks
from fpovi.experiments.uci.paper_learners import LEARNERS, PARTICLES, function_space_learner, noisy_centres
from fpovi.experiments.uci.run import batch_size_and_epochs
from fpovi.experiments.uci.setups import SETUPS, SMALL
from fpovi.measurement import halo, points
from fpovi.predictive import Predictive
from fpovi.tabular import learn_encoder, standardiser
from fpovi.types import Key

SOURCE_SHARE = 0.7  # of all rows
TRAIN_SHARE = 0.9  # of the source's rows; the others test that nothing is lost there
EXTRA_POINTS = 20  # of each kind in a step of the estimator
TARGET = "-target"  # ends the name of a method that is given the target's inputs
LABELS = {
    "f-svgd": "f-SVGD",
    "f-svgd-target": "f-SVGD, target's inputs",
    "fpovi": "BNNRegressor()",
    "fpovi-target": "BNNRegressor(), target's inputs",
    "ensemble": "deep ensemble",
    "gp": "Gaussian process",
}
HIDDEN = SETUPS["uci"].hidden
Inputs = NDArray[np.float64]


class Preset(NamedTuple):
    """Sets, how many divisions of each into rows, and the epochs of sets with few rows and of others."""

    datasets: tuple[str, ...]
    splits: int
    epochs: tuple[int, int]


PRESETS = {
    "quick": Preset(("boston", "yacht"), 2, epochs=SETUPS["uci"].presets["quick"].epochs),
    "full": Preset((*SMALL, "power"), 10, epochs=SETUPS["uci"].presets["paper"].epochs),
}


class Regions(NamedTuple):
    """Row numbers: of the source, to train and to test on; of the target, without targets and to test on."""

    train: NDArray[np.intp]
    source: NDArray[np.intp]
    unlabelled: NDArray[np.intp]
    target: NDArray[np.intp]


def divide(x: NDArray[np.float64], number: int) -> Regions:
    """Return the rows below the quantile .7 of the first principal component as the source, the others as the target.

    Within a region rows are divided at random; ``number`` is the seed.
    """
    z = standardiser(x)(x)
    axis = np.linalg.svd(z, full_matrices=False)[2][0]
    axis *= np.sign(axis[np.argmax(np.abs(axis))])  # an axis has no direction of its own
    order = np.argsort(z @ axis, kind="stable")
    rng, cut = np.random.default_rng(number), round(SOURCE_SHARE * len(x))
    source, target = rng.permutation(order[:cut]), rng.permutation(order[cut:])
    kept, half = round(TRAIN_SHARE * len(source)), len(target) // 2
    return Regions(source[:kept], source[kept:], target[:half], target[half:])


def make_task(cell: Cell, data: Regression, regions: Regions) -> TrainingTask:
    """Return a task with the paper's settings; its test rows are those of the target, then those of the source."""
    tested = np.concatenate([regions.target, regions.source])
    batch_size, epochs = batch_size_and_epochs(len(data.y), lookup(PRESETS, cell.preset, "preset").epochs)
    return TrainingTask(
        seed=1000 * cell.seed + cell.split,
        split=Split(data.x[regions.train], data.y[regions.train], data.x[tested], data.y[tested]),
        hidden=HIDDEN,
        batch_size=batch_size,
        epochs=epochs,
    )


def _f_svgd(task: TrainingTask, unlabelled: Inputs, watch: Watch) -> Predictive:
    """Train f-SVGD with the paper's extra points near the target's inputs in place of the training rows."""
    inputs = jnp.asarray(scaled_model(task).scaled.inputs(unlabelled), jnp.float32)
    return train_networks(function_space_learner("svgd", noisy_centres(inputs)), task, watch)


def _fpovi(task: TrainingTask, unlabelled: Inputs | None) -> Predictive:
    """Fit the estimator; to its points around the training rows come as many of the target's inputs."""
    model = BNNRegressor(hidden_layer_sizes=task.hidden, n_particles=PARTICLES, random_state=task.seed)
    split = task.split
    if unlabelled is not None:
        near = halo(EXTRA_POINTS, reach=2.0, scale=1.0)
        there = points(learn_encoder(split.x_train)(unlabelled), EXTRA_POINTS)

        def both(key: Key, labelled: Float[Array, "B_ d_x"]) -> Float[Array, "B d_x"]:
            key_near, key_there = jax.random.split(key)
            return there(key_there, near(key_near, labelled))

        model.set_params(measurement=both)
    return model.fit(split.x_train, split.y_train).predict_dist(split.x_test)


METHODS: dict[str, Callable[[TrainingTask, Inputs, Watch], Predictive]] = {
    "f-svgd": lambda task, unlabelled, watch: train_networks(LEARNERS["f-svgd"], task, watch),
    "f-svgd-target": _f_svgd,
    "fpovi": lambda task, unlabelled, watch: _fpovi(task, None),
    "fpovi-target": lambda task, unlabelled, watch: _fpovi(task, unlabelled),
    "ensemble": lambda task, unlabelled, watch: train_networks(LEARNERS["ensemble"], task, watch),
    "gp": lambda task, unlabelled, watch: gaussian_process(task, watch),
}


def cells(options: Options) -> list[Cell]:
    """Return the cells of every method on every division of every set; ``split_kind`` is ignored."""
    preset = lookup(PRESETS, options.preset, "preset")
    return grid(
        "adaptation", options._replace(split_kind="standard"),
        datasets=preset.datasets, splits=lambda dataset: preset.splits, methods=tuple(METHODS),
        known_datasets=UCI, known_methods=METHODS,
    )  # fmt: skip


def run_cell(cell: Cell, watch: Watch = silent, store: Store | None = None) -> dict[str, Any]:
    """Return the scores on the target's test rows, and as ``source_…`` those on the source's."""
    data = load_uci(cell.dataset)
    regions = divide(data.x, cell.split)
    task = make_task(cell, data, regions)
    answer = lookup(METHODS, cell.method, "method")(task, data.x[regions.unlabelled], watch)
    in_target = np.arange(len(task.split.y_test)) < len(regions.target)
    rows_of = {"": in_target, "source_": ~in_target}
    found = {prefix: evaluate(answer, task.split.y_test, rows.astype(float)) for prefix, rows in rows_of.items()}
    return {f"{prefix}{name}": float(scores[name]) for prefix, scores in found.items() for name in SCORES}
