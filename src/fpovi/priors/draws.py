# SPDX-License-Identifier: Apache-2.0
"""Functions drawn from a network's weight prior, seen at a few inputs."""

from collections.abc import Callable

import jax
from jaxtyping import Array, Float

from fpovi.types import Key, Network


def prior_draws(
    key: Key, network: Network, x: Float[Array, "B *d_x"], size: int, canonical: Callable[[Array], Array] | None
) -> Float[Array, "draws B k"]:
    """``size`` fresh networks from the prior, evaluated at x (with batch statistics, where there are any)."""

    def one(key: Key) -> Array:
        key_theta, key_state = jax.random.split(key)
        _, state = network.init(key_state)
        outputs, _ = network.apply(network.sample_prior(key_theta), state, x, True)
        return outputs if canonical is None else canonical(outputs)

    return jax.vmap(one)(jax.random.split(key, size))


def check_draws(draws: int) -> None:
    """Moments and densities need at least two draws."""
    if draws < 2:
        raise ValueError(f"draws={draws} must be at least 2")
