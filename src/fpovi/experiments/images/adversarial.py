# SPDX-License-Identifier: Apache-2.0
"""``mnist-adversarial``: digits under attack, as in the paper, and under attacks that go through more than the model.

The paper's attack is targeted: all digits but 0 move towards being called 0, by steps of .01 along the sign of the
gradient of the ensemble's log-probability, with no limit but the range of pixels. Networks that answer with small
gradients, or gradients of random masks, look strong under it. So every row also has an attack along the mean of the
particles' log-probabilities, images attacked through a plain ensemble of the same architecture, and the worst of three
untargeted attacks within a ball, from random starts.

The preset ``paper`` has the networks of the paper's released code, its numbers of particles, points and draws, its
priors and its attack. It differs in how long networks learn: the code takes 1,000 epochs of all 60,000 images in
batches of 1,000, at a constant rate of 5e-4, and the last of them; here a few epochs in smaller batches, with a rate
that falls to 0, on 50,000 images, and the other 10,000 choose the epoch. Extra points are a tenth of a batch in both.
The baselines' prior of weights is 100 times as wide as the code's N(0, 1/n_out), under which they learn too little.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import numpy as np

from fpovi._lookup import lookup
from fpovi.baselines.dropout import thinnings
from fpovi.experiments.harness.experiment import Experiment, Options, Watch, silent
from fpovi.experiments.harness.store import Cell, Row, Store
from fpovi.experiments.harness.view import View
from fpovi.experiments.images.methods import (
    DRAWS,
    LIKELIHOOD,
    SPREAD,
    Method,
    drawn_from,
    dropout_method,
    falling_adam,
    fan_out_logit_variance,
    fan_out_mlp,
    function_method,
    only,
    weight_method,
)
from fpovi.experiments.images.mnist import TUNING
from fpovi.experiments.images.training import (
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
from fpovi.experiments.images.under_attack import Attacked, accuracy_in_ball, plain_source, targeted_curves
from fpovi.experiments.images.view import CLEAN, Column, attack_curves, method_table
from fpovi.experiments.paper_parts import PAPER_FLOWS, median_rbf
from fpovi.inference import some_classes
from fpovi.priors import moment_matched
from fpovi.robustness import LogProbs, Redrawn
from fpovi.types import FunctionPrior, Network

PRIOR_DRAWS, PRIOR_POINTS, LEAST_EIGENVALUE = 40, 4, 1e-3
POINTS_PER_EXTRA = 10  # of a batch
DROPOUT = 0.5
CLASSES, STEP, TARGET = 10, 0.01, 0
SQUARED_NORM = 74.6  # the mean of |x|² over training digits less the mean of all pixels
CODE_FACTOR = 40.0  # on the last layer's standard deviations in the paper's code; logits have a variance of 1,800
TEXT_VARIANCE, TEXT_CLASSES = 10.0, 2  # of logits, and at how many classes a point is compared, in the paper's text
BALLS, OVERWHELMING = (0.05, 0.1), 0.5  # the radius that every model has to break at
PGD_STEPS, RESTARTS = 20, 2
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


ATTACKS = {
    "own_half": Column("half the steps", more=True),
    "own_end": Column("all steps", more=True),
    "mean_log_end": Column("along mean log", more=True),
    "transfer_end": Column("transferred", more=True),
    **{f"pgd_{radius:g}": Column(f"PGD {radius:g}", more=True) for radius in (*BALLS, OVERWHELMING)},
}
# error in per cent and NLL of clean digits
PUBLISHED = {
    "published error, %": {("mnist", "mc-dropout"): 1.7, ("mnist", "w-svgd"): 3.0, ("mnist", "f-svgd"): 1.6},
    "published NLL": {("mnist", "mc-dropout"): 0.075, ("mnist", "w-svgd"): 0.109, ("mnist", "f-svgd"): 0.065},
}
LABELS = {
    "f-svgd": "f-SVGD, the code's prior",
    "f-svgd-text": "f-SVGD, the text's prior",
    "w-svgd": "SVGD",
    "mc-dropout": "MC dropout",
    "ensemble": "ensemble",
}
CANDIDATES = candidates({name: {"rate": (5e-4, 1e-3, 2e-3)} for name in LABELS})
PRESETS = {
    "quick": Preset(
        (784, 200, 200, 10), 5, rows=10_000, epochs=8, batch_size=100, rate=1e-3, attacked=200, steps=40,
        methods=("f-svgd-text", "w-svgd", "mc-dropout", "ensemble"),
    ),
    "paper": Preset(
        (784, 1000, 1000, 1000, 10), 20, rows=None, epochs=10, batch_size=250, rate=1e-3, attacked=1000, steps=100,
        methods=tuple(LABELS),
    ),
    "tuning": Preset(
        (784, 1000, 1000, 1000, 10), 5, rows=None, epochs=4, batch_size=250, rate=1e-3, attacked=0, steps=0,
        methods=tuple(CANDIDATES),
    ),
}  # fmt: skip


@lru_cache
def method(name: str, preset: Preset) -> Method:
    """Return a method with the networks, the rate and the batches of a preset."""
    lookup(LABELS, name, "method")
    sizes, n, adam = preset.sizes, preset.particles, partial(falling_adam, rate=preset.rate)
    with_prior = partial(fan_out_mlp, sizes, SPREAD)
    if name == "mc-dropout":
        return dropout_method(with_prior, DROPOUT, adam)
    if name in ("w-svgd", "ensemble"):
        return weight_method(with_prior, PAPER_FLOWS["svgd" if name == "w-svgd" else name], median_rbf(), n, adam)
    as_text = name == "f-svgd-text"
    logit_std = text_factor(sizes) if as_text else CODE_FACTOR
    return function_method(
        partial(fan_out_mlp, sizes, 1.0, logit_std), _prior, PAPER_FLOWS["svgd"], median_rbf(), n,
        partial(drawn_from, size=preset.batch_size // POINTS_PER_EXTRA), adam, prior_size=PRIOR_POINTS,
        outputs=some_classes(TEXT_CLASSES, CLASSES) if as_text else None,
    )  # fmt: skip


def text_factor(sizes: tuple[int, ...]) -> float:
    """Return the factor on the last layer's standard deviations with which logits have the variance of the text."""
    return (TEXT_VARIANCE / fan_out_logit_variance(len(sizes) - 2, SQUARED_NORM, CLASSES)) ** 0.5


