# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from fpovi.networks import resnet


@pytest.mark.parametrize(("depth", "convolutions"), [(8, 7), (20, 19), (32, 31)])
def test_depth_counts_layers(depth, convolutions):
    """By hand, for 16 channels: 432 in front, 2304, 9216 and 36864 for a convolution inside a stage, 650 at the end."""
    theta, state = jax.eval_shape(resnet(depth).init, jax.random.key(0))
    assert len(theta.kernels) == convolutions
    m = (depth - 2) // 6
    by_hand = 432 + 2 * m * 2304 + 4608 + (2 * m - 1) * 9216 + 18432 + (2 * m - 1) * 36864 + 650
    assert sum(leaf.size for leaf in jax.tree.leaves(theta)) == by_hand
    assert len(state) == convolutions


@pytest.mark.parametrize("depth", [0, 2, 7, 18])
def test_bad_depth(depth):
    with pytest.raises(ValueError, match=f"depth={depth} must be 6m"):
        resnet(depth)


def test_bad_numbers_and_images(key):
    with pytest.raises(ValueError, match="width=0 must be at least 1"):
        resnet(8, width=0)
    with pytest.raises(ValueError, match="prior_std=-1 must be positive"):
        resnet(8, prior_std=-1)
    network = resnet(8, width=2)
    with pytest.raises(ValueError, match=r"shape \(5, 3, 8, 8\), but images \(B, H, W, 3\) are needed, channels last"):
        network.apply(*network.init(key), jnp.zeros((5, 3, 8, 8)), True)


def by_hand(theta, x, blocks, batch_norm):
    """The network of the docstring, with statistics of all rows."""

    def active(h):
        if batch_norm:
            h = (h - h.mean((0, 1, 2))) / jnp.sqrt(h.var((0, 1, 2)) + 1e-5)
        return jnp.maximum(h, 0)

    def convolve(h, kernel, stride):
        return lax.conv_general_dilated(h, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    kernels = list(theta.kernels)
    h = convolve(x, kernels.pop(0), 1)
    for stage in range(3):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            inner = convolve(active(h), kernels.pop(0), stride)
            outer = convolve(active(inner), kernels.pop(0), 1)
            if stride == 2:
                h = (h[:, ::2, ::2] + h[:, 1::2, ::2] + h[:, ::2, 1::2] + h[:, 1::2, 1::2]) / 4
                zeros = jnp.zeros((*h.shape[:3], h.shape[3] // 2), h.dtype)
                h = jnp.concatenate([zeros, h, zeros], axis=3)
            h = h + (outer if batch_norm else outer / jnp.sqrt(3.0 * blocks).astype(h.dtype))
    return active(h).mean((1, 2)) @ theta.weight + theta.bias


@pytest.mark.parametrize("batch_norm", [True, False])
def test_outputs_are_those_of_the_formula(batch_norm, key, x64):
    network = resnet(14, classes=5, width=2, batch_norm=batch_norm)
    theta, state = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), network.init(key))
    x = jax.random.normal(key, (4, 8, 8, 3))
    outputs, _ = jax.jit(network.apply, static_argnums=3)(theta, state, x, True)
    # the library's are sums of up to 32 terms in another order
    np.testing.assert_allclose(outputs, jax.jit(lambda: by_hand(theta, x, 2, batch_norm))(), rtol=1e-9, atol=1e-10)


def test_prior_and_start_have_their_scales(key):
    network = resnet(8, width=8, prior_std=0.32, bias_std=1e4)
    draw = jax.jit(network.sample_prior)(key)
    # 9 · 32² and 9 · 3 · 8 numbers: standard deviations are good to 0.7 % and 5 %
    assert float(jnp.std(draw.kernels[-1])) == pytest.approx(0.32, rel=0.03)
    assert float(jnp.std(draw.kernels[0])) == pytest.approx(0.32, rel=0.2)
    assert 1e3 < float(jnp.std(draw.bias)) < 1e5
    theta, _ = jax.jit(network.init)(key)
    assert float(jnp.std(theta.kernels[-1])) == pytest.approx((2 / (9 * 32)) ** 0.5, rel=0.03)
    assert jnp.all(theta.bias == 0)
    expected = sum(
        float(jnp.sum(jax.scipy.stats.norm.logpdf(leaf, scale=std)))
        for leaf, std in zip(jax.tree.leaves(theta), [*[0.32] * 8, 1e4], strict=True)
    )
    assert float(network.log_prior(theta)) == pytest.approx(expected, rel=1e-5)
    default = jax.jit(resnet(8, width=8).sample_prior)(key)
    assert float(jnp.std(default.kernels[-1])) == pytest.approx((2 / (9 * 32)) ** 0.5, rel=0.03)


def test_without_batch_norm_outputs_do_not_grow_with_depth(key):
    x = jax.random.normal(key, (4, 8, 8, 3))
    for depth in (8, 32):
        network = resnet(depth, width=4, batch_norm=False)
        draws = jax.jit(jax.vmap(lambda key, n=network: n.apply(n.sample_prior(key), (), x, True)[0]))
        assert network.init(key)[1] == ()
        # N(0, 1) of the bias, and as much again and a little more of the weights
        assert 0.7 < float(jnp.std(draws(jax.random.split(key, 50)))) < 4


def test_images_of_odd_size(key):
    network = resnet(8, channels=1, width=2)
    theta, state = network.init(key)
    assert network.apply(theta, state, jnp.ones((2, 7, 9, 1)), False)[0].shape == (2, 10)


def test_dtype_follows_the_input(key, x64):
    network = resnet(8, width=2)
    theta, state = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), network.init(key))
    for dtype in (jnp.float32, jnp.float64):
        outputs, after = network.apply(theta, state, jnp.ones((2, 8, 8, 3), dtype), True)
        assert outputs.dtype == dtype
        assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(after))
