# SPDX-License-Identifier: Apache-2.0
"""The bare pass: outputs of all networks at all points, and a given velocity pulled back to all weights.

No step can be faster than the fastest of these at its shape. They differ only in how the work is laid out, which
decides on a CPU whether activations stay in its cache.
"""

from collections.abc import Callable
from itertools import pairwise

import jax
import jax.numpy as jnp
from jaxtyping import Array

from fpovi._fast.affine import affine
from fpovi._lookup import lookup
from fpovi.bench.settings import Setting
from fpovi.bench.timing import Run, UnavailableError, compile_run
from fpovi.types import PyTree

MOST_UNROLLED = 50  # networks written out one by one: more would take minutes to compile
Layers = list[tuple[Array, Array]]
Pass = Callable[[PyTree, Array, Array], PyTree]


def bare_pass(layout: str, setting: Setting) -> Run:
    """Return a run of the pass in one of :data:`LAYOUTS`.

    Weights stay as they are. Inputs change by a number too small to matter that depends on the last gradients, which
    keeps the compiler from doing anything once for all steps.
    """
    arrange, gradients = lookup(LAYOUTS, layout, "layout")
    if layout == "unrolled" and setting.n > MOST_UNROLLED:
        raise UnavailableError(f"not for more than {MOST_UNROLLED} networks")
    if setting.depth:
        raise UnavailableError("written for perceptrons only")
    keys = jax.random.split(jax.random.key(0), 3)
    theta = arrange(draw_networks(keys[0], setting.sizes, setting.n))
    x = jax.random.normal(keys[1], (setting.points, setting.sizes[0]))
    velocity = jax.random.normal(keys[2], (setting.n, setting.points, setting.sizes[-1]))

    def step(i: Array, last: PyTree, theta: PyTree, x: Array, velocity: Array) -> PyTree:
        return gradients(theta, x + 1e-30 * last[-1][1].ravel()[0], velocity)

    return compile_run(step, theta, theta, x, velocity)


def draw_networks(key: Array, sizes: tuple[int, ...], n: int) -> Layers:
    """Draw n networks, on a leading axis of weights and biases."""
    keys = jax.random.split(key, len(sizes) - 1)
    shapes = zip(keys, pairwise(sizes), strict=True)
    return [(jax.random.normal(k, (n, n_in, n_out)) / n_in**0.5, jnp.zeros((n, n_out))) for k, (n_in, n_out) in shapes]


def _outputs(theta: Layers, x: Array) -> Array:
    for layer, (weight, bias) in enumerate(theta):
        x = (jax.nn.relu(x) if layer else x) @ weight + bias
    return x


def _pulled_back(values: Callable[[PyTree], Array], theta: PyTree, velocity: Array) -> PyTree:
    f, pullback = jax.vjp(values, theta)
    # the velocity of one particle depends on the values of all, as in any flow
    return pullback(velocity + 1e-30 * jnp.mean(f, axis=0, keepdims=True))[0]


def together(theta: Layers, x: Array, velocity: Array) -> Layers:
    """Pass through all networks at once, by ``vmap``."""
    return _pulled_back(lambda theta: jax.vmap(_outputs, in_axes=(0, None))(theta, x), theta, velocity)


def in_turn(size: int) -> Pass:
    """Take ``size`` networks at a time: all forward and then all back, activations kept in between."""

    def gradients(theta: Layers, x: Array, velocity: Array) -> Layers:
        values = lambda theta: jax.lax.map(lambda one: _outputs(one, x), theta, batch_size=_by(size))  # noqa: E731
        return _pulled_back(values, theta, velocity)

    return gradients


def in_turn_again(theta: Layers, x: Array, velocity: Array) -> Layers:
    """Take one network at a time, and compute activations again on the way back instead of keeping them."""
    once_more = jax.checkpoint(lambda one: _outputs(one, x))
    return _pulled_back(lambda theta: jax.lax.map(once_more, theta), theta, velocity)


def there_and_back(size: int) -> Pass:
    """Take ``size`` networks forward and straight back: only for velocities that do not depend on other networks."""

    def gradients(theta: Layers, x: Array, velocity: Array) -> Layers:
        def one(pair: tuple[Layers, Array]) -> Layers:
            theta, velocity = pair
            return jax.vjp(lambda theta: _outputs(theta, x), theta)[1](velocity)[0]

        return jax.lax.map(one, (theta, velocity), batch_size=_by(size))

    return gradients


def _by(size: int) -> int | None:
    return None if size == 1 else size


def unrolled(theta: Layers, x: Array, velocity: Array) -> Layers:
    """Write out one product for each network, so that the scheduler sees them all."""

    def values(theta: Layers) -> Array:
        return jnp.stack([_outputs([(weight[i], bias[i]) for weight, bias in theta], x) for i in range(len(velocity))])

    return _pulled_back(values, theta, velocity)


def _wide(theta: Layers) -> Layers:
    (weight, bias), *rest = theta
    return [(jnp.moveaxis(weight, 0, 1), bias), *rest]


def wide(theta: Layers, x: Array, velocity: Array) -> Layers:
    """Compute the first layers of all networks as one product (B, d) × (d, n·h), the rest together."""

    def values(theta: Layers) -> Array:
        (weight, bias), *rest = theta
        h = (x @ weight.reshape(weight.shape[0], -1)).reshape(len(x), *bias.shape) + bias  # (B, n, h)
        for weight, bias in rest:
            h = jnp.einsum("bni,nio->bno", jax.nn.relu(h), weight) + bias
        return jnp.moveaxis(h, 1, 0)

    return _pulled_back(values, theta, velocity)


def _rows(theta: Layers) -> Layers:
    return [(jnp.swapaxes(weight, 1, 2), bias) for weight, bias in theta]


def rows(first: Callable[[Array, Array, Array], Array]) -> Pass:
    """Put points along the last axis: ``first(weight, bias, x)`` for the first layers, the rest (o, i) × (i, B)."""

    def gradients(theta: Layers, x: Array, velocity: Array) -> Layers:
        def values(theta: Layers) -> Array:
            (weight, bias), *rest = theta
            a = first(weight, bias, x)
            for weight, bias in rest:
                a = weight @ jax.nn.relu(a) + bias[..., None]
            return jnp.swapaxes(a, 1, 2)

        return _pulled_back(values, theta, velocity)

    return gradients


def _one_product(weight: Array, bias: Array, x: Array) -> Array:
    """Compute (n·h, d) × (d, B)."""
    n, h, d = weight.shape
    return (weight.reshape(n * h, d) @ x.T).reshape(n, h, -1) + bias[..., None]


def _in_blocks(weight: Array, bias: Array, x: Array) -> Array:
    """Compute the same, with its derivative in blocks of columns."""
    return jax.vmap(affine, in_axes=(0, 0, None))(jnp.swapaxes(weight, 1, 2), bias, x.T)


def _as_is(theta: Layers) -> Layers:
    return theta


LAYOUTS: dict[str, tuple[Callable[[Layers], Layers], Pass]] = {
    "vmap": (_as_is, together),
    "map": (_as_is, in_turn(1)),
    "map-2": (_as_is, in_turn(2)),
    "map-again": (_as_is, in_turn_again),
    "there-and-back": (_as_is, there_and_back(1)),
    "there-and-back-2": (_as_is, there_and_back(2)),
    "unrolled": (_as_is, unrolled),
    "wide": (_wide, wide),
    "rows": (_rows, rows(_one_product)),
    "rows-blocks": (_rows, rows(_in_blocks)),
}
