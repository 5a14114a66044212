# SPDX-License-Identifier: Apache-2.0
"""The prior on weights, added to the step of particles that are compared as functions."""

import jax
import jax.numpy as jnp
import optax

from fpovi.types import Network, PyTree


def on_weights(network: Network) -> optax.GradientTransformation:
    r"""Add the network's own prior of weights to the step of every particle, before an optimiser.

    .. math:: \Delta\theta^i = \Big(\frac{\partial f^i(x)}{\partial\theta^i}\Big)^T \phi[f^i(x)]
        + \nabla_{\theta^i} \log p(\theta^i)

    With ``flat`` as the function prior, likelihood and repulsion act on functions and the prior on weights. Where
    weights and values are in one-to-one linear correspondence this is the step under the function prior itself; else
    the volume that weights have for a function is left out. For networks so narrow that no function prior is close to
    theirs. The flow must give every particle its own score, as ``gfsf`` does, since the prior here is not mixed.

    Args:
        network: whose prior is added.

    >>> from fpovi.networks import mlp
    >>> optimiser = optax.chain(on_weights(mlp((1, 5, 5, 1))), optax.adam(4e-3))
    """
    every = jax.grad(lambda particles: jnp.sum(jax.vmap(network.log_prior)(particles)))

    def update(
        descent: PyTree, state: optax.EmptyState, particles: PyTree | None = None
    ) -> tuple[PyTree, optax.EmptyState]:
        if particles is None:
            raise ValueError("on_weights needs the particles: optimiser.update(updates, state, particles)")
        return jax.tree.map(jnp.subtract, descent, every(particles)), state

    return optax.GradientTransformation(lambda particles: optax.EmptyState(), update)
