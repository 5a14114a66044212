# SPDX-License-Identifier: Apache-2.0
"""``adaptation``: does it help to know where one will be asked? Unlabelled inputs of another region as measurement set.

Wang et al. (2019) suggest to draw the measurement set from the inputs of the target domain where that is not the one of
the training rows, and try it nowhere. Here the training rows are those at one end of the first principal component of a
UCI set's inputs, and the questions come from the other end. Half of the rows there lend their inputs, without targets,
as points at which functions are compared; the other half are the test rows. Each method is run with these inputs and
without, on the same rows.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from fpovi.calibration import evaluate
from fpovi.datasets.uci import UCI, Regression, Split, load_uci
from fpovi.estimators import BNNRegressor
from fpovi.experiments.harness.comparison import SCORES
from fpovi.experiments.harness.experiment import Options, Watch, grid, silent
from fpovi.experiments.harness.store import Cell, Store
from fpovi.experiments.uci.learners import LEARNERS, PARTICLES, by_functions, surroundings
from fpovi.experiments.uci.methods import Task, gaussian_process, learn_networks, lesson_of
from fpovi.experiments.uci.run import pace
from fpovi.experiments.uci.setups import SETUPS, SMALL
from fpovi.measurement import halo, points
from fpovi.predictive import Predictive
from fpovi.tabular import learn_encoder, standardiser
from fpovi.types import Key, lookup

SOURCE = 0.7  # the share of rows in the region that trains
KEPT = 0.9  # of these, the share that trains; the others test that nothing is lost where one has been
EXTRA = 20  # points of each kind in a step of the estimator
TARGET = "-target"  # ends the name of a method that is given the inputs
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
    """Row numbers: of the source to train and to test on, of the target to look at and to test on."""

    train: NDArray[np.intp]
    source: NDArray[np.intp]
    unlabelled: NDArray[np.intp]
    target: NDArray[np.intp]


def divide(x: NDArray[np.float64], number: int) -> Regions:
    """The rows below the quantile .7 of the first principal component are the source; within regions, at random."""
    z = standardiser(x)(x)
    axis = np.linalg.svd(z, full_matrices=False)[2][0]
    axis *= np.sign(axis[np.argmax(np.abs(axis))])  # an axis has no direction of its own
    order = np.argsort(z @ axis, kind="stable")
    rng, cut = np.random.default_rng(number), round(SOURCE * len(x))
    source, target = rng.permutation(order[:cut]), rng.permutation(order[cut:])
    kept, half = round(KEPT * len(source)), len(target) // 2
    return Regions(source[:kept], source[kept:], target[:half], target[half:])


def task_of(cell: Cell, data: Regression, regions: Regions) -> Task:
    """The paper's settings. Its test rows are those of the target, then those of the source."""
    tested = np.concatenate([regions.target, regions.source])
    batch_size, epochs = pace(len(data.y), lookup(PRESETS, cell.preset, "preset").epochs)
    return Task(
        seed=1000 * cell.seed + cell.split,
        split=Split(data.x[regions.train], data.y[regions.train], data.x[tested], data.y[tested]),
        hidden=HIDDEN,
        batch_size=batch_size,
        epochs=epochs,
    )


def _f_svgd(task: Task, unlabelled: Inputs, watch: Watch) -> Predictive:
    """The paper's extra points, near the target's inputs in place of the training rows."""
    inputs = jnp.asarray(lesson_of(task).scaled.inputs(unlabelled), jnp.float32)
    return learn_networks(by_functions("svgd", surroundings(inputs)), task, watch)


def _fpovi(task: Task, unlabelled: Inputs | None) -> Predictive:
    """The estimator; to its points around the training rows come as many of the target's inputs."""
    model = BNNRegressor(hidden_layer_sizes=task.hidden, n_particles=PARTICLES, random_state=task.seed)
    split = task.split
    if unlabelled is not None:
        near, there = halo(EXTRA), points(learn_encoder(split.x_train)(unlabelled), EXTRA)

        def both(key: Key, labelled: Float[Array, "B_ d_x"]) -> Float[Array, "B d_x"]:
            key_near, key_there = jax.random.split(key)
            return there(key_there, near(key_near, labelled))

        model.set_params(measurement=both)
    return model.fit(split.x_train, split.y_train).predict_dist(split.x_test)


METHODS: dict[str, Callable[[Task, Inputs, Watch], Predictive]] = {
    "f-svgd": lambda task, unlabelled, watch: learn_networks(LEARNERS["f-svgd"], task, watch),
    "f-svgd-target": _f_svgd,
    "fpovi": lambda task, unlabelled, watch: _fpovi(task, None),
    "fpovi-target": lambda task, unlabelled, watch: _fpovi(task, unlabelled),
    "ensemble": lambda task, unlabelled, watch: learn_networks(LEARNERS["ensemble"], task, watch),
    "gp": lambda task, unlabelled, watch: gaussian_process(task, watch),
}


def cells(options: Options) -> list[Cell]:
    """Every method on every division of every set; ``split_kind`` has no say."""
    preset = lookup(PRESETS, options.preset, "preset")
    whole = options._replace(split_kind="standard")
    return grid(
        "adaptation", whole, datasets=preset.datasets, splits=lambda dataset: preset.splits, methods=tuple(METHODS),
        known_datasets=UCI, known_methods=METHODS,
    )  # fmt: skip


def run_cell(cell: Cell, watch: Watch = silent, store: Store | None = None) -> dict[str, Any]:
    """The scores on the target's test rows, and ``source_…`` those on the source's."""
    data = load_uci(cell.dataset)
    regions = divide(data.x, cell.split)
    task = task_of(cell, data, regions)
    answer = lookup(METHODS, cell.method, "method")(task, data.x[regions.unlabelled], watch)
    in_target = np.arange(len(task.split.y_test)) < len(regions.target)
    places = {"": in_target, "source_": ~in_target}
    found = {before: evaluate(answer, task.split.y_test, rows.astype(float)) for before, rows in places.items()}
    return {f"{before}{name}": float(scores[name]) for before, scores in found.items() for name in SCORES}
