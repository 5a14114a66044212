# SPDX-License-Identifier: Apache-2.0
"""A convolutional network of LeNet's size, as a network with a Gaussian prior, and with dropout."""

import math
from collections.abc import Sequence
from functools import lru_cache

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from fpovi.baselines.dropout import unit_masks
from fpovi.baselines.optimisation import log_joint, maximise
from fpovi.experiments.images.methods import (
    DRAWS,
    LIKELIHOOD,
    MakeNetwork,
    MakeOptimiser,
    Method,
    falling_adam,
    method_without_pool,
    only,
)
from fpovi.networks import from_equinox
from fpovi.types import Algorithm, Batch, Key, Network, PyTree, Scalar

CHANNELS, KERNEL, UNITS = (1, 6, 16), 5, (400, 120, 84, 10)
HIDDEN = UNITS[1:-1]
Masks = Sequence[Float[Array, " _"]]


class LeNet(eqx.Module):
    """Two convolutions of 6 and 16 channels, each halved by its maximum of 2×2 places, and layers of 120, 84 and 10."""

    convolutions: tuple[eqx.nn.Conv2d, ...]
    dense: tuple[eqx.nn.Linear, ...]

    def __init__(self, key: Key):
        keys = jax.random.split(key, len(CHANNELS) + len(UNITS) - 2)
        borders = (KERNEL // 2, 0)
        self.convolutions = tuple(
            eqx.nn.Conv2d(n_in, n_out, KERNEL, padding=border, key=key)
            for n_in, n_out, border, key in zip(CHANNELS, CHANNELS[1:], borders, keys, strict=False)
        )
        layers = zip(UNITS, UNITS[1:], keys[len(borders) :], strict=False)
        self.dense = tuple(eqx.nn.Linear(n_in, n_out, key=key) for n_in, n_out, key in layers)

    def __call__(self, image: Float[Array, "28 28 1"], masks: Masks = ()) -> Float[Array, "10"]:
        """Return the logits of one image; units of the hidden layers of 120 and 84 are multiplied by ``masks``."""
        h = jnp.moveaxis(image, -1, 0)
        for convolution in self.convolutions:
            h = halved(jax.nn.relu(convolution(h)))
        h = h.ravel()
        for place, layer in enumerate(self.dense[:-1]):
            h = jax.nn.relu(layer(h))
            h = h * masks[place] if masks else h
        return self.dense[-1](h)


def halved(h: Float[Array, "c H W"]) -> Float[Array, "c H/2 W/2"]:
    """Return the maximum of every 2×2 places; written so, its derivative is fast on a CPU."""
    c, height, width = h.shape
    return jnp.max(h.reshape(c, height // 2, 2, width // 2, 2), axis=(2, 4))


@lru_cache
def lenet(spread: float = 1.0) -> Network:
    """Return a LeNet whose weights and biases have the prior variances ``spread``/fan in and ``spread``.

    The same object each time.
    """

    def prior_std(shape: tuple[int, ...]) -> float:
        is_bias = math.prod(shape) == shape[0]
        return math.sqrt(spread if is_bias else spread * shape[0] / math.prod(shape))

    return from_equinox(LeNet, prior_std)


def lenet_dropout(network: MakeNetwork, left_out: float = 0.5, optimiser: MakeOptimiser = falling_adam) -> Method:
    """Return MC dropout of the two hidden dense layers: 20 thinnings of one LeNet.

    Args:
        network: returns the network, with the prior on its weights.
        left_out: the share of units left out.
        optimiser: ``optimiser(steps)`` returns that of a run of so many steps.
    """

    def draws(key: Key, members: LeNet) -> LeNet:
        return jax.vmap(lambda key: thinned(only(members), unit_masks(key, HIDDEN, left_out)))(
            jax.random.split(key, DRAWS)
        )

    made = method_without_pool(network, 1, lambda made: _dropout(network(), left_out, made), optimiser)
    return made._replace(draws=draws)


def _dropout(network: Network, left_out: float, optimiser: optax.GradientTransformation) -> Algorithm:
    def objective(key: Key, theta: LeNet, params: PyTree, batch: Batch) -> tuple[Scalar, Scalar]:
        outputs = jax.vmap(theta)(batch.x, unit_masks(key, HIDDEN, left_out, batch.x.shape[:1]))
        return log_joint(network, LIKELIHOOD, outputs, theta, params, batch)

    return maximise(network, LIKELIHOOD, lambda key: network.init(key)[0], objective, lambda theta: theta, optimiser)


def thinned(theta: LeNet, masks: Masks) -> LeNet:
    """Return the network that gives unmasked what ``theta`` gives masked: units act through their outgoing weights."""
    weights = [layer.weight * mask for layer, mask in zip(theta.dense[1:], masks, strict=True)]
    return eqx.tree_at(lambda net: [layer.weight for layer in net.dense[1:]], theta, weights)
