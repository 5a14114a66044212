# SPDX-License-Identifier: Apache-2.0
"""Networks one at a time, their convolutions rewritten, against ``vmap`` of what they are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from fpovi._fast.convolution import convolves, over_networks

ROUNDING = 1e-10  # float64; gradients are sums of some 1,000 terms of order 10

# (shape of the inputs, shape of the kernel, arguments of the convolution)
CASES = {
    "rows last": ((2, 6, 7, 4), (3, 3, 2, 5), {"padding": "SAME", "dimension_numbers": ("CHWN", "HWIO", "CHWN")}),
    "channels first, strides": ((4, 2, 7, 6), (5, 2, 3, 2), {"padding": "VALID", "window_strides": (2, 1)}),
    "channels last, uneven padding": (
        (4, 6, 7, 2),
        (3, 3, 2, 5),
        {"padding": ((2, 0), (0, 1)), "window_strides": (2, 2), "dimension_numbers": ("NHWC", "HWIO", "NHWC")},
    ),
    "dilated": (
        (4, 2, 7, 6),
        (5, 2, 3, 2),
        {"padding": ((2, 2), (1, 0)), "rhs_dilation": (2, 1), "lhs_dilation": (1, 2)},
    ),
    "groups": ((4, 4, 7, 6), (6, 2, 3, 2), {"padding": "SAME", "feature_group_count": 2}),
    "signals": ((4, 2, 9), (5, 2, 3), {"padding": "VALID", "window_strides": (1,)}),
}


def network(name):
    _, _, options = CASES[name]
    options = {"window_strides": (1,) * (len(CASES[name][0]) - 2), **options}

    @jax.jit  # convolutions are found in called functions too
    def layer(kernel, x):
        return jax.nn.relu(lax.conv_general_dilated(x, kernel, **options))

    return lambda kernel, x: {"sum": jnp.sum(layer(kernel, x)), "all": jnp.tanh(layer(kernel, x))}


@pytest.mark.parametrize("name", CASES)
def test_outputs_and_gradients_are_those_of_vmap(name, key, x64):
    x_shape, shape, _ = CASES[name]
    kernels, x = jax.random.normal(key, (3, *shape)), jax.random.normal(jax.random.key(1), x_shape)
    one = network(name)

    def there_and_back(map_networks):
        outputs, pullback = jax.vjp(lambda kernels, x: map_networks(lambda kernel: one(kernel, x), kernels), kernels, x)
        return outputs, pullback(jax.tree.map(jnp.cos, outputs))

    ours = jax.jit(lambda: there_and_back(over_networks))()
    theirs = jax.jit(lambda: there_and_back(lambda one, kernels: jax.vmap(one)(kernels)))()
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=ROUNDING, atol=ROUNDING), ours, theirs)


def test_gradients_have_no_convolution_in_a_slow_form(key):
    """In a loop XLA brings no convolution into the form of its fast kernel: all have to be written in it."""
    one, (x_shape, shape, _) = network("channels first, strides"), CASES["channels first, strides"]
    x = jnp.ones(x_shape)
    loss = lambda kernels: jnp.sum(over_networks(lambda kernel: one(kernel, x)["all"], kernels))  # noqa: E731
    text = jax.jit(jax.grad(loss)).lower(jnp.ones((3, *shape))).as_text()
    forms = [
        line.split("dim_numbers = ")[1].split(", window")[0] for line in text.splitlines() if "dim_numbers" in line
    ]
    assert forms
    assert set(forms) == {"[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]"}


def test_networks_without_convolutions_are_left_to_vmap():
    weights, x = jnp.ones((3, 2, 5)), jnp.ones((4, 2))
    one = lambda weight: jax.nn.relu(x @ weight)  # noqa: E731
    assert not convolves(jax.make_jaxpr(one)(weights[0]).jaxpr)
    assert "scan" not in str(jax.make_jaxpr(lambda weights: over_networks(one, weights))(weights))
    np.testing.assert_array_equal(over_networks(one, weights), jax.vmap(one)(weights))
