# SPDX-License-Identifier: Apache-2.0
"""Training on labelled images: the task, the loop with checkpoints, and the choice of an epoch by held-out images."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from fpovi.calibration import evaluate
from fpovi.datasets.images import load_images, validation_split
from fpovi.experiments.harness.experiment import Options, Watch, grid
from fpovi.experiments.harness.store import Cell, Store, versions
from fpovi.experiments.harness.verify import OF_CODE
from fpovi.experiments.images.methods import Method
from fpovi.fitting.training import belongs_to, fingerprint_of, train
from fpovi.inference.batches import make_batch
from fpovi.predictive import of_classes
from fpovi.robustness.log_probs import LogProbs, values
from fpovi.types import Batch, Network, PyTree, State

BLOCK = 1000  # images at which all particles are evaluated together
HELD = 10_000  # of the training images, the last ones, to choose by

Pixels = Float[np.ndarray, "N *d_x"]
Labels = Int[np.ndarray, " N"]


class Images(NamedTuple):
    """Images in the units a network sees, the training images as a batch, and what was subtracted from all pixels."""

    train: Batch
    x_valid: Pixels
    y_valid: Labels
    x_test: Pixels
    y_test: Labels
    shift: float


class ImageTask(NamedTuple):
    """Images to learn: for how many epochs, with how many images per step, and epochs between two looks.

    In a look the held-out images are predicted; the state that predicts them best is the result. Methods take extra
    points from ``pool``, the training images by default.
    """

    seed: int
    images: Images
    epochs: int
    batch_size: int = 100
    epochs_per_look: int = 2
    checkpoint: Path | None = None
    pool: Float[np.ndarray, "M *d_x"] | None = None

    @property
    def steps_per_epoch(self) -> int:
        """The number of steps of an epoch; the last may be on fewer images."""
        return -(-self.images.train.x.shape[0] // self.batch_size)

    @property
    def steps(self) -> int:
        """The number of steps of all epochs."""
        return self.epochs * self.steps_per_epoch


class Trained(NamedTuple):
    """The particles that predict held-out images best, what networks carry, the epoch and the NLL there.

    ``members`` are what was trained: the particles, or what they are drawn from.
    """

    members: PyTree
    particles: PyTree
    network_state: PyTree
    epoch: float
    valid_nll: float


def prepare(name: str, rows: int | None = None, shift: float | None = None, flat: bool = False) -> Images:
    """Return images less the mean of all training pixels, as in the paper's released code.

    Args:
        name: a key of :data:`fpovi.datasets.images.IMAGES`.
        rows: how many training images to use; all by default.
        shift: what is subtracted in place of that mean: the shift of the images that a network was trained on.
        flat: return vectors in place of ``(N, H, W, C)``.
    """
    found = load_images(name)
    split = validation_split(found, held=min(HELD, len(found.y_train) // 5))
    shift = float(np.mean(split.x_train, dtype=np.float64)) if shift is None else shift
    x_train, x_valid, x_test = (
        (images.reshape(len(images), -1) if flat else images) - np.float32(shift)
        for images in (split.x_train[:rows], split.x_valid, split.x_test)
    )
    return Images(make_batch(x_train, split.y_train[:rows]), x_valid, split.y_valid, x_test, split.y_test, shift)


def image_cells(
    experiment: str,
    options: Options,
    seeds: int,
    datasets: Sequence[str],
    methods: Sequence[str],
    known_datasets: Collection[str],
    known_methods: Collection[str],
) -> list[Cell]:
    """Return the cells of all methods on all sets for so many seeds, or for the one that a user has chosen."""
    found = grid(
        experiment, options, datasets=datasets, splits=lambda dataset: 1, methods=methods,
        known_datasets=known_datasets, known_methods=known_methods,
    )  # fmt: skip
    chosen = range(seeds) if options.seed is None else [options.seed]
    return [replace(cell, seed=seed) for seed in chosen for cell in found]


def checkpoint_of(store: Store | None, cell: Cell) -> Path | None:
    """Return where the progress of a cell is kept while it runs."""
    return None if store is None else store.checkpoint(cell)


def train_images(task: ImageTask, method: Method, watch: Watch) -> Trained:
    """Train the members of a method, and return the particles of the look in which held-out images fared best."""
    key_start, key_run, key_draws = jax.random.split(jax.random.key(task.seed), 3)
    pool = task.images.train.x if task.pool is None else jnp.asarray(task.pool)
    algorithm = method.algorithm(pool, task.steps)
    state = algorithm.algorithm.init(key_start, method.members)
    fingerprint = _fingerprint(task, pool)
    if task.checkpoint is not None and not belongs_to(task.checkpoint, fingerprint):
        task.checkpoint.unlink(missing_ok=True)
    looks: list[float] = []

    def validate(state: State) -> float:
        particles = method.draws(key_draws, jax.tree.map(jnp.asarray, state.particles))
        f = log_probs(method.network(), particles, state.network_state, task.images.x_valid)
        looks.append(evaluate(of_classes(f), task.images.y_valid)["nll"])
        watch(int(state.step), task.steps, looks[-1])
        return looks[-1]

    done = train(
        key_run, algorithm, state, task.images.train, task.steps, batch_size=task.batch_size, validate=validate,
        every=task.epochs_per_look * task.steps_per_epoch, patience=None, checkpoint=task.checkpoint,
        fingerprint=fingerprint,
    )  # fmt: skip
    members = jax.tree.map(jnp.asarray, done.state.particles)
    best = int(np.argmin(done.scores))
    epoch = min((best + 1) * task.epochs_per_look, task.epochs)
    return Trained(members, method.draws(key_draws, members), done.state.network_state, epoch, float(done.scores[best]))


def _fingerprint(task: ImageTask, pool: Array) -> str:
    """Return a digest of data and length of a run, and of the code, which holds all other settings."""
    if task.checkpoint is None:
        return ""
    code = {name: value for name, value in versions().items() if name in OF_CODE}
    return fingerprint_of(f"{task.seed} {task.epochs} {task.batch_size} {code}", task.images.train, pool)


def log_probs(network: Network, particles: PyTree, network_state: PyTree, x: Pixels) -> Float[np.ndarray, "n N k"]:
    """Return the log-probabilities of all classes for every particle, a block of images at a time."""
    return values(LogProbs(network, particles, network_state), x, jax.random.key(0), BLOCK)


def class_scores(f: Float[np.ndarray, "n N k"], y: Labels) -> dict[str, float]:
    """Return error, NLL, Brier score and ECE of the mixture, and the mean error of single particles."""
    found = evaluate(of_classes(f), y)
    single = float(np.mean(np.argmax(f, axis=2) != y))
    return {"error": 1 - found["accuracy"], "nll": found["nll"], "brier": found["brier"], "ece": found["ece"],
            "single_error": single}  # fmt: skip