def _prior(network: Network) -> FunctionPrior:
    return moment_matched(network, LIKELIHOOD, PRIOR_DRAWS, LEAST_EIGENVALUE)


def cells(options: Options) -> list[Cell]:
    """Return a cell for each method of a preset."""
    preset = lookup(PRESETS, options.preset, "preset")
    return image_cells(
        "mnist-adversarial", options, 1, ("mnist",), preset.methods, ("mnist",), LABELS.keys() | CANDIDATES.keys()
    )


def run_cell(cell: Cell, watch: Watch = silent, store: Store | None = None) -> dict[str, Any]:
    """Return scores of clean test images, and under each attack; of a candidate, the NLL of held-out images."""
    preset = lookup(PRESETS, cell.preset, "preset")
    name, choice = CANDIDATES.get(cell.method, (cell.method, {}))
    chosen = method(name, preset._replace(rate=choice.get("rate", preset.rate)))
    images = prepare(cell.dataset, preset.rows, flat=True)
    task = ImageTask(cell.seed, images, preset.epochs, preset.batch_size, checkpoint=checkpoint_of(store, cell))
    found = train_images(task, chosen, watch)
    process = {"epoch": found.epoch, "valid_nll": found.valid_nll}
    if cell.method in CANDIDATES:
        return process
    clean = class_scores(log_probs(chosen.network(), found.particles, (), images.x_test), images.y_test)
    return {**clean, **_attacked(preset, chosen, found, task, cell, store), **process}


def _attacked(
    preset: Preset, chosen: Method, found: Trained, task: ImageTask, cell: Cell, store: Store | None
) -> dict[str, Any]:
    images = task.images
    kept = np.flatnonzero(images.y_test != TARGET)[: preset.attacked]
    case = Attacked(
        _model(cell.method, chosen, found), LogProbs(chosen.network(), found.particles), images.x_test[kept],
        images.y_test[kept], -images.shift, 1 - images.shift, cell.seed,
    )  # fmt: skip
    curves = targeted_curves(case, _source(preset, task, store), TARGET, STEP, preset.steps)
    in_balls = {
        f"pgd_{radius:g}": accuracy_in_ball(case, radius, PGD_STEPS, RESTARTS) for radius in (*BALLS, OVERWHELMING)
    }
    return {"curves": curves, **in_balls}


def _model(name: str, chosen: Method, found: Trained) -> LogProbs | Redrawn:
    """Return what an attack goes through: the particles, or masks that are drawn anew for every gradient."""
    if name != "mc-dropout":
        return LogProbs(chosen.network(), found.particles)
    return Redrawn(jax.tree_util.Partial(partial(_thinned, chosen.network()), only(found.members)))


def _thinned(network: Network, theta: Any, key: Any) -> LogProbs:
    return LogProbs(network, thinnings(DROPOUT, DRAWS, key, theta))


def _source(preset: Preset, task: ImageTask, store: Store | None) -> LogProbs:
    """Return a plain ensemble from another seed, to attack through."""
    plain = weight_method(
        partial(fan_out_mlp, preset.sizes, SPREAD), PAPER_FLOWS["ensemble"], median_rbf(), SOURCE_SIZE,
        partial(falling_adam, rate=preset.rate),
    )  # fmt: skip
    settings = f"mnist-adversarial {preset.sizes} {SOURCE_SIZE} {preset.rate} {SPREAD}"
    return plain_source(task._replace(seed=SOURCE_SEED, checkpoint=None), plain, settings, store)


def view(rows: Sequence[Row]) -> View:
    """Return a table with a line per method: clean scores beside the paper's, and accuracy under each attack."""
    if rows and all(row.cell.method in CANDIDATES for row in rows):
        return method_table(rows, {name: name for name in CANDIDATES}, "Rates, by held-out digits", TUNING)
    return _table(rows, {**CLEAN, **ATTACKS}, PUBLISHED)


def clean(rows: Sequence[Row]) -> View:
    """Return the table of clean digits."""
    return _table(rows, CLEAN, PUBLISHED)


def attacks(rows: Sequence[Row]) -> View:
    """Return the table of accuracy under attack."""
    return _table(rows, ATTACKS)


def _table(
    rows: Sequence[Row],
    columns: Mapping[str, Column],
    published: Mapping[str, Mapping[tuple[str, str], float]] | None = None,
) -> View:
    last = [replace(row, metrics={**row.metrics, **_last(row.metrics["curves"])}) for row in rows]
    notes = (
        f"Targeted attacks: halfway and after all steps of {STEP:g}. PGD: the worst of three losses and {RESTARTS} "
        f"random starts in a ball, {PGD_STEPS} steps each.",
    )
    return method_table(last, LABELS, "Digits under attack: accuracy", columns, published, notes)


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
        label=lambda cell: f"{LABELS.get(cell.method, cell.method)}, seed {cell.seed}",
        view=view,
        figure=lambda rows: attack_curves(rows, LABELS),
    )
}
