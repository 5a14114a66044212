# SPDX-License-Identifier: Apache-2.0
"""The layers of a multilayer perceptron, for methods that change what happens between them."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fpovi.baselines.optimisation import prior_deviations
from fpovi.networks import MLP
from fpovi.types import Network


class Layers(NamedTuple):
    """The layers of a network: ``prior_std`` of weights and the ``factor`` of the forward pass on them are like θ."""

    activation: Callable[[Array], Array]
    input: Float[Array, " d_x"]
    prior_std: MLP
    factor: MLP

    def scaled(self, theta: MLP, dtype: jnp.dtype) -> MLP:
        """Return what the forward pass multiplies with, from weights or their deviations."""
        return jax.tree.map(lambda leaf, factor: (leaf * factor).astype(dtype), theta, self.factor)


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
