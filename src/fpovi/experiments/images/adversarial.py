# SPDX-License-Identifier: Apache-2.0
"""``mnist-adversarial``: digits under attack, as in the paper, and under attacks that go through more than the model.

The paper's attack is targeted: all digits but 0 move towards being called 0, by steps of .01 along the sign of the
gradient of the ensemble's log-probability, with no limit but the range of pixels. Networks that answer with small
gradients, or gradients of random masks, look strong under it. So every row also has an attack along the mean of the
particles' log-probabilities, images attacked through a plain ensemble of the same architecture, and an untargeted
attack within a ball, from random starts.

The preset ``paper`` has its networks, prior and numbers of particles, points and draws; epochs are few and the rate
falls, as a step of 20 networks of 3×1000 takes a second on a core.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from fpovi._lookup import lookup
from fpovi.baselines.dropout import thinnings
from fpovi.experiments.harness.experiment import Experiment, Options, Watch, silent
from fpovi.experiments.harness.store import Cell, Row, Store
from fpovi.experiments.harness.view import View
from fpovi.experiments.images.methods import (
    DRAWS,
    LIKELIHOOD,
    Method,
    drawn_from,
    dropout_method,
    falling_adam,
    fan_out_mlp,
    function_method,
    only,
    weight_method,
)
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
from fpovi.experiments.images.view import CLEAN, Column, attack_curves, method_table
from fpovi.experiments.paper_parts import PAPER_FLOWS, median_rbf
from fpovi.inference import some_classes
from fpovi.priors import moment_matched
from fpovi.robustness import LogProbs, Redrawn, pgd, trajectory, uncertainties, under_attack
from fpovi.types import FunctionPrior, Network

PRIOR_DRAWS, PRIOR_POINTS, LEAST_EIGENVALUE, EXTRA_POINTS = 40, 4, 1e-3, 100
DROPOUT = 0.5
# method -> factor on the last layer's standard deviations, and at how many classes a point is compared, None for all:
# what the paper's released code does, and what its text says, with which prior logits have a variance of about 10
FUNCTION_SPACE: dict[str, tuple[float, int | None]] = {"f-svgd": (40.0, None), "f-svgd-text": (5**0.5, 2)}
CLASSES, STEP, TARGET = 10, 0.01, 0
RADII, RESTARTS, PGD_STEPS = (0.05, 0.1), 3, 20
SPREAD = 10.0  # of the prior of weights of baselines: what held-out images prefer in ``mnist``
SOURCE_SEED, SOURCE_SIZE = 1000, 5  # of the plain ensemble that attacks are transferred from


class Preset(NamedTuple):
    """The networks, what they learn from, and how many images are attacked for how many steps."""

    sizes: tuple[int, ...]
    particles: int
    rows: int | None
    epochs: int
    batch_size: int
    rate: float
    attacked: int
    steps: int
    methods: tuple[str, ...]


COLUMNS = {
    **CLEAN,
    "own_half": Column("half the steps", more=True),
    "own_end": Column("all steps", more=True),
    "mean_log_end": Column("along mean log", more=True),
    "transfer_end": Column("transferred", more=True),
    **{f"pgd_{radius:g}": Column(f"PGD, {radius:g}", more=True) for radius in RADII},
}
LABELS = {
    "f-svgd": "f-SVGD",
    "f-svgd-text": "f-SVGD, 2 classes a point",
    "w-svgd": "SVGD",
    "mc-dropout": "MC dropout",
    "ensemble": "ensemble",
}
PRESETS = {
    "quick": Preset(
        (784, 200, 200, 10), 5, rows=10_000, epochs=8, batch_size=100, rate=1e-3, attacked=200, steps=40,
        methods=("f-svgd-text", "w-svgd", "mc-dropout", "ensemble"),
    ),
    "paper": Preset(
        (784, 1000, 1000, 1000, 10), 20, rows=None, epochs=12, batch_size=250, rate=5e-4, attacked=1000, steps=100,
        methods=tuple(LABELS),
    ),
}  # fmt: skip


@lru_cache
def method(name: str, preset: str) -> Method:
    """Return a method with the networks of a preset."""
    lookup(LABELS, name, "method")
    chosen = PRESETS[preset]
    sizes, n, adam = chosen.sizes, chosen.particles, partial(falling_adam, rate=chosen.rate)
    with_prior = partial(fan_out_mlp, sizes, SPREAD)
    if name == "mc-dropout":
        return dropout_method(with_prior, DROPOUT, adam)
    if name in ("w-svgd", "ensemble"):
        return weight_method(with_prior, PAPER_FLOWS["svgd" if name == "w-svgd" else name], median_rbf(), n, adam)
    logit_std, looked_at = FUNCTION_SPACE[name]
    outputs = None if looked_at is None else some_classes(looked_at, CLASSES)
    return function_method(
        partial(fan_out_mlp, sizes, 1.0, logit_std), _prior, PAPER_FLOWS["svgd"], median_rbf(), n,
        partial(drawn_from, size=EXTRA_POINTS), adam, prior_size=PRIOR_POINTS, outputs=outputs,
    )  # fmt: skip


def _prior(network: Network) -> FunctionPrior:
    return moment_matched(network, LIKELIHOOD, PRIOR_DRAWS, LEAST_EIGENVALUE)


def cells(options: Options) -> list[Cell]:
    """Return a cell for each method of a preset."""
    preset = lookup(PRESETS, options.preset, "preset")
    return image_cells("mnist-adversarial", options, 1, ("mnist",), preset.methods, ("mnist",), LABELS)


def run_cell(cell: Cell, watch: Watch = silent, store: Store | None = None) -> dict[str, Any]:
    """Return scores of clean test images, and what becomes of a method under each attack."""
    preset, chosen = lookup(PRESETS, cell.preset, "preset"), method(cell.method, cell.preset)
    images = prepare(cell.dataset, preset.rows, flat=True)
    task = ImageTask(cell.seed, images, preset.epochs, preset.batch_size, checkpoint=checkpoint_of(store, cell))
    found = train_images(task, chosen, watch)
    clean = class_scores(log_probs(chosen.network(), found.particles, (), images.x_test), images.y_test)
    return {
        **clean,
        "epoch": found.epoch,
        "valid_nll": found.valid_nll,
        **_attacked(cell, preset, chosen, found, images),
    }


def _attacked(cell: Cell, preset: Preset, chosen: Method, found: Trained, images: Images) -> dict[str, Any]:
    model = _model(cell.method, chosen, found)
    kept = np.flatnonzero(images.y_test != TARGET)[: preset.attacked]
    x, y = images.x_test[kept], images.y_test[kept]
    valid: dict[str, Any] = {"low": -images.shift, "high": 1 - images.shift, "key": jax.random.key(cell.seed)}
    towards: dict[str, Any] = {**valid, "target": TARGET, "step": STEP, "steps": preset.steps}
    source = _source(cell, preset, images)
    own = (f for _, f in trajectory(model, x, **towards))
    mean_log = (f for _, f in trajectory(model, x, **towards, loss="mean_log"))
    answer = LogProbs(chosen.network(), found.particles)
    moved = (moved for moved, _ in trajectory(source, x, **towards))
    transferred = (log_probs(answer.network, answer.particles, (), each) for each in moved)
    curves = {name: _curve(each, y) for name, each in (("own", own), ("mean_log", mean_log), ("transfer", transferred))}
    in_ball = {
        f"pgd_{radius:g}": under_attack(model, attacked, y)["accuracy"]
        for radius in RADII
        for attacked in [pgd(model, x, y, radius=radius, step=radius / 5, steps=PGD_STEPS, restarts=RESTARTS, **valid)]
    }
    return {"curves": curves, **in_ball}


def _model(name: str, chosen: Method, found: Trained) -> LogProbs | Redrawn:
    """Return what an attack goes through: the particles, or masks that are drawn anew for every gradient."""
    if name != "mc-dropout":
        return LogProbs(chosen.network(), found.particles)
    return Redrawn(jax.tree_util.Partial(partial(_thinned, chosen.network()), only(found.members)))


def _thinned(network: Network, theta: Any, key: Any) -> LogProbs:
    return LogProbs(network, thinnings(DROPOUT, DRAWS, key, theta))


def _source(cell: Cell, preset: Preset, images: Images) -> LogProbs:
    """Return a plain ensemble from another seed, to attack through."""
    plain = weight_method(
        partial(fan_out_mlp, preset.sizes, SPREAD), PAPER_FLOWS["ensemble"], median_rbf(), SOURCE_SIZE
    )
    task = ImageTask(SOURCE_SEED + cell.seed, images, max(preset.epochs // 2, 2), preset.batch_size)
    return LogProbs(plain.network(), train_images(task, plain, silent).particles)


def _curve(values: Iterable[Float[np.ndarray, "n N k"]], y: Any) -> dict[str, list[float]]:
    """Return accuracy, mean entropy and mean mutual information before every step, and after the last."""
    found: dict[str, list[float]] = {"accuracy": [], "entropy": [], "mutual_information": []}
    for f in values:
        unsure = uncertainties(f)
        likeliest = np.argmax(np.exp(np.asarray(f, np.float64)).mean(axis=0), axis=1)
        found["accuracy"].append(float(np.mean(likeliest == y)))
        for name in ("entropy", "mutual_information"):
            found[name].append(round(float(unsure[name].mean()), 5))
    return found


def view(rows: Sequence[Row]) -> View:
    """Return a table with a line per method: clean scores, and accuracy under each attack."""
    last = [replace(row, metrics={**row.metrics, **_last(row.metrics["curves"])}) for row in rows]
    return method_table(last, LABELS, "Digits under attack: accuracy", COLUMNS)


def _last(curves: dict[str, dict[str, list[float]]]) -> dict[str, float]:
    """Return the accuracy halfway through each targeted attack, and at its end."""
    return {
        f"{name}_{place}": curve["accuracy"][at]
        for name, curve in curves.items()
        for place, at in (("half", len(curve["accuracy"]) // 2), ("end", -1))
    }


EXPERIMENTS = {
    "mnist-adversarial": Experiment(
        cells=cells,
        run=run_cell,
        label=lambda cell: f"{LABELS[cell.method]}, seed {cell.seed}",
        view=view,
        figure=lambda rows: attack_curves(rows, LABELS),
    )
}
