# SPDX-License-Identifier: Apache-2.0
"""Monte Carlo dropout: random thinnings of one multilayer perceptron stand for draws of a posterior."""

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Unpack

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from fpovi.baselines.layers import Layers, describe_layers
from fpovi.baselines.optimisation import FitOptions, check_counts, draws_of, fit, log_joint, maximise
from fpovi.networks import MLP
from fpovi.types import Algorithm, Batch, Key, Likelihood, Network, PyTree, Scalar, State

Masks = tuple[Float[Array, "*rows _"], ...]


def mc_dropout(
    key: Key,
    network: Network,
    likelihood: Likelihood,
    data: Batch,
    *,
    n: int = 20,
    rate: float = 0.05,
    **options: Unpack[FitOptions],
) -> State:
    r"""Use dropout as approximate inference (Gal & Ghahramani 2016).

    A network is fitted with hidden units left out at random, row by row,

    .. math::
        h_{l+1} = \big(\phi(h_l) \odot z_l / (1 - r)\big) W_l + b_l, \qquad z_l \sim \mathrm{Bernoulli}(1 - r),

    and its draws are n thinnings of it, each a network with the units of one z left out for all rows. They share the
    noise scale, which is fitted with the weights.

    Args:
        key: a typed key; the same key gives the same result.
        network: the prior and the shape of the weights; it must be an ``mlp``.
        likelihood: how targets follow from outputs.
        data: all rows, from :func:`fpovi.make_batch`.
        n: how many thinnings.
        rate: r, the share of units left out, at least 0 and below 1.
        num_steps: how many steps to take.
        batch_size: rows per step; all by default.
        optimiser: any optax transformation; Adam whose rate falls from 4e-3 to 0 by default.
        transform: a random change of the labelled inputs of a step, as in :func:`fpovi.inference.augmented`.
        watch: called now and then with the state and the history, as in :func:`fpovi.run`.

    Returns:
        A state with n particles and params, for :func:`fpovi.predict`.
    """
    check_counts(n=n)
    key_fit, key_masks = jax.random.split(key)
    state = fit(key_fit, partial(dropout, network, likelihood, rate), 1, data, **options)
    return draws_of(state, partial(thinnings, rate, n, key_masks), n)


@lru_cache(maxsize=64)
def dropout(
    network: Network, likelihood: Likelihood, rate: float, optimiser: optax.GradientTransformation
) -> Algorithm:
    """Return the algorithm that fits networks with dropout, each on its own."""
    if not 0 <= rate < 1:
        raise ValueError(f"rate={rate} must be at least 0 and below 1")
    layers = describe_layers(network)

    def objective(key: Key, theta: MLP, params: PyTree, batch: Batch) -> tuple[Scalar, Scalar]:
        outputs = masked_forward(layers, theta, unit_masks(key, hidden_widths(theta), rate, batch.x.shape[:1]), batch.x)
        return log_joint(network, likelihood, outputs, theta, params, batch)

    return maximise(network, likelihood, lambda key: network.init(key)[0], objective, lambda theta: theta, optimiser)


@partial(jax.jit, static_argnums=(0, 1))
def thinnings(rate: float, n: int, key: Key, theta: MLP) -> MLP:
    """Draw n thinnings of a network."""
    return jax.vmap(lambda key: thinned(theta, unit_masks(key, hidden_widths(theta), rate)))(jax.random.split(key, n))


def unit_masks(key: Key, widths: Sequence[int], rate: float, rows: tuple[int, ...] = ()) -> Masks:
    """Draw for every unit of the hidden layers (and row) 0 with probability ``rate``, else 1/(1 − rate)."""
    keys = jax.random.split(key, max(len(widths), 1))
    keep = [jax.random.bernoulli(k, 1 - rate, (*rows, width)) for k, width in zip(keys, widths, strict=False)]
    return tuple(jnp.where(mask, 1 / (1 - rate), 0.0) for mask in keep)


def hidden_widths(theta: MLP) -> list[int]:
    """Return how many units each hidden layer has."""
    return [weight.shape[0] for weight in theta.weights[1:]]


def masked_forward(layers: Layers, theta: MLP, masks: Masks, x: Float[Array, "B d_x"]) -> Float[Array, "B k"]:
    """Return the outputs with each layer's activations multiplied by its mask."""
    theta = layers.scaled(theta, x.dtype)
    outputs = (x * layers.input.astype(x.dtype)) @ theta.weights[0] + theta.biases[0]
    for mask, weight, bias in zip(masks, theta.weights[1:], theta.biases[1:], strict=True):
        outputs = (layers.activation(outputs) * mask.astype(x.dtype)) @ weight + bias
    return outputs


def thinned(theta: MLP, masks: Masks) -> MLP:
    """Return the network that gives unmasked what ``theta`` gives masked: units act through their outgoing weights."""
    weights = (w * mask[:, None].astype(w.dtype) for w, mask in zip(theta.weights[1:], masks, strict=True))
    return MLP((theta.weights[0], *weights), theta.biases)
