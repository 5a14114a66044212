# SPDX-License-Identifier: Apache-2.0
"""What methods with networks are made of, by name: networks with an output per arm, and likelihoods of rewards."""

from collections.abc import Callable
from functools import cache, lru_cache, partial

import jax.numpy as jnp

from fpovi._lookup import lookup
from fpovi.likelihoods import bernoulli, gaussian
from fpovi.networks import ACTIVATIONS, MLP, fan_in_scales, fan_out_scales, mlp
from fpovi.types import Key, Likelihood, Network

MakeNetwork = Callable[[int, int], Network]  # of inputs and arms


def fan_in_network(hidden: tuple[int, ...], activation: str, std: float, inputs: int, arms: int) -> Network:
    """Return a perceptron whose functions vary by about ``std`` under the prior, whatever its widths.

    W ~ N(0, 2/n_in) and b ~ N(0, .1), which keeps the size of activations from layer to layer.
    """
    sizes = (inputs, *hidden, arms)
    scales = fan_in_scales(sizes, weight_variance=2.0, bias_variance=0.1)
    wider = {name: getattr(scales, name).at[-1].multiply(std**2 / 2) for name in ("weight_variance", "bias_variance")}
    return mlp(sizes, ACTIVATIONS[activation], scales._replace(**wider))


def fan_out_network(hidden: tuple[int, ...], activation: str, std: float, inputs: int, arms: int) -> Network:
    """Return the perceptron of the paper's bandits, whose weights and biases are ``std`` times as large.

    W and b ~ N(0, std²/n_out), in the last layer N(0, std²); it starts at W ~ N(0, std²/(n_in + n_out + 1)), b = 0.
    """
    sizes = (inputs, *hidden, arms)
    scales = fan_out_scales(sizes, output_std=arms**0.5)
    scales = scales._replace(
        weight_variance=std**2 * scales.weight_variance, bias_variance=std**2 * scales.bias_variance
    )
    network = mlp(sizes, ACTIVATIONS[activation], scales, prior_start=False)
    factor = jnp.full(len(sizes) - 1, std)

    def init(key: Key) -> tuple[MLP, tuple[()]]:
        theta, state = network.init(key)
        return theta.scaled(factor, factor), state

    return network._replace(init=init)


NETWORKS = {"fan_in": fan_in_network, "fan_out": fan_out_network}


@lru_cache(maxsize=256)
def make_network(network: str, hidden: tuple[int, ...], activation: str, std: float) -> MakeNetwork:
    """Return what makes networks of so many inputs and arms, the same object each time.

    Args:
        network: a name in :data:`NETWORKS`.
        hidden: widths of hidden layers.
        activation: a name in :data:`~fpovi.networks.ACTIVATIONS`.
        std: how large functions are under the prior.
    """
    make = lookup(NETWORKS, network, "network")
    lookup(ACTIVATIONS, activation, "activation")
    if not std > 0:
        raise ValueError(f"prior_std={std} must be positive")
    return cache(partial(make, hidden, activation, float(std)))


@lru_cache(maxsize=256)
def likelihood_of(rewards: str, noise: float | None) -> Likelihood:
    """Return the likelihood of rewards, 0 and 1 or real numbers.

    Args:
        rewards: "gaussian" or "bernoulli".
        noise: the standard deviation of real ones, in the unit they are learned in; None learns it.
    """
    if rewards == "bernoulli":
        return bernoulli()
    return gaussian(noise, start=0.3, floor=None if noise is not None else 1e-2)
