# SPDX-License-Identifier: Apache-2.0
"""``cifar``: residual networks on photographs, alone, as an ensemble, and held apart as functions.

The preset ``paper`` has the network, the schedule and the settings of the authors' released code, and needs all of
CIFAR-10 and an accelerator: ResNet-32, 8 particles, 200 epochs of momentum at .1, .01 and .001, batches of 128, GFSF, a
prior of 16 fresh networks at 4 images, and steps of 2/n of an ensemble's. The preset ``subset`` is for two cores: a
fifth of the images, ResNet-8, and a rate that falls along half a cosine.

Repulsion between functions has cost accuracy in every publication. What might be done about it has a method each: the
prior of weights that the ensemble has in the place of one over functions, and then repulsion at points off the data
alone, between the features of the last hidden layer, where the loss is large, or in the first half of the steps.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from fpovi._lookup import lookup
from fpovi.augmentation import crop_and_flip
from fpovi.experiments.harness.experiment import Experiment, Options, Watch, silent
from fpovi.experiments.harness.store import Cell, Row, Store
from fpovi.experiments.harness.view import View
from fpovi.experiments.images.methods import LIKELIHOOD, Method, function_method, weight_method, with_transform
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
from fpovi.experiments.images.view import CLEAN, Column, method_table
from fpovi.experiments.paper_parts import PAPER_FLOWS, median_rbf
from fpovi.inference import only_extra, some_classes
from fpovi.measurement import shuffled_patches, train_only
from fpovi.networks import ResNet, resnet
from fpovi.priors import flat, moment_matched, on_weights
from fpovi.robustness import LogProbs, fgsm, ood_scores, under_attack
from fpovi.types import Batch, FunctionPrior, Likelihood, Measurement, Network, PyTree

CLASSES, PRIOR_STD, BIAS_STD = 10, 0.32, 1e4
PRIOR_DRAWS, PRIOR_POINTS, LEAST_EIGENVALUE, LOOKED_AT = 16, 4, 1e-3, 6
EXTRA_POINTS, MOMENTUM = 32, 0.9
RADII = (1, 2, 4, 8, 16)  # of attacks, of 255 shades
NOISES = (0.05, 0.1, 0.2)  # standard deviations of noise on test images, whose pixels are from 0 to 1


class Preset(NamedTuple):
    """The data and the network, how many learn, for how long and at which rates, and which methods."""

    dataset: str
    depth: int
    width: int
    particles: int
    rows: int | None
    epochs: int
    batch_size: int
    schedule: Callable[[float, int], optax.Schedule]
    rate: float  # of the mean loss of a batch
    seeds: int
    methods: tuple[str, ...]


def in_steps(rate: float, steps: int) -> optax.Schedule:
    """Return a rate that falls to a tenth after 82 of 200 epochs and to a hundredth after 123."""
    return optax.piecewise_constant_schedule(rate, {steps * 82 // 200: 0.1, steps * 123 // 200: 0.1})


LABELS = {
    "single": "one network",
    "ensemble": "ensemble",
    "f-svgd": "f-SVGD",
    "f-gfsf": "f-GFSF",
    "f-paper-rate": "f-GFSF, steps of 2/n",
    "f-weights": "f-GFSF, prior of weights",
    "f-extra": "… repulsion at shuffled patches alone",
    "f-features": "… repulsion between features",
    "f-loss": "… repulsion where the loss is large",
    "f-early": "… repulsion in the first half",
}
PRESETS = {
    "quick": Preset("cifar10", 8, 4, 3, 2000, 3, 100, optax.cosine_decay_schedule, 0.1, 1,
                    ("single", "ensemble", "f-gfsf", "f-extra")),
    "subset": Preset("cifar10", 8, 8, 8, None, 30, 128, optax.cosine_decay_schedule, 0.1, 3, tuple(LABELS)),
    "paper": Preset("cifar10-full", 32, 16, 8, None, 200, 128, in_steps, 0.1, 3,
                    ("single", "ensemble", "f-svgd", "f-paper-rate")),
}  # fmt: skip
COLUMNS = {
    **CLEAN,
    "single_error": Column("error of one, %", 100.0),
    **{f"fgsm_{radius}": Column(f"accuracy, FGSM {radius}/255", more=True) for radius in RADII},
    **{f"noise_{std:g}_nll": Column(f"NLL, noise {std:g}") for std in NOISES},
    "clothes_auroc_entropy": Column("AUROC, clothes", more=True),
}


@lru_cache
def network(depth: int, width: int) -> Network:
    """Return a residual network with the prior of the paper's code; the same object each time."""
    return resnet(depth, CLASSES, 3, width, prior_std=PRIOR_STD, bias_std=BIAS_STD)


