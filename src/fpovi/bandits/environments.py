# SPDX-License-Identifier: Apache-2.0
"""Problems for agents: what contexts come, and what every arm would have paid.

A problem is drawn as a whole before anyone plays it, so that all agents see the same contexts and the same rewards.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from fpovi._lookup import lookup
from fpovi.bandits.arms import Arm
from fpovi.datasets.mushroom import load_mushroom


class Rewards(NamedTuple):
    """What every arm pays in every round: ``drawn``, and ``expected`` given the context, both ``(N, K)``."""

    drawn: Float[np.ndarray, "N K"]
    expected: Float[np.ndarray, "N K"]


@runtime_checkable
class Environment(Protocol):
    """A problem: its arms and two methods. Any object with these will do."""

    @property
    def arms(self) -> Sequence[Arm]:
        """Names of the arms, in the order of columns; an attribute will do."""

    def draw_contexts(self, random: np.random.Generator, size: int) -> tuple[Any, Any]:
        """Return so many contexts, and what rewards depend on besides.

        Args:
            random: where chance comes from.
            size: N, how many rounds.

        Returns:
            ``(contexts, hidden)``: an array ``(N, d)`` or a data frame, which agents see; and anything that they do
            not see, such as the class of every row, or None.
        """

    def draw_rewards(self, random: np.random.Generator, contexts: Any, hidden: Any) -> Rewards:
        """Return what every arm pays in these rounds.

        Args:
            random: where chance comes from.
            contexts, hidden: what :meth:`draw_contexts` returned.
        """


class Stream(NamedTuple):
    """The rounds of a problem, N of them with K arms.

    Attributes:
        arms: their names, in the order of columns.
        contexts: an array ``(N, d)`` or a data frame.
        rewards: what every arm pays.
    """

    arms: tuple[Arm, ...]
    contexts: Any
    rewards: Rewards

    def __len__(self) -> int:
        return len(self.rewards.drawn)

    @property
    def best(self) -> Int[np.ndarray, " N"]:
        """The arm of the highest expected reward in every round."""
        return np.argmax(self.rewards.expected, axis=1)


def draw(environment: Environment, steps: int, seed: int = 0) -> Stream:
    """Draw the rounds of a problem.

    Contexts and rewards have streams of random numbers of their own, both from ``seed``.

    Args:
        environment: the problem.
        steps: N, how many rounds.
        seed: the same seed gives the same rounds.

    >>> stream = draw(wheel(0.5), steps=3)
    >>> stream.contexts.shape, stream.rewards.drawn.shape
    ((3, 2), (3, 5))
    """
    if steps < 1:
        raise ValueError(f"steps={steps} must be at least 1")
    of_contexts, of_rewards = (np.random.default_rng(one) for one in np.random.SeedSequence(seed).spawn(2))
    contexts, hidden = environment.draw_contexts(of_contexts, steps)
    rewards = environment.draw_rewards(of_rewards, contexts, hidden)
    shape = (steps, len(environment.arms))
    for name, table in (("drawn", rewards.drawn), ("expected", rewards.expected)):
        if np.shape(table) != shape or not np.all(np.isfinite(table)):
            raise ValueError(f"{name} rewards have shape {np.shape(table)}, but finite numbers {shape} are needed")
    return Stream(tuple(environment.arms), contexts, rewards)


class Wheel:
    """The wheel of Riquelme et al. (2018); made by :func:`wheel`."""

    arms: Sequence[Arm] = (0, 1, 2, 3, 4)
    MEANS = (1.0, 1.0, 1.0, 1.0, 1.2)
    STD = 0.05
    BIG, BIG_STD = 50.0, 0.01

    def __init__(self, delta: float):
        if not 0 < delta < 1:
            raise ValueError(f"delta={delta} must lie strictly between 0 and 1")
        self.delta = delta

    def draw_contexts(self, random: np.random.Generator, size: int) -> tuple[Float[np.ndarray, "N 2"], None]:
        """Return points uniform in the unit disc."""
        radius, angle = np.sqrt(random.random(size)), 2 * np.pi * random.random(size)
        return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1), None

    def draw_rewards(self, random: np.random.Generator, contexts: Float[np.ndarray, "N 2"], hidden: None) -> Rewards:
        """Return small rewards, and a large one for the arm of the quadrant outside of the inner circle."""
        size = len(contexts)
        expected = np.tile(self.MEANS, (size, 1))
        drawn = expected + self.STD * random.standard_normal(expected.shape)
        big = self.BIG + self.BIG_STD * random.standard_normal(size)
        outside = np.flatnonzero(np.linalg.norm(contexts, axis=1) >= self.delta)
        arm = self.quadrant(contexts[outside])
        expected[outside, arm], drawn[outside, arm] = self.BIG, big[outside]
        return Rewards(drawn, expected)

    @staticmethod
    def quadrant(contexts: Float[np.ndarray, "N 2"]) -> Int[np.ndarray, " N"]:
        """Return the arm that pays in each quadrant: 0 for x, y > 0; 1 for x > 0 ≥ y; 2 for y > 0 ≥ x; else 3."""
        return 2 * (contexts[:, 0] <= 0) + (contexts[:, 1] <= 0)


def wheel(delta: float) -> Wheel:
    """Return the wheel: five arms, of which four pay much where the context is farther than ``delta`` from the centre.

    Contexts are uniform in the unit disc. Arm 4 pays N(1.2, .05²) and the others N(1, .05²) each, except that outside
    of the circle of radius ``delta`` the arm of the quadrant pays N(50, .01²).

    Args:
        delta: the radius; the nearer to 1, the rarer are large rewards.

    Reference: Riquelme et al. (2018), "Deep Bayesian bandits showdown"; means and deviations are those of its code.
    """
    return Wheel(delta)


class TableProblem:
    """Rows of a table as contexts, rewards by class and arm; made by :func:`table` and :func:`mushroom`.

    Attributes:
        contexts: one row per row of the table.
        codes: the class of every row, from 0.
        arms: the names of arms.
        expected: the expected reward by class and arm.
        spread: half the distance of the two equally likely rewards of a class and arm, 0 where there is only one.
    """

    def __init__(
        self,
        contexts: Any,
        codes: Int[np.ndarray, " M"],
        arms: Sequence[Arm],
        expected: Float[np.ndarray, "C K"],
        spread: Float[np.ndarray, "C K"],
    ):
        self.contexts, self.codes, self.arms = contexts, codes, tuple(arms)
        self.expected, self.spread = expected, spread

    def draw_contexts(self, random: np.random.Generator, size: int) -> tuple[Any, Int[np.ndarray, " N"]]:
        """Return random rows, with repetition, and their classes."""
        rows = random.integers(len(self.codes), size=size)
        contexts = self.contexts
        drawn = contexts.iloc[rows].reset_index(drop=True) if hasattr(contexts, "iloc") else contexts[rows]
        return drawn, self.codes[rows]

    def draw_rewards(self, random: np.random.Generator, contexts: Any, hidden: Int[np.ndarray, " N"]) -> Rewards:
        """Return the rewards of the classes."""
        expected = self.expected[hidden]
        sign = np.where(random.random(expected.shape) < 0.5, -1.0, 1.0)
        return Rewards(expected + sign * self.spread[hidden], expected)


def mushroom(folder: Path | str | None = None) -> TableProblem:
    """Return the mushroom problem: to eat what may be poisonous, or to pass.

    An edible mushroom pays 5, a poisonous one −35 or 5 with equal probability, and passing 0. Contexts are the 117
    one-hot columns of the 22 attributes.

    Args:
        folder: the data folder; by default what FPOVI_DATA names.
    """
    attributes, poisonous = load_mushroom(folder)
    inputs = pd.get_dummies(attributes).to_numpy(np.float32)
    expected, spread = np.array([[0.0, 5.0], [0.0, -15.0]]), np.array([[0.0, 0.0], [0.0, 20.0]])
    return TableProblem(inputs, poisonous.to_numpy().astype(int), ("pass", "eat"), expected, spread)


def table(contexts: Any, y: Any, rewards: Mapping[Any, Mapping[Arm, float]] | None = None) -> TableProblem:
    """Return a classification table as a problem: an arm per class, which pays 1 for the right class and 0 otherwise.

    Args:
        contexts: rows ``(M, d)``, an array or a data frame.
        y: the class of every row, ``(M,)``.
        rewards: by class, what each arm pays, ``{"good": {"lend": 1, "refuse": 0}, …}``; arms are those of the first
            class, and all others need the same.

    >>> found = draw(table(np.zeros((2, 1)), ["a", "b"]), steps=4)
    >>> found.arms, found.rewards.drawn.sum(axis=1).tolist()
    (('a', 'b'), [1.0, 1.0, 1.0, 1.0])
    """
    classes, codes = np.unique(np.asarray(y), return_inverse=True)
    if len(codes) != len(contexts) or len(codes) == 0:
        raise ValueError(f"y has {len(codes)} rows and contexts {len(contexts)}: one class per row is needed")
    names: list[Any] = classes.tolist()
    if rewards is None:
        return TableProblem(contexts, codes, names, np.eye(len(names)), np.zeros((len(names),) * 2))
    arms = list(next(iter(rewards.values())))
    for name in names:
        if set(lookup(rewards, name, "class")) != set(arms):
            raise ValueError(f"rewards of class {name!r} are for {list(rewards[name])}, but the arms are {arms}")
    expected = np.array([[float(rewards[name][arm]) for arm in arms] for name in names])
    return TableProblem(contexts, codes, arms, expected, np.zeros_like(expected))
