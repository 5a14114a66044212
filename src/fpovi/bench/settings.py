# SPDX-License-Identifier: Apache-2.0
"""The shapes that are timed. Data are random numbers, as only their shape matters to the clock."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import numpy as np

from fpovi._lookup import lookup
from fpovi.inference.batches import make_batch
from fpovi.likelihoods import categorical, gaussian
from fpovi.networks import ResNet, mlp, resnet
from fpovi.types import Batch, Likelihood, Network

IMAGE_SIDE = 32  # pixels of the images of a residual network


class Setting(NamedTuple):
    """The shape of a step: a network's layers, the rows and the number of particles.

    Args:
        name: what rows and tables call it.
        sizes: widths of the network's layers, inputs and outputs included; of a residual network the channels of an
            image and of the first stage, and the outputs.
        batch: labelled rows of a step.
        extra: further points, drawn around the labelled ones.
        n: how many networks.
        prior_points: how many of all points feel the prior; by default as in the experiments of Wang et al. (2019).
        classes: whether targets are classes.
        draws: how many prior networks a step takes, where priors are made of them; by default as many as theirs.
        depth: of a residual network; 0 for a multilayer perceptron.
    """

    name: str
    sizes: tuple[int, ...]
    batch: int
    extra: int
    n: int = 20
    prior_points: int = 4
    classes: bool = False
    draws: int | None = None
    depth: int = 0

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "Setting":
        """Read what ``_asdict`` became in JSON, where tuples are lists."""
        return cls(**fields | {"sizes": tuple(fields["sizes"])})

    @property
    def points(self) -> int:
        """The number of all rows of a step, B."""
        return self.batch + self.extra

    @property
    def layers(self) -> str:
        """What tables call the network.

        >>> Setting("tiny", (3, 5, 1), batch=7, extra=0).layers, SETTINGS["resnet"].layers
        ('3-5-1', 'ResNet-8 of 8 channels')
        """
        return f"ResNet-{self.depth} of {self.sizes[1]} channels" if self.depth else "-".join(map(str, self.sizes))

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return (IMAGE_SIDE, IMAGE_SIDE, self.sizes[0]) if self.depth else self.sizes[:1]

    @property
    def num_weights(self) -> int:
        """The number of weights of one network."""
        return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(_weights(self)))

    @property
    def pass_flops(self) -> int:
        r"""The floating-point operations of all matrix products in one forward and backward pass of all particles.

        .. math:: nB\,\Big(2\sum_l m_l + 2\sum_l m_l + 2\sum_{l>0} m_l\Big)

        for the outputs, the gradients of the weights, and those of the layers' inputs, which the first does not need;
        :math:`m_l` are the products of numbers in layer l for one point, :math:`i_l o_l` in a perceptron.

        >>> Setting("tiny", (3, 5, 1), batch=7, extra=0, n=1).pass_flops  # 7·(2·20 + 2·20 + 2·5)
        630
        """
        products = _products(self)
        return self.n * self.points * (4 * sum(products) + 2 * sum(products[1:]))


def _weights(setting: Setting) -> Any:
    return jax.eval_shape(lambda: make_network(setting).init(jax.random.key(0))[0])


def _products(setting: Setting) -> list[int]:
    """Return how many products of two numbers each layer takes for one point."""
    weights = _weights(setting)
    if not isinstance(weights, ResNet):
        return [n_in * n_out for n_in, n_out in pairwise(setting.sizes)]
    _, *kernels = weights.kernels
    # the first kernel sees whole images; those of the three stages see them whole, halved and quartered in both ways
    pixels = [IMAGE_SIDE**2 // 4 ** (place * 3 // len(kernels)) for place in range(len(kernels))]
    convolutions = [math.prod(kernel.shape) * seen for kernel, seen in zip(kernels, pixels, strict=True)]
    return [math.prod(weights.kernels[0].shape) * IMAGE_SIDE**2, *convolutions, math.prod(weights.weight.shape)]


SETTINGS = {
    setting.name: setting
    for setting in (
        Setting("boston", (13, 50, 1), batch=100, extra=100),
        Setting("kin8nm", (8, 50, 1), batch=1000, extra=100),
        Setting("protein", (9, 100, 1), batch=1000, extra=100),
        Setting("wide", (784, 400, 400, 10), batch=100, extra=0, classes=True),
        Setting("mnist", (784, 400, 400, 10), batch=100, extra=100, n=5, prior_points=2, classes=True, draws=30),
        Setting("mnist-adversarial", (784, 1000, 1000, 1000, 10), batch=250, extra=100, classes=True, draws=40),
        Setting("resnet", (3, 8, 10), batch=128, extra=0, n=8, classes=True, draws=16, depth=8),
    )
}
LONG = ("mnist-adversarial", "resnet")  # a step of seconds: timed on request
SWEEPS: dict[str, tuple[int, ...]] = {
    "n": (1, 5, 20, 100, 1000),
    "batch": (10, 100, 1000, 10_000),
    "width": (10, 50, 100, 400, 1600),
    "prior_points": (4, 16, 64),
}


def swept(setting: Setting, axis: str, values: Sequence[int] = ()) -> list[Setting]:
    """Return copies of ``setting`` with one thing varied.

    Args:
        setting: where to start.
        axis: a key of :data:`SWEEPS`: ``n`` particles, a ``batch`` of rows, hidden ``width`` or ``prior_points``.
        values: what it becomes; those of :data:`SWEEPS` by default.

    >>> [setting.name for setting in swept(SETTINGS["boston"], "n", (1, 5))]
    ['boston n=1', 'boston n=5']
    """
    values = values or lookup(SWEEPS, axis, "sweep")
    return [_varied(setting, axis, value)._replace(name=f"{setting.name} {axis}={value}") for value in values]


def _varied(setting: Setting, axis: str, value: int) -> Setting:
    if axis == "width":
        inputs, *hidden, outputs = setting.sizes
        return setting._replace(sizes=(inputs, *(value for _ in hidden), outputs))
    varied: dict[str, Any] = {axis: value}
    return setting._replace(**varied)


class Workload(NamedTuple):
    """A model and rows with the shapes of a setting: B' of them ``labelled``, and targets for all B in ``all_rows``."""

    network: Network
    likelihood: Likelihood
    labelled: Batch
    all_rows: Batch


def make_workload(setting: Setting, dtype: type[np.floating[Any]] = np.float32) -> Workload:
    """Return the network, likelihood and rows of a setting: the same for equal settings."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(setting.points, *setting.input_shape)).astype(dtype)
    if setting.classes:
        y = rng.integers(setting.sizes[-1], size=(setting.points, 1)).astype(np.int32)
    else:
        y = rng.normal(size=(setting.points, setting.sizes[-1])).astype(dtype)
    return Workload(
        network=make_network(setting),
        likelihood=categorical() if setting.classes else gaussian(floor=0.0),  # as the peers have it
        labelled=make_batch(x[: setting.batch], y[: setting.batch]),
        all_rows=make_batch(x, y),
    )


def make_network(setting: Setting) -> Network:
    """Return the network of a setting."""
    if not setting.depth:
        return mlp(setting.sizes)
    channels, width, classes = setting.sizes
    return resnet(setting.depth, classes, channels, width)
