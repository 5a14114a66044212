# SPDX-License-Identifier: Apache-2.0
"""The particle axis: the one place where one network becomes n of them."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from fpovi._fast.convolution import over_networks
from fpovi.types import Key, Network, PyTree, leading_rows

# On a CPU: with more than so many activations of all particles, as many particles at a time as have the second number.
IN_LAST_CACHE, IN_OWN_CACHE = 2**21, 2**19


def init_particles(key: Key, network: Network, n: int) -> tuple[PyTree, PyTree]:
    """Return n starting points: theta and state, each leaf with a leading axis n."""
    if n < 1:
        raise ValueError(f"n_particles={n} must be at least 1")
    return jax.vmap(network.init)(jax.random.split(key, n))


def sample_prior(key: Key, network: Network, n: int) -> PyTree:
    """Draw n times theta from the network's weight prior."""
    return jax.vmap(network.sample_prior)(jax.random.split(key, n))


def forward(
    network: Network, particles: PyTree, state: PyTree, x: Float[Array, "B *d_x"], train: bool | int = False
) -> tuple[Float[Array, "n B k"], PyTree]:
    """Return the outputs of all particles at x, and the states the pass leaves behind.

    On a CPU, particles whose activations together outgrow its caches are taken a few at a time, and on the way back
    their activations are computed again: that is faster than to fetch them from memory, and takes less of it. Those
    that convolve are taken one at a time, 8 times as fast.
    """
    if network.architecture is None:
        return _unknown(network, particles, state, x, leading_rows(train, x.shape[0]))
    one = lambda theta, state: network.apply(theta, state, x, train)  # noqa: E731
    n, together = num_particles(particles), None
    if jax.default_backend() == "cpu" and isinstance(x.shape[0], int):  # not for programs of any number of rows
        together = at_a_time(n, x.shape[0] * sum(network.architecture.sizes[1:]))
    if together in (None, n):
        return jax.vmap(one)(particles, state)
    again = jax.checkpoint(lambda pair: one(*pair))
    return jax.lax.map(again, (particles, state), batch_size=together)


# a program of its own: outside of compiled code a loop would be compiled at every call
@partial(jax.jit, static_argnums=(0, 4))
def _unknown(network: Network, particles: PyTree, state: PyTree, x: Array, rows: int) -> tuple[Array, PyTree]:
    """Return the outputs of networks of which no more than their program is known."""
    return over_networks(lambda theta, state: network.apply(theta, state, x, rows), particles, state)


def at_a_time(n: int, activations: int) -> int:
    """Return how many of n particles a CPU takes at a time, if each has so many activations.

    >>> at_a_time(20, 200 * 51), at_a_time(1000, 200 * 51), at_a_time(20, 10**7)
    (20, 51, 1)
    """
    return n if n * activations <= IN_LAST_CACHE else min(max(IN_OWN_CACHE // activations, 1), n)


def over_particles(function: Callable[[PyTree], Array], params: PyTree, n: int) -> Float[Array, " n"]:
    """Return ``function`` of every particle's params, also where there are none."""
    size = None if jax.tree.leaves(params) else n
    return jax.vmap(lambda params: function(params), axis_size=size)(params)


def num_particles(particles: PyTree) -> int:
    """Return how many particles there are."""
    return jax.tree.leaves(particles)[0].shape[0]


def ravel(particles: PyTree) -> tuple[Float[Array, "n p"], Callable[[Float[Array, " p"]], PyTree]]:
    """Return particles as rows, and the map from one row back to one particle."""
    _, unravel = ravel_pytree(jax.tree.map(lambda leaf: leaf[0], particles))
    rows = [leaf.reshape(leaf.shape[0], -1) for leaf in jax.tree.leaves(particles)]
    return jnp.concatenate(rows, axis=1), unravel
