# SPDX-License-Identifier: Apache-2.0
"""The particle axis: the one place where one network becomes n of them."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from fpovi.types import Key, Network, PyTree


def init_particles(key: Key, network: Network, n: int) -> tuple[PyTree, PyTree]:
    """n starting points: theta and state, each leaf with a leading axis n."""
    if n < 1:
        raise ValueError(f"n_particles={n} must be at least 1")
    return jax.vmap(network.init)(jax.random.split(key, n))


def sample_prior(key: Key, network: Network, n: int) -> PyTree:
    """n draws of theta from the network's weight prior."""
    return jax.vmap(network.sample_prior)(jax.random.split(key, n))


def forward(
    network: Network, particles: PyTree, state: PyTree, x: Float[Array, "B *d_x"], train: bool = False
) -> tuple[Float[Array, "n B k"], PyTree]:
    """The outputs of all particles at x, and the states the pass leaves behind."""
    return jax.vmap(lambda theta, state: network.apply(theta, state, x, train))(particles, state)


def num_particles(particles: PyTree) -> int:
    """How many particles there are."""
    return jax.tree.leaves(particles)[0].shape[0]


def ravel(particles: PyTree) -> tuple[Float[Array, "n p"], Callable[[Float[Array, " p"]], PyTree]]:
    """Particles as rows, and the map from one row back to one particle."""
    _, unravel = ravel_pytree(jax.tree.map(lambda leaf: leaf[0], particles))
    rows = [leaf.reshape(leaf.shape[0], -1) for leaf in jax.tree.leaves(particles)]
    return jnp.concatenate(rows, axis=1), unravel
