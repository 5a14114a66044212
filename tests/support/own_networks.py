# SPDX-License-Identifier: Apache-2.0
"""Small networks of a user's own, for 8 × 8 images."""

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp


class FlaxConvNet(nn.Module):
    """One convolution and a linear layer."""

    outputs: int = 10

    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(4, (3, 3), strides=(2, 2))(x))
        return nn.Dense(self.outputs)(x.reshape(x.shape[0], -1))


class EquinoxConvNet(eqx.Module):
    """One convolution and a linear layer; Equinox wants channels first."""

    convolution: eqx.nn.Conv2d
    linear: eqx.nn.Linear

    def __init__(self, key, outputs=10):
        one, two = jax.random.split(key)
        self.convolution = eqx.nn.Conv2d(1, 4, 3, stride=2, padding=1, key=one)
        self.linear = eqx.nn.Linear(64, outputs, key=two)

    def __call__(self, x):
        return self.linear(jax.nn.relu(self.convolution(jnp.moveaxis(x, -1, 0))).ravel())


def perceptron(key):
    return eqx.nn.MLP(64, 10, 8, 1, key=key)


flax_conv_net = FlaxConvNet()
