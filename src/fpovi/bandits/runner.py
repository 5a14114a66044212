# SPDX-License-Identifier: Apache-2.0
"""The loop in which an agent plays a problem, and what it lost against the best choice."""

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from fpovi.bandits.agent import Agent
from fpovi.bandits.environments import Stream
from fpovi.persistence import FileError, read_file, write_file
from fpovi.persistence.plain import canonical

SECONDS_BETWEEN_SAVES = 20.0
KIND = "checkpoint"
AGENT = "agent."  # in front of the names of the agent's arrays

Watch = Callable[[int, int, float], None]  # watch(done, total, regret so far relative to uniform choice)


class Played(NamedTuple):
    """What an agent did in every round.

    Attributes:
        columns: the column of the arm it chose.
        probabilities: those of all arms before it chose, in the order of the problem's arms.
        rewards: what it was paid.
    """

    columns: Int[np.ndarray, " T"]
    probabilities: Float[np.ndarray, "T K"]
    rewards: Float[np.ndarray, " T"]


def play(
    agent: Agent,
    stream: Stream,
    *,
    together: int = 1,
    checkpoint: str | os.PathLike[str] | None = None,
    watch: Watch = lambda done, total, score: None,
) -> Played:
    """Let an agent play all rounds of a problem.

    Args:
        agent: one that has the arms of the problem. It learns as it plays.
        stream: the rounds.
        together: how many rounds are decided before their rewards are told. An agent that learns after every 50 rewards
            plays alike with 50 and with 1, and faster.
        checkpoint: a file from which a killed run goes on with the same numbers: give it an agent made in the same way.
            It is written every twenty seconds, and removed at the end.
        watch: called after every ``together`` rounds.
    """
    if together < 1:
        raise ValueError(f"together={together} must be at least 1")
    if set(agent.arms) != set(stream.arms):
        raise ValueError(f"the agent's arms are {list(agent.arms)}, but those of the problem are {list(stream.arms)}")
    total, place = len(stream), {arm: column for column, arm in enumerate(stream.arms)}
    played = Played(np.zeros(total, np.int16), np.zeros((total, len(place)), np.float32), np.zeros(total))
    path, mark = None if checkpoint is None else Path(checkpoint), _fingerprint(agent, stream, together)
    done = 0 if path is None or not path.exists() else _resume(path, mark, agent, played)
    best, uniform = np.cumsum(_best_drawn(stream)), np.cumsum(stream.rewards.drawn.mean(axis=1))
    saved = time.monotonic()
    while done < total:
        rounds = slice(done, min(done + together, total))
        contexts = stream.contexts.iloc[rounds] if hasattr(stream.contexts, "iloc") else stream.contexts[rounds]
        played.probabilities[rounds] = agent.probabilities(contexts)[:, [agent.arms.index(arm) for arm in stream.arms]]
        arms, _ = agent.act(contexts)
        columns = np.array([place[arm] for arm in arms])
        rewards = stream.rewards.drawn[np.arange(total)[rounds], columns]
        agent.update(contexts, arms, rewards)
        played.columns[rounds], played.rewards[rounds] = columns, rewards
        done = rounds.stop
        lost, of_uniform = best[done - 1] - played.rewards[:done].sum(), best[done - 1] - uniform[done - 1]
        watch(done, total, 100 * lost / of_uniform if of_uniform else 0.0)
        if path is not None and done < total and time.monotonic() - saved > SECONDS_BETWEEN_SAVES:
            _save(path, mark, agent, played, done)
            saved = time.monotonic()
    if path is not None:
        path.unlink(missing_ok=True)
    return played


def regrets(stream: Stream, columns: Int[np.ndarray, " T"]) -> dict[str, Float[np.ndarray, " T"]]:
    """Return what was lost in every round, by three measures of the best choice.

    ``expected`` compares what was paid with the expected reward of the best arm, ``realised`` with what that arm paid
    in this round, and ``pseudo`` compares expected rewards with expected rewards; it is never negative.

    Args:
        stream: the rounds.
        columns: the arm chosen in each.
    """
    rounds = np.arange(len(columns))
    drawn, expected = (table[rounds, columns] for table in stream.rewards)
    best = stream.rewards.expected[: len(columns)].max(axis=1)
    return {
        "expected": best - drawn,
        "realised": _best_drawn(stream)[: len(columns)] - drawn,
        "pseudo": best - expected,
    }


def uniform_regrets(stream: Stream) -> dict[str, Float[np.ndarray, " T"]]:
    """Return what uniform choice loses in every round, on average over its choices, by the measures of :func:`regrets`.

    Args:
        stream: the rounds.
    """
    arms = range(len(stream.arms))
    each = [regrets(stream, np.full(len(stream), arm)) for arm in arms]
    return {name: np.mean([one[name] for one in each], axis=0) for name in each[0]}


def relative_regret(
    lost: Float[np.ndarray, " T"],
    of_uniform: Float[np.ndarray, " T"],
    rounds: int | None = None,
    last: int | None = None,
) -> float:
    """Return the sum of losses in per cent of that of uniform choice.

    Args:
        lost, of_uniform: what was lost in every round, as in :func:`regrets` and :func:`uniform_regrets`.
        rounds: how many of the first rounds count; all by default.
        last: of these, how many of the last ones count (the simple regret, with some hundreds); all by default.

    >>> relative_regret(np.array([1.0, 0.0]), np.array([2.0, 2.0]))
    25.0
    """
    end = len(lost) if rounds is None else rounds
    part = slice(0 if last is None else max(end - last, 0), end)
    return float(100 * lost[part].sum() / of_uniform[part].sum())


def _best_drawn(stream: Stream) -> Float[np.ndarray, " T"]:
    return stream.rewards.drawn[np.arange(len(stream)), stream.best]


def _fingerprint(agent: Agent, stream: Stream, together: int) -> str:
    """Return a digest of the agent's settings and the rounds: a checkpoint is of this very run or of none."""
    settings = agent.settings if isinstance(agent.settings["method"], str) else agent.settings | {"method": "own"}
    digest = hashlib.sha256(canonical([str(sorted(settings.items())), list(map(str, stream.arms)), together]))
    for table in stream.rewards:
        digest.update(np.ascontiguousarray(table).tobytes())
    return digest.hexdigest()


def _save(path: Path, mark: str, agent: Agent, played: Played, done: int) -> None:
    header, arrays = agent.to_record()
    named = {f"{AGENT}{name}": array for name, array in arrays.items()}
    so_far = {name: array[:done] for name, array in played._asdict().items()}
    write_file(path, {"fingerprint": mark, "agent": header, "done": done}, named | so_far, kind=KIND)


def _resume(path: Path, mark: str, agent: Agent, played: Played) -> int:
    """Make agent and rounds what the file says, and return how many rounds were played."""
    header, arrays = read_file(path, kind=KIND)
    if header.get("fingerprint") != mark:
        raise FileError(f"{path} belongs to a run of another agent or problem: remove it or choose another path")
    named: dict[str, Any] = {n.removeprefix(AGENT): a for n, a in arrays.items() if n.startswith(AGENT)}
    own = None if isinstance(agent.settings["method"], str) else agent.settings["method"]
    agent.restore(header["agent"], named, own)
    done = int(header["done"])
    for name, array in played._asdict().items():
        array[:done] = arrays[name]
    return done
