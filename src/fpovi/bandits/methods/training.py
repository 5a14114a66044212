# SPDX-License-Identifier: Apache-2.0
"""How networks with an output per arm learn from rows: batches of a fixed shape, and as many steps as a schedule says.

Batches are drawn on the host and fed to one program for :data:`CHUNK` steps, so that nothing is compiled anew while
rows become more.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Int

from fpovi.bandits.memory import Rows
from fpovi.bandits.method import Lesson, Method, Scale, scale_of, unit_scale
from fpovi.inference.loop import run
from fpovi.inference.particles import forward
from fpovi.types import Algorithm, Batch, Key, Network, ParametrisedAlgorithm, PyTree, State

CHUNK = 50  # steps of one call
Build = Callable[[PyTree], Algorithm]  # of the numbers of a chunk


class Schedule(NamedTuple):
    """Steps of each lesson: from ``first`` to ``last`` along a line in ``over`` lessons, then ``last``.

    >>> [Schedule(200, 100, 3).steps(number) for number in range(5)]
    [200, 150, 100, 100, 100]
    """

    first: int = 1000
    last: int = 50
    over: int = 20

    def steps(self, number: int) -> int:
        """Return how many steps lesson ``number`` has, counted from 0."""
        share = min(number / max(self.over - 1, 1), 1.0)
        return round(self.first + share * (self.last - self.first))


class Learned(NamedTuple):
    """Networks in the middle of learning, the functions that decide (none where they are the networks), and a scale."""

    state: State
    functions: PyTree
    scale: Scale


class Plan(NamedTuple):
    """How networks learn.

    Attributes:
        network: ``network(inputs, arms)`` returns the network, the same object each time.
        algorithm: ``algorithm(network)`` returns a function of numbers, whose result moves the members.
        members: how many are trained.
        schedule: steps of each lesson.
        batch_size: rows of a step.
        every: new rows between two lessons.
        standardise: learn rewards of mean 0 and variance 1, in place of those that came.
        numbers: ``numbers(lesson)`` returns arrays that the algorithm is made of, for one chunk of steps.
        columns: ``columns(lesson, index)`` returns more columns of targets, for the rows ``index``.
        functions: ``functions(key, members, network, rows)`` returns the particles that decide, given the rows with
            rewards as they are learned, none at first; by default they are the members themselves.
    """

    network: Callable[[int, int], Network]
    algorithm: Callable[[Network], Build]
    members: int
    schedule: Schedule
    batch_size: int
    every: int
    standardise: bool
    numbers: Callable[[Lesson], PyTree] = lambda lesson: ()
    columns: Callable[[Lesson, Int[np.ndarray, " B"]], Float[np.ndarray, "B _"]] | None = None
    functions: Callable[[Key, PyTree, Network, Rows | None], PyTree] | None = None


def network_method(plan: Plan) -> Method:
    """Return the method of networks that learn as planned."""

    @cache
    def build(inputs: int, arms: int) -> Build:
        return plan.algorithm(plan.network(inputs, arms))

    def functions(key: Key, members: PyTree, network: Network, rows: Rows | None) -> PyTree:
        return () if plan.functions is None else plan.functions(key, members, network, rows)

    def init(key: Key, inputs: int, arms: int) -> Learned:
        network = plan.network(inputs, arms)
        state = _start(build(inputs, arms), plan.members, key)
        return Learned(state, functions(key, state.particles, network, None), unit_scale())

    def learn(model: Learned, lesson: Lesson) -> Learned:
        rows = lesson.memory.rows
        scale = scale_of(rows) if plan.standardise else model.scale
        made = build(rows.x.shape[1], lesson.arms)
        state, left = model.state, plan.schedule.steps(lesson.number)
        while left > 0:
            data = draw_rows(plan, lesson, rows, scale)
            now = ParametrisedAlgorithm(made, plan.numbers(lesson))
            steps = min(CHUNK, left)
            state = run(lesson.key, now, state, data, steps, batch_size=plan.batch_size, chunk_size=CHUNK).state
            left -= steps
        network = plan.network(rows.x.shape[1], lesson.arms)
        learned = rows._replace(reward=(rows.reward - scale.shift) / scale.spread)
        return Learned(state, functions(lesson.key, state.particles, network, learned), scale)

    def values(model: Learned, x: Float[Array, "N d"]) -> Float[Array, "n N K"]:
        particles = model.state.particles if plan.functions is None else model.functions
        arms = jax.tree.leaves(particles)[-1].shape[-1]
        f, _ = forward(plan.network(x.shape[1], arms), particles, (), x)
        return model.scale.shift + model.scale.spread * f

    return Method(init, learn, values, plan.every)


def draw_rows(plan: Plan, lesson: Lesson, rows: Rows, scale: Scale) -> Batch:
    """Draw the rows of a chunk of steps, with repetition; of each, only the output of its arm is observed."""
    index = lesson.random.integers(len(rows.arm), size=CHUNK * plan.batch_size)
    arm, every = rows.arm[index], np.arange(len(index))
    y, weight = (np.zeros((len(index), lesson.arms), np.float32) for _ in range(2))
    y[every, arm] = (rows.reward[index] - scale.shift) / scale.spread
    weight[every, arm] = rows.weight[index]
    if plan.columns is not None:
        y = np.concatenate([y, plan.columns(lesson, index).astype(np.float32)], axis=1)
    return Batch(rows.x[index], y, weight, np.float32(rows.weight.sum()))  # type: ignore[arg-type]


@partial(jax.jit, static_argnums=(0, 1))
def _start(build: Build, members: int, key: Key) -> State:
    return build(()).init(key, members)
