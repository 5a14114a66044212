# SPDX-License-Identifier: Apache-2.0
"""f-SVGD in plain PyTorch: the algorithm of ``function:svgd:moment_matched``, line by line.

Written as someone would who knows PyTorch well: particles are a batch dimension, random numbers come in as few calls
as possible, Adam is PyTorch's own in its fused form. Prior draws are whole networks: to draw their values at the
prior's points instead, as we do, was no faster here, as a root costs more than the numbers it saves.
"""

import math
from itertools import pairwise

import numpy as np
import torch

from fpovi.bench.contestants.ours import LEARNING_RATE, PRIOR_DRAWS
from fpovi.bench.settings import Setting
from fpovi.bench.timing import Run
from fpovi.types import Batch

Layers = list[tuple[torch.Tensor, torch.Tensor]]
FLOOR, LENGTHSCALE_FLOOR, REACH = 1e-3, 1e-5, 2.0


def outputs(theta: Layers, x: torch.Tensor) -> torch.Tensor:
    """Return the outputs of networks on a leading axis, shape (n, B, 1)."""
    for layer, (weight, bias) in enumerate(theta):
        x = (torch.relu(x) if layer else x) @ weight + bias[:, None]
    return x


def outputs_to_compile(theta: Layers, x: torch.Tensor) -> torch.Tensor:
    """Return the same, written so that ``torch.compile`` makes the backward pass three times faster."""
    x = x.expand(len(theta[0][0]), *x.shape)
    for layer, (weight, bias) in enumerate(theta):
        x = torch.baddbmm(bias[:, None], torch.relu(x) if layer else x, weight)
    return x


def prior_networks(sizes: tuple[int, ...], draws: int) -> Layers:
    """Draw weights N(0, 1/n_in) and biases N(0, 1) in one call to the generator."""
    shapes = list(pairwise(sizes))
    normal = torch.randn(draws, sum((n_in + 1) * n_out for n_in, n_out in shapes))
    theta, start = [], 0
    for n_in, n_out in shapes:
        both = normal[:, start : start + (n_in + 1) * n_out].reshape(draws, n_in + 1, n_out)
        theta.append((both[:, :-1] / n_in**0.5, both[:, -1]))
        start += (n_in + 1) * n_out
    return theta


def prior_score(f: torch.Tensor, samples: torch.Tensor) -> torch.Tensor:
    """Return −V max(Λ, floor)⁻¹ Vᵀ (f − m) with the moments of ``samples (draws, d)``, at ``f (n, d)``."""
    wide, samples = f.double(), samples.double()
    mean = samples.mean(0)
    centred = samples - mean
    values, vectors = torch.linalg.eigh(centred.T @ centred / (len(samples) - 1))
    return (-((wide - mean) @ vectors / values.clamp(min=FLOOR)) @ vectors.T).to(f.dtype)


def svgd_velocity(f: torch.Tensor, score: torch.Tensor) -> torch.Tensor:
    """Return (K s + repulsion)/n with the Gaussian kernel at the median lengthscale; ``f`` and ``score`` are (n, d)."""
    n = len(f)
    centred = f - f.mean(0)
    norms = (centred**2).sum(1)
    squared = (norms[:, None] + norms - 2 * centred @ centred.T).clamp(min=0)
    ordered = squared.flatten().sort().values
    median = (ordered[(n * n - 1) // 2] + ordered[n * n // 2]) / 2
    lengthscale2 = (median / (2 * math.log(n + 1))).clamp(min=LENGTHSCALE_FLOOR)
    gram = torch.exp(-squared / (2 * lengthscale2))
    repulsion = (gram.sum(1)[:, None] * centred - gram @ centred) / lengthscale2
    return (gram @ score + repulsion) / n


class TorchFunctionSVGD:
    """The state of a run: weights, noises and Adam, and the step that moves them."""

    def __init__(self, setting: Setting, rows: Batch):
        torch.manual_seed(0)
        self.setting = setting
        self.x, self.y = (torch.from_numpy(np.array(a)) for a in (rows.x, rows.y))
        self.num_data = float(rows.num_data)
        self.theta = [
            (w.clone().requires_grad_(), b.clone().requires_grad_())
            for w, b in prior_networks(setting.sizes, setting.n)
        ]
        self.rho = torch.full((setting.n,), math.log(math.expm1(0.5)), requires_grad=True)
        self.leaves = [leaf for layer in self.theta for leaf in layer]
        self.adam = torch.optim.Adam([*self.leaves, self.rho], lr=LEARNING_RATE, fused=True)

    def measurement(self) -> torch.Tensor:
        """Return the labelled inputs, and extra ones around them at random radii."""
        extra, features = self.setting.extra, self.x.shape[1]
        if not extra:
            return self.x
        centres = self.x[torch.randint(len(self.x), (extra,))]
        return torch.cat([self.x, centres + REACH * torch.rand(extra, 1) * torch.randn(extra, features)])

    def prior_points(self) -> torch.Tensor:
        """Return which rows feel the prior: half labelled, half extra."""
        half = self.setting.prior_points // 2 if self.setting.extra else self.setting.prior_points
        labelled = torch.randperm(self.setting.batch)[:half]
        extra = self.setting.batch + torch.randperm(self.setting.extra)[: self.setting.prior_points - half]
        return torch.cat([labelled, extra])

    def velocities(
        self, f: torch.Tensor, x: torch.Tensor, chosen: torch.Tensor, draws: Layers
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the ascent directions of values f (n, B, 1) and noises; the prior is felt at the ``chosen`` points."""
        noise = torch.nn.functional.softplus(self.rho)
        weight = self.num_data / len(self.y)
        residual = (self.y - f[:, : len(self.y)]) / noise[:, None, None]
        score = torch.zeros_like(f)
        score[:, : len(self.y)] = weight * residual / noise[:, None, None]
        samples = outputs(draws, x[chosen])
        score = score.index_add(1, chosen, prior_score(f[:, chosen, 0], samples[..., 0])[..., None])
        velocity = svgd_velocity(f.flatten(1), score.flatten(1)).reshape(f.shape)
        by_noise = weight * ((residual**2).sum((1, 2)) - len(self.y)) / noise - 2 / noise + 0.1 / noise**2
        return velocity, by_noise * torch.sigmoid(self.rho)

    def runner(self, compiled: bool) -> Run:
        """Return ``run(steps)``, eager or compiled."""
        forward, velocities = outputs, torch.no_grad()(self.velocities)
        if compiled:
            forward, velocities = torch.compile(outputs_to_compile), torch.compile(velocities)

        def run(steps: int) -> None:
            for _ in range(steps):
                x = self.measurement()
                f = forward(self.theta, x)
                # drawn outside of what is compiled, where the generator is the faster one
                random = self.prior_points(), prior_networks(self.setting.sizes, PRIOR_DRAWS)
                velocity, noise_velocity = velocities(f.detach(), x, *random)
                self.adam.zero_grad()
                f.backward(-velocity)
                self.rho.grad = -noise_velocity
                self.adam.step()

        return run
