# SPDX-License-Identifier: Apache-2.0
"""Agents in files: all that decides what they do next, as JSON and named arrays, and no code."""

import os
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from fpovi.bandits import arms as names_of_arms
from fpovi.bandits import contexts
from fpovi.bandits.arms import Arms
from fpovi.bandits.memory import Rows, rows_from
from fpovi.bandits.method import Method
from fpovi.persistence import FileError, flatten_tree, read_file, restore_tree, write_file
from fpovi.persistence.plain import check_json

if TYPE_CHECKING:
    from fpovi.bandits.agent import Agent

KIND = "agent"
MODEL, MEMORY = "model", "memory."
OWN = "own"  # stands for a method or an option that JSON cannot hold


def to_record(agent: "Agent") -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return all that an agent is, as JSON and named arrays."""
    header = {
        "settings": _plain(agent.settings),
        "arms": [names_of_arms.to_json(name) for name in agent._arms.names],
        "removed": sorted(agent._arms.removed),
        "encoder": {"kind": type(agent._encoder).__name__, "fields": agent._encoder.to_json()},
        "random": agent._random.bit_generator.state,
        "lessons": agent._lessons,
        "learned": agent._learned,
        "seen": agent._memory.seen,
    }
    arrays = {f"{MODEL}{name}": array for name, array in flatten_tree(agent._model).items()}
    arrays |= {f"{MEMORY}{name}": array for name, array in agent._memory.rows._asdict().items()}
    return header, arrays | {"turns": agent._turns}


def from_record(
    agent: "Agent", header: dict[str, Any], arrays: dict[str, np.ndarray], method: Method | None = None
) -> "Agent":
    """Make an agent what a record says.

    Args:
        agent: an agent of any state.
        header, arrays: the record.
        method: the method, where the record has no name for it.
    """
    settings = dict(header["settings"])
    if (settings["method"] == OWN) != (method is not None):
        needed = "is of a method of its own: give load(path, method=…)" if method is None else "names its method itself"
        raise FileError(needed)
    agent.settings = settings | ({} if method is None else {"method": method})
    agent._arms = Arms(map(names_of_arms.from_json, header["arms"]), header["removed"])
    agent._encoder = contexts.from_json(header["encoder"]["kind"], header["encoder"]["fields"])
    agent._start()
    agent._random.bit_generator.state = header["random"]
    agent._lessons, agent._learned = header["lessons"], header["learned"]
    agent._turns = arrays["turns"]
    part = lambda start: {name.removeprefix(start): a for name, a in arrays.items() if name.startswith(start)}  # noqa: E731
    kept: Rows = rows_from(part(MEMORY))
    agent._memory.restore(kept, header["seen"])
    agent._model = jax.tree.map(_on_device, restore_tree(agent._model, part(MODEL)))
    return agent


def write(path: str | os.PathLike[str], header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write a record as a file."""
    write_file(path, header, arrays, kind=KIND)


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the record of a file."""
    return read_file(path, kind=KIND)


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings in JSON types, or :data:`OWN` for a method that is no name."""
    settings = settings | ({} if isinstance(settings["method"], str) else {"method": OWN})
    try:
        check_json(settings, "settings")
    except ValueError as error:
        raise ValueError(
            f"an agent with objects among its options cannot be saved ({error}): make the method yourself, as in "
            "Agent(…, method=AGENTS['function_space'](flow=…)), save, and give it to load(path, method=…)"
        ) from error
    return settings


def _on_device(leaf: Any) -> Any:
    """Return an array as JAX's, unless that would round it."""
    return jnp.asarray(leaf) if jax.dtypes.canonicalize_dtype(leaf.dtype) == leaf.dtype else leaf
