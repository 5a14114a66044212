# SPDX-License-Identifier: Apache-2.0
"""Steps on randomly changed inputs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import jax

from fpovi.types import Algorithm, Batch, Info, Key, ParametrisedAlgorithm, PyTree, State, Transform

A = TypeVar("A", Algorithm, ParametrisedAlgorithm)
OWN = 5  # of the keys that follow from that of a step, after those it uses itself


def augmented(algorithm: A, transform: Transform) -> A:
    """Return an algorithm that changes the labelled inputs of every step before it does anything else with them.

    All that a step makes of its inputs follows the change: outputs, measurement points around them, prior points.
    Predictions and checks look at inputs as they are.

    Args:
        algorithm: any, of this package or your own.
        transform: ``transform(key, x) -> x`` keeps the shape ``(B, *d_x)``, such as
            :func:`fpovi.augmentation.crop_and_flip`. Its key follows from that of the step, whose other random numbers
            stay as they are.

    >>> from fpovi import augmentation, likelihoods, networks, weight_space
    >>> ensemble = weight_space(networks.resnet(8), likelihoods.categorical())
    >>> algorithm = augmented(ensemble, augmentation.crop_and_flip())
    """
    if isinstance(algorithm, ParametrisedAlgorithm):
        return algorithm._replace(build=_Build(algorithm.build, transform))
    return algorithm._replace(step=_Step(algorithm.step, transform))


# equal where what they are made of is, so that fits share a program
@dataclass(frozen=True)
class _Step:
    step: Callable[[Key, State, Batch], tuple[State, Info]]
    transform: Transform

    def __call__(self, key: Key, state: State, batch: Batch) -> tuple[State, Info]:
        x = self.transform(jax.random.fold_in(key, OWN), batch.x)
        if (x.shape, x.dtype) != (batch.x.shape, batch.x.dtype):
            raise ValueError(
                f"transform returns inputs {x.dtype}{x.shape} for {batch.x.dtype}{batch.x.shape}: it must keep both"
            )
        return self.step(key, state, batch._replace(x=x))


@dataclass(frozen=True)
class _Build:
    build: Callable[[PyTree], Algorithm]
    transform: Transform

    def __call__(self, numbers: PyTree) -> Algorithm:
        algorithm = self.build(numbers)
        return algorithm._replace(step=_Step(algorithm.step, self.transform))
