# SPDX-License-Identifier: Apache-2.0
"""f-SVGD of residual networks in plain PyTorch: the algorithm of ``function:svgd:moment_matched`` for classes.

Networks are taken one after the other, or all by ``torch.vmap``, which makes one grouped convolution of theirs. Images
are channels first, as PyTorch's convolutions want them.
"""

import math
from collections.abc import Callable

import numpy as np
import torch
from torch.nn.functional import avg_pool2d, conv2d, log_softmax, pad

from fpovi.bench.contestants.ours import LEARNING_RATE
from fpovi.bench.contestants.torch_step import prior_score, svgd_velocity
from fpovi.bench.settings import Setting, make_network
from fpovi.bench.timing import Run
from fpovi.inference.particles import init_particles
from fpovi.inference.score import CONTEXT
from fpovi.networks import ResNet
from fpovi.networks.batch_norm import EPSILON, MOMENTUM
from fpovi.networks.resnet import STAGES
from fpovi.types import Batch

Weights = tuple[torch.Tensor, ...]  # the kernels (outputs, inputs, 3, 3), then weight and bias of the dense layer
Statistics = tuple[torch.Tensor, ...]  # a mean and a variance after the other
Over = Callable[..., tuple[torch.Tensor, Statistics]]


def outputs(theta: Weights, x: torch.Tensor, learned: int) -> tuple[torch.Tensor, Statistics]:
    """Return the outputs of one network at images (B, c, H, W), and the statistics of the ``learned`` first of them."""
    first, *kernels, weight, bias = theta
    statistics: list[torch.Tensor] = []

    def active(h: torch.Tensor) -> torch.Tensor:
        variance, mean = torch.var_mean(h[:learned], (0, 2, 3), correction=0)
        statistics.extend((mean.detach(), variance.detach()))
        return torch.relu((h - mean[:, None, None]) * torch.rsqrt(variance + EPSILON)[:, None, None])

    h = conv2d(x, first, padding=1)
    blocks = len(kernels) // (2 * STAGES)
    for place, (kernel, second) in enumerate(zip(kernels[::2], kernels[1::2], strict=True)):
        if place in range(blocks, STAGES * blocks, blocks):
            inner, short = conv2d(pad(active(h), (0, 1, 0, 1)), kernel, stride=2), avg_pool2d(h, 2)
            missing = kernel.shape[0] - h.shape[1]
            short = pad(short, (0, 0, 0, 0, missing // 2, missing - missing // 2))
        else:
            inner, short = conv2d(active(h), kernel, padding=1), h
        h = short + conv2d(active(inner), second, padding=1)
    return active(h).mean((2, 3)) @ weight + bias, tuple(statistics)


def one_by_one(theta: Weights, x: torch.Tensor, learned: int) -> tuple[torch.Tensor, Statistics]:
    """Return outputs (n, B, k) and statistics of networks on a leading axis of their weights."""
    found = [outputs(tuple(leaf[i] for leaf in theta), x, learned) for i in range(len(theta[0]))]
    return torch.stack([f for f, _ in found]), tuple(map(torch.stack, zip(*(seen for _, seen in found), strict=True)))


def vectorised(theta: Weights, x: torch.Tensor, learned: int) -> tuple[torch.Tensor, Statistics]:
    """Return the same by ``torch.vmap``."""
    found: tuple[torch.Tensor, Statistics] = torch.vmap(lambda theta: outputs(theta, x, learned))(theta)
    return found


def weights_of(theta: ResNet) -> Weights:
    """Return weights of ours, one network's or more on a leading axis, as those of PyTorch."""
    tensor = lambda leaf: torch.from_numpy(np.array(leaf))  # noqa: E731
    kernels = (tensor(kernel).movedim((-1, -2), (-4, -3)).contiguous() for kernel in theta.kernels)
    return (*kernels, tensor(theta.weight), tensor(theta.bias))


class TorchResNetSVGD:
    """The state of a run: weights, statistics and Adam, and the step that moves them."""

    def __init__(self, setting: Setting, rows: Batch, over: Over):
        import jax

        torch.manual_seed(0)
        self.setting, self.over = setting, over
        self.x = torch.from_numpy(np.array(rows.x)).movedim(-1, 1).contiguous()
        self.y = torch.from_numpy(np.array(rows.y)).long()
        self.num_data = float(rows.num_data)
        theta, _ = init_particles(jax.random.key(0), make_network(setting), setting.n)
        self.theta = tuple(leaf.requires_grad_() for leaf in weights_of(theta))
        self.running: Statistics = ()
        self.adam = torch.optim.Adam(self.theta, lr=LEARNING_RATE, fused=True)

    def prior_networks(self, draws: int) -> Weights:
        """Draw weights N(0, 2/fan in), and biases N(0, 1)."""
        *kernels, weight, bias = (leaf.shape[1:] for leaf in self.theta)
        drawn = [torch.randn(draws, *shape) * math.sqrt(2 / math.prod(shape[1:])) for shape in kernels]
        return (*drawn, torch.randn(draws, *weight) * math.sqrt(2 / weight[0]), torch.randn(draws, *bias))

    @torch.no_grad()
    def velocity(self, f: torch.Tensor, chosen: torch.Tensor, draws: Weights) -> torch.Tensor:
        """Return the ascent direction of log-probabilities f (n, B, k); the prior is felt at the ``chosen`` points."""
        score = torch.zeros_like(f)
        score.scatter_(2, self.y.expand(len(f), -1, 1), self.num_data / len(self.y))
        context = self.x[: -(-len(self.y) // CONTEXT)]
        sampled, _ = self.over(draws, torch.cat([context, self.x[chosen]]), len(context))
        samples = log_softmax(sampled[:, len(context) :], -1)
        felt = prior_score(f[:, chosen].flatten(1), samples.flatten(1)).reshape(len(f), len(chosen), -1)
        return svgd_velocity(f.flatten(1), score.index_add(1, chosen, felt).flatten(1)).reshape(f.shape)

    def step(self) -> None:
        """Move all networks once."""
        logits, statistics = self.over(self.theta, self.x, len(self.x))
        f = log_softmax(logits, -1)
        chosen = torch.randperm(self.setting.batch)[: self.setting.prior_points]
        velocity = self.velocity(f.detach(), chosen, self.prior_networks(self.setting.draws or 0))
        self.adam.zero_grad()
        f.backward(-velocity)
        self.adam.step()
        before = self.running or statistics
        self.running = tuple(MOMENTUM * old + (1 - MOMENTUM) * new for old, new in zip(before, statistics, strict=True))

    def runner(self) -> Run:
        """Return ``run(steps)``."""

        def run(steps: int) -> None:
            for _ in range(steps):
                self.step()

        return run
