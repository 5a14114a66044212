# SPDX-License-Identifier: Apache-2.0
r"""Functions drawn from a network's weight prior, seen at a few inputs.

Given the layer below, the units of a layer are independent under a Gaussian prior, each with values
:math:`N(0, \tfrac{\sigma_w^2}{n} H H^T + \sigma_b^2)` at the inputs, H being the activations below. Where inputs are
fewer than weights, these values are drawn and no weights: at 4 inputs of a network 784-400-400-10, some 3,000 numbers
for half a million.
"""

from itertools import pairwise

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fpovi._fast.convolution import over_networks
from fpovi._fast.threefry import normals
from fpovi.types import Architecture, Key, Likelihood, Network


def prior_draws(
    key: Key,
    network: Network,
    x: Float[Array, "B *d_x"],
    size: int,
    likelihood: Likelihood | None = None,
    context: Float[Array, "C *d_x"] | None = None,
) -> Float[Array, "draws B k"]:
    """Draw ``size`` fresh networks from the prior, evaluated at x.

    Batch statistics, where there are any, are those of ``context`` alone, as those of particles are of labelled rows
    alone; without a context they are those of x.
    """
    seen, learned = (x, x.shape[0]) if context is None else (jnp.concatenate([context, x]), context.shape[0])

    def one(key: Key) -> Array:
        key_theta, key_state = jax.random.split(key)
        _, state = network.init(key_state)
        return network.apply(network.sample_prior(key_theta), state, seen, learned)[0]

    if network.architecture is None:
        outputs = over_networks(one, jax.random.split(key, size))[:, -x.shape[0] :]
    else:
        outputs = _layer_by_layer(key, network.architecture, x, size)
    return outputs if likelihood is None else jax.vmap(likelihood.canonical)(outputs)


def has_state(network: Network) -> bool:
    """Tell whether what a network says of an input depends on other inputs that it sees, by their statistics."""
    if network.architecture is not None:
        return False
    return bool(jax.tree.leaves(jax.eval_shape(lambda: network.init(jax.random.key(0))[1])))


def _layer_by_layer(
    key: Key, architecture: Architecture, x: Float[Array, "B d_x"], size: int
) -> Float[Array, "draws B k"]:
    """Draw from the same distribution with the fewest random numbers; points run along the last axis."""
    below, scales = architecture.inputs(x)[None], architecture.scales  # one for all draws, until the first layer
    keys, points, dtype = jax.random.split(key, len(scales.weight_variance)), x.shape[0], below.dtype
    for layer, (n_in, n_out) in enumerate(pairwise(architecture.sizes)):
        below = architecture.activation(below) if layer else below
        weight, bias = scales.weight_variance[layer].astype(dtype) / n_in, scales.bias_variance[layer].astype(dtype)
        if values_are_fewer(points, n_in, n_out):
            root = _root(weight * jnp.matmul(below.mT, below, precision="highest") + bias)
            below = _times(normals(keys[layer], (size, n_out, points), dtype), root.mT)
        else:
            drawn = normals(keys[layer], (size, n_out, n_in + 1), dtype)
            below = (jnp.sqrt(weight) * drawn[..., :-1]) @ below + jnp.sqrt(bias) * drawn[..., -1:]
    return below.mT


def values_are_fewer(points: int, n_in: int, n_out: int) -> bool:
    """Tell whether a layer's values at so many points are drawn instead of its weights, the root of a matrix included.

    On a CPU, where both were timed at 4 to 64 points of four networks, 40 draws each: never the slower of the two.

    >>> values_are_fewer(4, 13, 50), values_are_fewer(4, 50, 1), values_are_fewer(200, 784, 400)
    (True, False, False)
    """
    return points <= n_in and points**3 <= n_in * n_out


def _root(covariance: Float[Array, "m B B"]) -> Float[Array, "m B B"]:
    """Return R with R Rᵀ = covariance, which may be singular: two inputs may be the same."""
    at_least_single = covariance.astype(jnp.float32) if covariance.dtype.itemsize < 4 else covariance
    values, vectors = jnp.linalg.eigh(at_least_single)
    return (vectors * jnp.sqrt(jnp.maximum(values, 0))[:, None]).astype(covariance.dtype)


def _times(drawn: Float[Array, "draws o B"], root: Float[Array, "m B B"]) -> Float[Array, "draws o B"]:
    """Return the product for each draw; as one, where all draws have the same root."""
    if root.shape[0] < drawn.shape[0]:
        return (drawn.reshape(-1, drawn.shape[-1]) @ root[0]).reshape(drawn.shape)
    return drawn @ root


def check_draws(draws: int) -> None:
    """Raise a ``ValueError`` for fewer than two draws, which have no variance."""
    if draws < 2:
        raise ValueError(f"draws={draws} must be at least 2")
