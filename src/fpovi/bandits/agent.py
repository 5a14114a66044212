# SPDX-License-Identifier: Apache-2.0
"""An agent: it chooses arms with known probabilities, is told rewards, and learns now and then."""

import os
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from fpovi._lookup import lookup
from fpovi.bandits import agent_file
from fpovi.bandits.agent_file import Snapshot
from fpovi.bandits.arms import Arm, Arms
from fpovi.bandits.contexts import learn_contexts
from fpovi.bandits.memory import Memory, Rows, column
from fpovi.bandits.method import Lesson, Method, enlarge, look
from fpovi.bandits.methods import make_method
from fpovi.bandits.policy import Decision, first_turns, sample, shares, with_floor
from fpovi.persistence import FileError, read_file, write_file
from fpovi.types import PyTree

GAUSSIAN, BERNOULLI = "gaussian", "bernoulli"


class Agent:
    """Chooses among arms by Thompson sampling, or another method, and learns from rewards.

    ``act`` says which arm to take for each context and how probable that choice was; ``update`` tells what it paid,
    at any time and in any order. Between two calls the whole agent fits in a file, ``save`` and ``load``, from which it
    goes on exactly as if nothing had happened.

    Args:
        arms: their names: text, numbers, True, False, None, or tuples of these.
        contexts: examples of contexts, an array ``(M, d)`` or a data frame, from which it is learned how they become
            inputs (no rewards are needed); or d, a number of inputs that are taken as they are.
        method: a name in :data:`AGENTS`, or a :class:`Method` of your own.
        rewards: "gaussian" for real numbers, "bernoulli" for 0 and 1.
        floor: the least probability of every allowed arm (1/m where there are fewer than 1/floor). With 0, an arm that
            none of the functions likes is never tried, and a log says nothing about it.
        first_turns: how often every arm is tried before the method decides.
        every: after how many new rewards the agent learns; 0 for only when :meth:`learn` is called; by default what
            suits the method.
        memory: how many of the last rewards are kept; all by default.
        unknown: what a category is that no example had, an "error" or "missing".
        seed: the same seed gives the same decisions.
        options: those of the method.

    >>> agent = Agent(["red", "blue"], contexts=2, method="linear", seed=1)
    >>> arms, propensities = agent.act([[0.5, 1.0], [1.0, 0.0]])
    >>> agent.update([[0.5, 1.0], [1.0, 0.0]], arms, rewards=[1.0, 0.0])
    """

    def __init__(
        self,
        arms: Iterable[Arm],
        contexts: Any,
        method: str | Method = "function_space",
        *,
        rewards: str = GAUSSIAN,
        floor: float = 0.0,
        first_turns: int = 2,
        every: int | None = None,
        memory: int | None = None,
        unknown: str = "error",
        seed: int = 0,
        **options: Any,
    ):
        lookup(dict.fromkeys((GAUSSIAN, BERNOULLI)), rewards, "rewards")
        if not 0 <= floor <= 1:
            raise ValueError(f"floor={floor} must be a probability")
        for name, value in (("first_turns", first_turns), ("every", every), ("seed", seed)):
            if value is not None and (isinstance(value, bool) or value != int(value) or value < 0):
                raise ValueError(f"{name}={value} must be a whole number, not negative")
        lookup(dict.fromkeys(("error", "missing")), unknown, "unknown")
        self.settings: dict[str, Any] = {
            "method": method, "rewards": rewards, "floor": float(floor), "first_turns": int(first_turns),
            "every": every, "memory": memory, "unknown": unknown, "seed": int(seed), "options": options,
        }  # fmt: skip
        self._arms = Arms(arms)
        self._encoder = learn_contexts(contexts)
        self._start()

    def _start(self) -> None:
        """Begin with nothing learned."""
        method = self.settings["method"]
        self._method: Method = (
            make_method(method, self.settings["rewards"], self.settings["options"])
            if isinstance(method, str)
            else method
        )
        self._memory = Memory(self._encoder.shape[0], self.settings["memory"])
        self._random = np.random.default_rng([self.settings["seed"], 0])
        self._turns = np.zeros(len(self._arms), int)  # how often each arm was chosen
        self._lessons = 0
        self._learned = 0  # how many rows had been seen in the last lesson
        self._model = self._fresh()

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The arms that may be chosen."""
        return self._arms.present

    def act(self, contexts: Any, allowed: Iterable[Arm] | NDArray[np.bool_] | None = None) -> Decision:
        """Choose an arm for each context.

        Args:
            contexts: ``(N, d)`` or a data frame.
            allowed: the arms to choose from: names, for all contexts, or a Boolean array with a row per context and a
                column per arm, in the order of :attr:`arms`; all by default.

        Returns:
            The names of N arms, and the probability with which each was chosen.
        """
        probabilities = self._probabilities(contexts, allowed)
        chosen = sample(self._random, probabilities)
        np.add.at(self._turns, chosen, 1)
        names = self._arms.names
        return Decision([names[column] for column in chosen], probabilities[np.arange(len(chosen)), chosen])

    def probabilities(
        self, contexts: Any, allowed: Iterable[Arm] | NDArray[np.bool_] | None = None
    ) -> Float[np.ndarray, "N P"]:
        """Return the probability with which :meth:`act` would choose each arm now, in the order of :attr:`arms`.

        Args:
            contexts, allowed: as in :meth:`act`.
        """
        return self._probabilities(contexts, allowed)[:, self._present]

    def values(self, contexts: Any) -> Float[np.ndarray, "n N P"]:
        """Return what each function says that the arms pay, in the unit of rewards (for 0 and 1, probabilities).

        Args:
            contexts: ``(N, d)`` or a data frame.
        """
        found = look(self._method, self._model, self._encode(contexts))[:, :, self._present]
        return 1 / (1 + np.exp(-found)) if self.settings["rewards"] == BERNOULLI else found

    def update(self, contexts: Any, arms: Iterable[Arm], rewards: Any, weights: Any = None) -> None:
        """Tell what arms have paid, and learn when it is time.

        Decisions need not be this agent's own, nor in the order they were made. Nothing is kept of an update that
        raises a ``ValueError``.

        Args:
            contexts: ``(N, d)`` or a data frame.
            arms: the arm that was taken in each; removed ones are fine.
            rewards: ``(N,)``.
            weights: how many rows each one stands for, ``(N,)``; ones by default.
        """
        self._memory.add(self._rows(contexts, arms, rewards, weights))
        every = self._method.every if self.settings["every"] is None else self.settings["every"]
        if every and self._memory.seen - self._learned >= every:
            self.learn()

    def warm_start(
        self, contexts: Any, arms: Iterable[Arm], rewards: Any, propensities: Any = None, most: float = 10.0
    ) -> None:
        """Learn from a log of another policy's decisions.

        With propensities, rows count by 1/propensity, at most ``most``, and by 1 on average: as much for arms that the
        old policy seldom took as for others.

        Args:
            contexts, arms, rewards: as in :meth:`update`.
            propensities: ``(N,)``, the probability with which each arm was taken. One of 0 is an error: it was taken.
            most: the largest 1/propensity.
        """
        weights = None
        if propensities is not None:
            given = column("propensities", propensities, len(np.asarray(rewards)))
            if not ((given > 0) & (given <= 1)).all():
                row = int(np.argmin((given > 0) & (given <= 1)))
                raise ValueError(f"propensities has {given[row]} at row {row}, but an arm that was taken had a "
                                 "probability above 0, at most 1")  # fmt: skip
            weights = np.minimum(1 / given, most)
            weights = weights / weights.mean()
        rows = self._rows(contexts, arms, rewards, weights)
        self._memory.add(rows)
        np.add.at(self._turns, rows.arm, 1)
        self.learn()

    def learn(self) -> None:
        """Learn now from all that was told."""
        if not len(self._memory):
            return
        lesson = Lesson(
            key=jax.random.fold_in(jax.random.key(self.settings["seed"]), 1 + self._lessons),
            random=np.random.default_rng([self.settings["seed"], 1 + self._lessons]),
            memory=self._memory,
            new=self._memory.rows.last(self._memory.seen - self._learned),
            number=self._lessons,
            arms=len(self._arms),
        )
        self._model = self._method.learn(self._model, lesson)
        self._lessons, self._learned = self._lessons + 1, self._memory.seen

    def add_arms(self, arms: Iterable[Arm]) -> None:
        """Add arms, or take up again ones that were removed, with what was learned of them."""
        before = len(self._arms)
        self._arms.add(arms)
        if len(self._arms) > before:
            self._turns = np.concatenate([self._turns, np.zeros(len(self._arms) - before, int)])
            self._model = enlarge(self._model, self._fresh())

    def remove_arms(self, arms: Iterable[Arm]) -> None:
        """Choose these arms no more; what was learned of them stays."""
        self._arms.remove(arms)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the agent to a file, which is replaced as a whole or left as it was.

        Args:
            path: the file; its folder must exist.
        """
        write_file(path, *self.to_record(), kind=agent_file.KIND)

    def to_record(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return all that the agent is, as JSON and as named arrays."""
        return agent_file.pack(
            Snapshot(
                self.settings, self._arms, self._encoder, self._random.bit_generator.state, self._lessons,
                self._learned, self._memory.seen, self._turns, self._memory.rows, self._model,
            )
        )  # fmt: skip

    def restore(self, header: dict[str, Any], arrays: dict[str, np.ndarray], method: Method | None = None) -> None:
        """Become the agent of a record.

        Args:
            header, arrays: what :meth:`to_record` of that agent returned.
            method: its method, where that was an object and not a name.
        """
        found = agent_file.unpack(header, arrays)
        if (found.settings["method"] == agent_file.OWN) != (method is not None):
            raise FileError(
                "is of a method that has no name: give it, as in load(path, method=…)" if method is None
                else f"is of the method {found.settings['method']!r}, and needs no other"
            )  # fmt: skip
        self.settings = found.settings | ({} if method is None else {"method": method})
        self._arms, self._encoder = found.arms, found.encoder
        self._start()
        self._model = agent_file.restore_model(self._model, found.model)
        self._random.bit_generator.state = found.random
        self._lessons, self._learned, self._turns = found.lessons, found.learned, found.turns
        self._memory.restore(found.rows, found.seen)

    @property
    def _present(self) -> list[int]:
        return [column for column in range(len(self._arms)) if column not in self._arms.removed]

    def _fresh(self) -> PyTree:
        """Return a model that has learned nothing, with an output for every arm."""
        key = jax.random.fold_in(jax.random.key(self.settings["seed"]), 0)
        count = len(self._arms)
        return self._method.init(jax.random.fold_in(key, count), self._encoder.shape[0], count)

    def _encode(self, contexts: Any) -> Float[np.ndarray, "N d"]:
        return np.asarray(self._encoder(contexts, self.settings["unknown"]), np.float32)

    def _probabilities(self, contexts: Any, allowed: Any) -> Float[np.ndarray, "N K"]:
        """Return the probability of every column."""
        x = self._encode(contexts)
        mask = self._arms.mask(len(x), allowed)
        if self._method.by_functions:
            found = shares(look(self._method, self._model, x), mask)
        else:
            found = mask / mask.sum(axis=1, keepdims=True)
        turns = first_turns(self._turns, mask, self.settings["first_turns"])
        own = np.flatnonzero(turns >= 0)
        if len(own):
            found[own] = np.eye(len(self._arms))[turns[own]]
        return with_floor(found, mask, self.settings["floor"])

    def _rows(self, contexts: Any, arms: Iterable[Arm], rewards: Any, weights: Any) -> Rows:
        """Return checked rows."""
        x = self._encode(contexts)
        columns = self._arms.columns(arms)
        if len(columns) != len(x):
            raise ValueError(f"arms has {len(columns)} names, but there are {len(x)} contexts")
        reward = column("rewards", rewards, len(x))
        if self.settings["rewards"] == BERNOULLI and not np.isin(reward, (0, 1)).all():
            raise ValueError("rewards must be 0 or 1 for rewards='bernoulli'")
        weight = np.ones(len(x)) if weights is None else column("weights", weights, len(x))
        if (weight < 0).any():
            raise ValueError(f"weights has {weight.min()}, but none may be negative")
        return Rows(x, columns, reward, weight)


def load(path: str | os.PathLike[str], method: Method | None = None) -> Agent:
    """Return the agent of a file, which goes on exactly where it was saved.

    Args:
        path: the file.
        method: the method, where it was an object and not a name.

    Raises:
        fpovi.persistence.FileError: there is no such file, or it is not that of an agent, or of another method.
    """
    header, arrays = read_file(path, kind=agent_file.KIND)
    agent = Agent.__new__(Agent)
    try:
        agent.restore(header, arrays, method)
    except FileError as error:
        raise FileError(f"{path} {error}") from error
    return agent
