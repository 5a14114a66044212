# SPDX-License-Identifier: Apache-2.0
"""The methods of ``cifar``: residual networks that learn alone, as an ensemble, and held apart as functions."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from fpovi._lookup import lookup
from fpovi.augmentation import crop_and_flip
from fpovi.experiments.images.methods import LIKELIHOOD, Method, function_method, weight_method, with_transform
from fpovi.experiments.paper_parts import PAPER_FLOWS, median_rbf
from fpovi.inference import only_extra, shared_classes
from fpovi.measurement import shuffled_patches, train_only
from fpovi.networks import ResNet, resnet
from fpovi.priors import flat, moment_matched, on_weights
from fpovi.types import Batch, FunctionPrior, Likelihood, Measurement, Network, PyTree

CLASSES, PRIOR_STD, BIAS_STD, MOMENTUM = 10, 0.32, 1e4, 0.9
PRIOR_DRAWS, PRIOR_POINTS, PRIOR_CLASSES, LEAST_EIGENVALUE = 16, 4, 6, 1e-3
EXTRA_POINTS = 32

# as in the paper; where and when repulsion acts, with the ensemble's prior of weights; the steps of the paper's code
LABELS = {
    "single": "one network",
    "ensemble": "ensemble",
    "f-svgd": "f-SVGD",
    "f-gfsf": "f-GFSF",
    "f-weights": "f-GFSF, prior of weights",
    "f-extra": "… repulsion at shuffled patches alone",
    "f-features": "… repulsion between features",
    "f-loss": "… repulsion where the loss is large",
    "f-late": "… repulsion that ends after two thirds",
    "f-paper-rate": "f-GFSF, steps of 2/n",
}
OF_FUNCTIONS = ("f-svgd", "f-gfsf", "f-paper-rate")  # with the paper's prior over functions


class Setting(NamedTuple):
    """Residual networks and how they learn.

    Attributes:
        depth, width: of the networks.
        particles: how many.
        schedule: ``schedule(rate, steps)`` returns the rate in every step.
        rate: of the mean loss of a batch.
        share: of that rate, for a particle held apart from others: 2/n in the paper's code.
        repulsion: a factor on repulsion, the same for all methods with the prior of weights.
    """

    depth: int
    width: int
    particles: int
    schedule: Callable[[float, int], optax.Schedule]
    rate: float = 0.1
    share: float = 1.0
    repulsion: float = 1.0


def in_steps(rate: float, steps: int) -> optax.Schedule:
    """Return a rate that falls to a tenth after 82 of 200 epochs and to a hundredth after 123."""
    return optax.piecewise_constant_schedule(rate, {steps * 82 // 200: 0.1, steps * 123 // 200: 0.1})


@lru_cache
def network(depth: int, width: int) -> Network:
    """Return a residual network with the prior of the paper's code; the same object each time."""
    return resnet(depth, CLASSES, 3, width, prior_std=PRIOR_STD, bias_std=BIAS_STD)


@lru_cache
def method(name: str, setting: Setting, rows: int) -> Method:
    """Return a method for so many training images, which it sees cropped and mirrored at random."""
    lookup(LABELS, name, "method")
    make, n = partial(network, setting.depth, setting.width), setting.particles
    if name in ("single", "ensemble"):
        alone = 1 if name == "single" else n
        made = weight_method(make, PAPER_FLOWS["ensemble"], median_rbf(), alone, _momentum(setting, rows))
    elif name in OF_FUNCTIONS:
        made = _of_functions(name, make, setting, rows)
    else:
        made = _of_weights(name, make, setting, rows)
    return with_transform(made, crop_and_flip())