@lru_cache
def method(name: str, preset: str, rows: int) -> Method:
    """Return a method for so many training images."""
    lookup(LABELS, name, "method")
    chosen = PRESETS[preset]
    made = _without_augmentation(name, chosen, rows)
    return with_transform(made, crop_and_flip())


def _without_augmentation(name: str, preset: Preset, rows: int) -> Method:
    make, n = partial(network, preset.depth, preset.width), preset.particles
    if name in ("single", "ensemble"):
        alone = 1 if name == "single" else n
        return weight_method(make, PAPER_FLOWS["ensemble"], median_rbf(), alone, _momentum(preset, rows))
    # svgd's velocities are 1/n of a particle's own, and the code's are 2/n
    share = {"f-svgd": float(n), "f-paper-rate": 2.0 / n}.get(name, 1.0)
    own = name in ("f-svgd", "f-gfsf", "f-paper-rate")
    flow = PAPER_FLOWS["svgd" if name == "f-svgd" else "gfsf"]
    optimiser = _momentum(preset, rows, share, None if own else make())
    prior = _prior if own else lambda network: flat()
    if name == "f-features":
        return _on_features(make, flow, n, optimiser)
    special: dict[str, dict[str, Any]] = {
        "f-extra": {"compare": only_extra},
        "f-loss": {"compare": by_loss},
        "f-early": {"repulsion": early},
    }
    own_prior = {"outputs": some_classes(LOOKED_AT, CLASSES), "prior_size": PRIOR_POINTS}
    options = own_prior if own else special.get(name, {})
    extra = _patches if name == "f-extra" else _nothing
    return function_method(make, prior, flow, median_rbf(), n, extra, optimiser, **options)


