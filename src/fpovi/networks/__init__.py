# SPDX-License-Identifier: Apache-2.0
"""Networks with a prior on their weights: ``mlp``, ``resnet``, and adapters for a user's Equinox or Flax module."""

from fpovi.networks.equinox_module import from_equinox
from fpovi.networks.flax_module import from_flax
from fpovi.networks.mlp import ACTIVATIONS, MLP, fan_in_scales, fan_out_scales, mlp, num_weights
from fpovi.networks.resnet import ResNet, resnet

__all__ = [
    "ACTIVATIONS",
    "MLP",
    "ResNet",
    "fan_in_scales",
    "fan_out_scales",
    "from_equinox",
    "from_flax",
    "mlp",
    "num_weights",
    "resnet",
]
