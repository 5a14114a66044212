# SPDX-License-Identifier: Apache-2.0
"""Algorithms that move particles: one step, the loop that repeats it, and what both need."""

from fpovi.inference.augmented import augmented
from fpovi.inference.batches import make_batch
from fpovi.inference.function_space import exact, function_space
from fpovi.inference.gauss_newton import gauss_newton
from fpovi.inference.loop import Run, run
from fpovi.inference.score import only_extra, shared_classes, some_classes
from fpovi.inference.sharding import connect, make_mesh, shard
from fpovi.inference.warm_start import posterior_last_layer
from fpovi.inference.weight_space import weight_space

__all__ = [
    "Run",
    "augmented",
    "connect",
    "exact",
    "function_space",
    "gauss_newton",
    "make_batch",
    "make_mesh",
    "only_extra",
    "posterior_last_layer",
    "run",
    "shard",
    "shared_classes",
    "some_classes",
    "weight_space",
]
