# SPDX-License-Identifier: Apache-2.0
"""The convolutional network: its layers against scipy, its prior, and its thinnings."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.signal import correlate

from fpovi.baselines.dropout import unit_masks
from fpovi.experiments.images.lenet import HIDDEN, LeNet, halved, lenet, thinned


@pytest.fixture(scope="module")
def network():
    return eqx.filter_jit(LeNet)(jax.random.key(0))


@pytest.fixture(scope="module")
def image():
    return jax.random.normal(jax.random.key(1), (28, 28, 1))


def test_it_has_the_layers_of_lenet(network):
    shapes = [leaf.shape for leaf in jax.tree.leaves(eqx.filter(network, eqx.is_inexact_array)) if leaf.ndim > 1]
    assert [shape for shape in shapes if shape[-1] > 1] == [
        (6, 1, 5, 5), (16, 6, 5, 5), (120, 400), (84, 120), (10, 84),
    ]  # fmt: skip


def test_outputs_follow_from_the_definition(network, image):
    """In float64, with scipy's correlation for the convolutions."""
    h = np.asarray(image, float)[:, :, 0][None]
    for layer, border in zip(network.convolutions, (2, 0), strict=True):
        padded = np.pad(h, ((0, 0), (border, border), (border, border)))
        weight, bias = np.asarray(layer.weight, float), np.asarray(layer.bias, float)
        h = np.stack([correlate(padded, kernel, "valid")[0] for kernel in weight]) + bias
        h = np.maximum(h, 0)
        h = np.maximum(np.maximum(h[:, ::2, ::2], h[:, 1::2, ::2]), np.maximum(h[:, ::2, 1::2], h[:, 1::2, 1::2]))
    h = h.ravel()
    for place, layer in enumerate(network.dense):
        h = np.asarray(layer.weight, float) @ (np.maximum(h, 0) if place else h) + np.asarray(layer.bias, float)
    np.testing.assert_allclose(network(image), h, atol=1e-5)  # float32, values near .1


def test_halving_takes_the_maximum_of_four():
    found = halved(jnp.arange(32, dtype=jnp.float32).reshape(2, 4, 4))
    np.testing.assert_array_equal(found, [[[5, 7], [13, 15]], [[21, 23], [29, 31]]])


def test_a_thinning_gives_what_masks_give(network, image, key):
    masks = unit_masks(key, HIDDEN, 0.5)
    assert [mask.shape for mask in masks] == [(120,), (84,)]
    assert set(np.unique(np.concatenate(masks))) == {0.0, 2.0}
    np.testing.assert_allclose(
        thinned(network, masks)(image), network(image, masks), atol=1e-6
    )  # another order of sums
    assert [mask.shape for mask in unit_masks(key, HIDDEN, 0.5, (7,))] == [(7, 120), (7, 84)]


def test_the_prior_gives_every_layer_its_fan_in(key):
    theta = jax.jit(lenet(4.0).sample_prior)(key)
    assert lenet(4.0) is lenet(4.0)
    for layer, fan_in in ((theta.convolutions[1], 150), (theta.dense[0], 400), (theta.dense[1], 120)):
        # 2,400 draws and more: .05 is over three standard errors
        assert abs(np.std(layer.weight) * fan_in**0.5 / 2 - 1) < 0.05
    biases = np.concatenate([np.ravel(layer.bias) for layer in (*theta.convolutions, *theta.dense)])
    assert abs(np.std(biases) / 2 - 1) < 0.15  # 236 draws: three standard errors