def _of_functions(name: str, make: Callable[[], Network], setting: Setting, rows: int) -> Method:
    """Return a method with the prior over functions and the kernel of the paper's code."""
    n, flow = setting.particles, "svgd" if name == "f-svgd" else "gfsf"
    share = 2 / n if name == "f-paper-rate" else setting.share
    # velocities of svgd are 1/n of a particle's own
    optimiser = _momentum(setting, rows, share * (n if flow == "svgd" else 1))
    return function_method(
        make, _prior, PAPER_FLOWS[flow], median_rbf(), n, _nothing, optimiser, prior_size=PRIOR_POINTS,
        prior_outputs=shared_classes(PRIOR_CLASSES, CLASSES), prior_weight=1 / (PRIOR_POINTS * PRIOR_CLASSES),
        compare=other_classes,
    )  # fmt: skip


def _of_weights(name: str, make: Callable[[], Network], setting: Setting, rows: int) -> Method:
    """Return GFSF with the ensemble's prior of weights, and repulsion that acts in one place or another."""
    factor = setting.repulsion
    special: dict[str, dict[str, Any]] = {
        "f-extra": {"compare": only_extra},
        "f-loss": {"compare": by_loss},
        "f-features": {"compare": only_features, "likelihood": of_logits(LIKELIHOOD)},
        "f-late": {"repulsion": lambda steps: until_late(factor, steps)},
    }
    options = {"repulsion": lambda steps: factor, **special.get(name, {})}
    seen = partial(_with_features, make) if name == "f-features" else make
    optimiser = _momentum(setting, rows, 1.0, make())
    extra = _patches if name == "f-extra" else _nothing
    made = function_method(
        seen, _no_prior, PAPER_FLOWS["gfsf"], median_rbf(), setting.particles, extra, optimiser, **options
    )
    return made._replace(network=make)


def until_late(factor: float, steps: int) -> optax.Schedule:
    """Return a factor on repulsion in the first two thirds of the steps, and 0 after that."""
    return optax.piecewise_constant_schedule(factor, {2 * steps // 3: 0.0})


def _momentum(
    setting: Setting, rows: int, share: float = 1.0, weights_of: Network | None = None
) -> Callable[[int], optax.GradientTransformation]:
    """Return a maker of momentum with a share of the rate, per row, and of the prior of a network's weights."""

    def optimiser(steps: int) -> optax.GradientTransformation:
        sgd = optax.sgd(setting.schedule(share * setting.rate / rows, steps), momentum=MOMENTUM)
        return sgd if weights_of is None else optax.chain(on_weights(weights_of), sgd)

    return optimiser


def _prior(network: Network) -> FunctionPrior:
    return moment_matched(network, LIKELIHOOD, PRIOR_DRAWS, LEAST_EIGENVALUE)


def _no_prior(network: Network) -> FunctionPrior:
    return flat()


def _nothing(pool: Array) -> Measurement:
    return train_only()


def _patches(pool: Array) -> Measurement:
    return shuffled_patches(EXTRA_POINTS)


def other_classes(f: Float[Array, "n B k"], batch: Batch) -> Float[Array, "B k"]:
    """Compare labelled images at all classes but the true one."""
    return 1 - jax.nn.one_hot(batch.y[:, 0], f.shape[-1], dtype=f.dtype)


def by_loss(f: Float[Array, "n B k"], batch: Batch) -> Float[Array, "B 1"]:
    """Weigh images by the particles' mean loss, relative to that of the batch: those that are learned count less."""
    loss = -jnp.mean(jnp.take_along_axis(f, batch.y[None], axis=2), axis=(0, 2))
    return jnp.sqrt(loss / jnp.maximum(jnp.mean(loss), jnp.finfo(f.dtype).tiny))[:, None]


def only_features(f: Float[Array, "n B k"], batch: Batch) -> Float[Array, "B k"]:
    """Compare what follows the logits."""
    follows = (jnp.arange(f.shape[2]) >= CLASSES).astype(f.dtype)
    return jnp.broadcast_to(follows, f.shape[1:])


@lru_cache
def _with_features(make: Callable[[], Network]) -> Network:
    return with_features(make())


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
