# SPDX-License-Identifier: Apache-2.0
"""Describe the layers of a multilayer perceptron, for methods that act inside them."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fpovi.networks import MLP
from fpovi.types import Network, PyTree


class Layers(NamedTuple):
    """The layers of a network: ``prior_std`` of weights and the ``factor`` of the forward pass on them are like θ."""

    activation: Callable[[Array], Array]
    input: Float[Array, " d_x"]
    prior_std: MLP
    factor: MLP


def describe_layers(network: Network) -> Layers:
    """Return the layers of an ``mlp``, with ``unit_weights`` or without; raise a ``ValueError`` for other networks."""
    architecture = network.architecture
    if architecture is None:
        raise ValueError("network must be an mlp: the layers of others are not known")
    scales = architecture.scales
    for name, value in (("weight", scales.weight_variance), ("bias", scales.bias_variance)):
        if not np.all(np.asarray(value) > 0):
            raise ValueError(
                f"scales.{name}_variance={value} must be positive: a weight without variance has no density"
            )
    n_in = jnp.asarray(architecture.sizes[:-1], scales.weight_variance.dtype)

    @jax.jit
    def measure() -> tuple[MLP, MLP]:
        prior_std = prior_deviations(network)
        deviation = jnp.sqrt(scales.weight_variance / n_in), jnp.sqrt(scales.bias_variance)
        wanted = jax.tree.map(jnp.ones_like, prior_std).scaled(*deviation)
        return prior_std, jax.tree.map(jnp.divide, wanted, prior_std)

    return Layers(architecture.activation, scales.input, *measure())


def prior_deviations(network: Network) -> PyTree:
    """Return the standard deviations of a Gaussian prior, like θ: its log-density has the gradient −1/σ² at 1."""
    theta = jax.eval_shape(lambda: network.init(jax.random.key(0))[0])
    ones = jax.tree.map(lambda leaf: jnp.ones(leaf.shape, leaf.dtype), theta)
    return jax.tree.map(lambda slope: (-1 / slope) ** 0.5, jax.grad(network.log_prior)(ones))
