# SPDX-License-Identifier: Apache-2.0
"""The first layer against the plain product, whose derivatives JAX finds itself."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fpovi._fast.affine import affine

FEATURES = (1, 3, 4, 7, 8, 9, 13, 15, 16, 17, 70)  # whole blocks with and without the bias, parts of them, few, many
ROUNDING = 1e-12  # float64, sums of at most 70 terms of order 1


def plain(weight, bias, x):
    return weight.T @ x + bias[:, None]


def parts(features, seed=0):
    rng = np.random.default_rng(seed)
    return tuple(jnp.asarray(rng.normal(size=shape)) for shape in ((features, 6), (6,), (features, 30)))


@pytest.mark.parametrize("features", FEATURES)
def test_value_and_all_derivatives_are_those_of_the_product(features):
    with jax.enable_x64(True):
        point, direction = parts(features), parts(features, seed=1)
        ours, theirs = (jax.jvp(function, point, direction) for function in (affine, plain))
        np.testing.assert_allclose(ours, theirs, atol=ROUNDING)
        there = jnp.cos(ours[0])
        for a, b in zip(*(jax.vjp(f, *point)[1](there) for f in (affine, plain)), strict=True):
            np.testing.assert_allclose(a, b, atol=ROUNDING)


@pytest.mark.parametrize("by", [0, 1, 2])
def test_derivative_in_one_argument_alone(by):
    with jax.enable_x64(True):
        point = parts(9)
        loss = lambda function: lambda *point: jnp.sum(jnp.sin(function(*point)))  # noqa: E731
        ours, theirs = (jax.grad(loss(function), argnums=by)(*point) for function in (affine, plain))
        np.testing.assert_allclose(ours, theirs, atol=ROUNDING)


def test_many_networks_at_the_same_points_and_second_derivatives():
    with jax.enable_x64(True):
        weight, bias, x = parts(9)
        weights, biases = jnp.stack([weight, 2 * weight]), jnp.stack([bias, -bias])

        def loss(function, weights):
            return jnp.sum(jax.vmap(function, in_axes=(0, 0, None))(weights, biases, x) ** 3)

        ours, theirs = (jax.hessian(lambda w, f=f: loss(f, w))(weights) for f in (affine, plain))
        np.testing.assert_allclose(ours, theirs, rtol=1e-10)  # cubes summed over 30 points


def test_gradient_of_weights_is_one_product_of_whole_blocks():
    weight, bias, x = (part.astype(jnp.float32) for part in parts(13))
    gradient = jax.jit(jax.grad(lambda weight: jnp.sum(affine(weight, bias, x) ** 2)))
    assert "tensor<16x" in gradient.lower(weight).as_text()