def early(steps: int) -> optax.Schedule:
    """Return a factor on repulsion that falls from 1 to 0 in the first half of the steps."""
    return optax.linear_schedule(1.0, 0.0, steps // 2)


def _momentum(
    preset: Preset, rows: int, share: float = 1.0, weights_of: Network | None = None
) -> Callable[[int], optax.GradientTransformation]:
    """Return a maker of momentum with the preset's rate, per row, and of the prior of a network's weights."""

    def optimiser(steps: int) -> optax.GradientTransformation:
        sgd = optax.sgd(preset.schedule(share * preset.rate / rows, steps), momentum=MOMENTUM)
        return sgd if weights_of is None else optax.chain(on_weights(weights_of), sgd)

    return optimiser


def _prior(network: Network) -> FunctionPrior:
    return moment_matched(network, LIKELIHOOD, PRIOR_DRAWS, LEAST_EIGENVALUE)


def _nothing(pool: Array) -> Measurement:
    return train_only()


def _patches(pool: Array) -> Measurement:
    return shuffled_patches(EXTRA_POINTS)


def by_loss(f: Float[Array, "n B k"], batch: Batch) -> Float[Array, "B 1"]:
    """Weigh images by the particles' mean loss, relative to that of the batch: those that are learned count less."""
    loss = -jnp.mean(jnp.take_along_axis(f, batch.y[None], axis=2), axis=(0, 2))
    return jnp.sqrt(loss / jnp.maximum(jnp.mean(loss), jnp.finfo(f.dtype).tiny))[:, None]


def _on_features(make: Callable[[], Network], flow: Any, n: int, optimiser: Any) -> Method:
    """Return a flow that compares the features of the last hidden layer, which have no score of their own."""

    @lru_cache
    def both() -> Network:
        return with_features(make())

    compared = function_method(
        both, lambda network: flat(), flow, median_rbf(), n, _nothing, optimiser, likelihood=of_logits(LIKELIHOOD),
        compare=lambda f, batch: (jnp.arange(f.shape[2]) >= CLASSES)[None],
    )  # fmt: skip
    return compared._replace(network=make)


def with_features(network: Network) -> Network:
    """Return a residual network that puts the features of its last hidden layer after its logits."""

    def apply(theta: ResNet, state: PyTree, x: Array, train: bool | int) -> tuple[Array, PyTree]:
        size = theta.weight.shape[0]
        wide = jnp.concatenate([theta.weight, jnp.eye(size, dtype=theta.weight.dtype)], axis=1)
        bias = jnp.concatenate([theta.bias, jnp.zeros(size, theta.bias.dtype)])
        seen = eqx.tree_at(lambda net: (net.weight, net.bias), theta, (wide, bias))
        return network.apply(seen, state, x, train)

    return network._replace(apply=apply)


def of_logits(likelihood: Likelihood) -> Likelihood:
    """Return a likelihood of the first outputs; those that follow pass unchanged and say nothing of targets."""

    def canonical(outputs: Float[Array, "*n k"]) -> Float[Array, "*n k"]:
        return jnp.concatenate([likelihood.canonical(outputs[..., :CLASSES]), outputs[..., CLASSES:]], axis=-1)

    def log_prob(params: PyTree, f: Float[Array, "B k"], y: Array) -> Array:
        return likelihood.log_prob(params, f[..., :CLASSES], y)

    return likelihood._replace(canonical=canonical, log_prob=log_prob)


def cells(options: Options) -> list[Cell]:
    """Return the cells of every seed and method of a preset."""
    preset = lookup(PRESETS, options.preset, "preset")
    known = {chosen.dataset for chosen in PRESETS.values()}
    return image_cells("cifar", options, preset.seeds, (preset.dataset,), preset.methods, known, LABELS)


def run_cell(cell: Cell, watch: Watch = silent, store: Store | None = None) -> dict[str, Any]:
    """Return scores of test images as they are, attacked and noisy, and how well clothes are told from them."""
    preset = lookup(PRESETS, cell.preset, "preset")
    images = prepare(cell.dataset, preset.rows)
    chosen = method(cell.method, cell.preset, len(images.train.x))
    task = ImageTask(cell.seed, images, preset.epochs, preset.batch_size, checkpoint=checkpoint_of(store, cell))
    found = train_images(task, chosen, watch)
    return {**_scores(chosen.network(), found, images), "epoch": found.epoch, "valid_nll": found.valid_nll}


def _scores(network: Network, found: Trained, images: Images) -> dict[str, float]:
    on = partial(log_probs, network, found.particles, found.network_state)
    inside, model = on(images.x_test), LogProbs(network, found.particles, found.network_state)
    valid: dict[str, Any] = {"low": -images.shift, "high": 1 - images.shift}
    attacked = {
        f"fgsm_{radius}": under_attack(model, moved, images.y_test)["accuracy"]
        for radius in RADII
        for moved in [fgsm(model, images.x_test, epsilon=radius / 255, **valid)]
    }
    rng = np.random.default_rng(0)
    noise = rng.normal(size=images.x_test.shape).astype(np.float32)
    noisy = {
        f"noise_{std:g}_{name}": value
        for std in NOISES
        for name, value in class_scores(on(images.x_test + np.float32(std) * noise), images.y_test).items()
    }
    clothes = {f"clothes_{name}": value for name, value in ood_scores(inside, on(clothes_like(images))).items()}
    return {**class_scores(inside, images.y_test), **attacked, **noisy, **clothes}


def clothes_like(images: Images) -> Float[np.ndarray, "N 32 32 3"]:
    """Return test images of Fashion-MNIST in three equal channels, with borders of their own background."""
    grey = prepare("fashion-mnist", 1, images.shift).x_test[: len(images.x_test)]
    return np.repeat(np.pad(grey, ((0, 0), (2, 2), (2, 2), (0, 0)), mode="edge"), 3, axis=3)


def view(rows: Sequence[Row]) -> View:
    """Return a table with a line per method: clean scores, and those of attacked and noisy images."""
    return method_table(rows, LABELS, "Residual networks on photographs", COLUMNS)


EXPERIMENTS = {
    "cifar": Experiment(
        cells=cells,
        run=run_cell,
        label=lambda cell: f"{LABELS[cell.method]}, seed {cell.seed}",
        view=view,
    )
}
