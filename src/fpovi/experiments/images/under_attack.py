# SPDX-License-Identifier: Apache-2.0
"""What attacks make of classifiers of images: along several gradients, from several starts, and from another ensemble.

A model that resists the gradient of its own mean probability may only hide it: where it is sure, that gradient has
faded in float32. So images are also attacked along the mean of the particles' log-probabilities, along the margin, and
through a plain ensemble; and a radius that leaves nothing of an image must leave nothing of the accuracy.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from fpovi.experiments.harness.experiment import silent
from fpovi.experiments.harness.store import Store
from fpovi.experiments.images.methods import Method
from fpovi.experiments.images.training import ImageTask, log_probs, train_images
from fpovi.fitting.training import fingerprint_of
from fpovi.persistence import flatten_tree, read_file, restore_tree, write_file
from fpovi.robustness import LOSSES, LogProbs, Redrawn, fgsm, pgd, trajectory, uncertainties

OWN_LOSSES = {"own": "mean_probability", "mean_log": "mean_log"}  # attack -> what it climbs
STEPS_ACROSS = 5  # of a radius, for steps in a ball
PADDED = 256  # rows that are attacked together are a multiple of this, so that programs are used again

Pixels = Float[np.ndarray, "N *d_x"]
Curves = dict[str, dict[str, list[float]]]


class Attacked(NamedTuple):
    """A classifier and images to attack.

    Attributes:
        model: what gradients go through: particles, or networks that are drawn anew for every gradient.
        answer: what is asked about the images that come out of it; the particles themselves for most.
        x, y: images and their labels.
        low, high: the darkest and the brightest pixel.
        seed: of random starts and drawn networks.
    """

    model: LogProbs | Redrawn
    answer: LogProbs
    x: Pixels
    y: Int[np.ndarray, " N"]
    low: float
    high: float
    seed: int = 0

    def says(self, x: Pixels) -> Float[np.ndarray, "n N k"]:
        """Return the log-probabilities of the classifier."""
        return log_probs(self.answer.network, self.answer.particles, self.answer.network_state, x)

    @property
    def options(self) -> dict[str, Any]:
        """The arguments that all attacks share."""
        return {"low": self.low, "high": self.high, "key": jax.random.key(self.seed)}


def is_right(f: Float[np.ndarray, "n N k"], y: Int[np.ndarray, " N"]) -> Bool[np.ndarray, " N"]:
    """Tell where the ensemble's most probable class is the label."""
    right: Bool[np.ndarray, " N"] = np.argmax(np.exp(np.asarray(f, np.float64)).mean(axis=0), axis=1) == y
    return right


def radius_curves(case: Attacked, source: LogProbs, radii: Sequence[float]) -> Curves:
    """Return the accuracy after one step of each radius: along both own gradients, and along that of another ensemble.

    The label to get away from is what the attacked model predicts, as in the paper's code.

    Args:
        case: the classifier and the images.
        source: the other ensemble.
        radii: in the units of pixels; the curves begin with images as they are.
    """

    def curve(model: Any, y: Any, loss: str) -> dict[str, list[float]]:
        moved = (fgsm(model, case.x, y, epsilon=radius, loss=loss, **case.options) for radius in radii)
        return {"accuracy": [float(np.mean(is_right(case.says(x), case.y))) for x in (case.x, *moved)]}

    own = {name: curve(case.model, None, loss) for name, loss in OWN_LOSSES.items()}
    return {**own, "transfer": curve(source, case.y, OWN_LOSSES["own"])}


def targeted_curves(case: Attacked, source: LogProbs, target: int, step: float, steps: int) -> Curves:
    """Return what becomes of a classifier in every step towards a class, along the same three gradients.

    Args:
        case: the classifier and the images.
        source: another ensemble to attack through.
        target: the class.
        step: the change of every pixel in a step.
        steps: how many.
    """
    towards: dict[str, Any] = {**case.options, "target": target, "step": step, "steps": steps}
    curves = {
        name: _curve((f for _, f in trajectory(case.model, case.x, **towards, loss=loss)), case.y)
        for name, loss in OWN_LOSSES.items()
    }
    moved = (x for x, _ in trajectory(source, case.x, **towards))
    return {**curves, "transfer": _curve((case.says(x) for x in moved), case.y)}


def accuracy_in_ball(case: Attacked, radius: float, steps: int, restarts: int) -> float:
    """Return the share of images that no attack in a ball leads astray.

    Every image is attacked along each of :data:`fpovi.robustness.LOSSES`, from so many random starts, until one of
    them succeeds.

    Args:
        case: the classifier and the images.
        radius: of the ball, in the units of pixels.
        steps: how many from each start.
        restarts: how many starts.
    """
    standing = np.flatnonzero(is_right(case.says(case.x), case.y))
    for restart in range(restarts):
        key = jax.random.fold_in(case.options["key"], restart)
        for loss in sorted(LOSSES):  # the margin comes first, and leaves least to the others
            if not len(standing):
                return 0.0
            rows = np.resize(standing, -(-len(standing) // PADDED) * PADDED)
            options = {**case.options, "key": key, "loss": loss, "block": PADDED}
            step = radius / STEPS_ACROSS
            moved = pgd(case.model, case.x[rows], case.y[rows], radius=radius, step=step, steps=steps, **options)
            fallen = rows[~is_right(case.says(moved), case.y[rows])]
            standing = np.setdiff1d(standing, fallen)
    return len(standing) / len(case.y)


def plain_source(task: ImageTask, ensemble: Method, settings: str, store: Store | None) -> LogProbs:
    """Return a plain ensemble to attack others through; it is trained once and kept in a file beside the rows.

    Args:
        task: what it learns, with a seed of its own.
        ensemble: how it is trained.
        settings: what else tells it from others: the name of a preset and what that says.
        store: beside whose rows; nothing is kept without one.
    """
    fingerprint = fingerprint_of(f"{settings} {task.seed} {task.epochs} {task.batch_size}", task.images.train)
    path = None if store is None else store.path.parent / f".{fingerprint[:16]}.source"
    start = ensemble.algorithm(task.images.train.x, task.steps).algorithm.init
    template = jax.eval_shape(lambda key: start(key, ensemble.members), jax.random.key(0))
    if path is not None and path.exists():
        _, arrays = read_file(path, kind="checkpoint")
        kept = restore_tree((template.particles, template.network_state), arrays)
        return LogProbs(ensemble.network(), *jax.tree.map(jnp.asarray, kept))
    found = train_images(task, ensemble, silent)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        arrays = flatten_tree((found.particles, found.network_state))
        write_file(path, {"fingerprint": fingerprint}, arrays, kind="checkpoint")
    return LogProbs(ensemble.network(), found.particles, found.network_state)


def _curve(values: Iterable[Float[np.ndarray, "n N k"]], y: Int[np.ndarray, " N"]) -> dict[str, list[float]]:
    """Return accuracy, mean entropy and mean mutual information before every step, and after the last."""
    found: dict[str, list[float]] = {"accuracy": [], "entropy": [], "mutual_information": []}
    for f in values:
        unsure = uncertainties(f)
        found["accuracy"].append(float(np.mean(is_right(f, y))))
        for name in ("entropy", "mutual_information"):
            found[name].append(round(float(unsure[name].mean()), 5))
    return found
