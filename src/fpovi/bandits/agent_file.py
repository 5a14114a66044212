# SPDX-License-Identifier: Apache-2.0
"""Agents in files: all that decides what they do next, as JSON and named arrays, and no code."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from fpovi.bandits import arms as names_of_arms
from fpovi.bandits import contexts
from fpovi.bandits.arms import Arms
from fpovi.bandits.contexts import ContextEncoder
from fpovi.bandits.memory import Rows, rows_from
from fpovi.persistence import FileError, flatten_tree, restore_tree
from fpovi.persistence.plain import canonical, check_json
from fpovi.types import PyTree

KIND = "agent"
MODEL, MEMORY = "model", "memory."
OWN = "own"  # stands for a method that has no name
FIELDS = {"settings", "arms", "removed", "encoder", "random", "lessons", "learned", "seen"}


class Snapshot(NamedTuple):
    """All that an agent is between two calls.

    Attributes:
        settings: what it was made with.
        arms, encoder: names of arms, and what turns contexts into inputs.
        random: the state of its generator.
        lessons, learned, seen: how often it has learned, from how many rows, and how many have come.
        turns: how often it has chosen each arm.
        rows: what it remembers.
        model: a pytree of arrays; these arrays by name where a snapshot comes from a file.
    """

    settings: dict[str, Any]
    arms: Arms
    encoder: ContextEncoder
    random: Mapping[str, Any]
    lessons: int
    learned: int
    seen: int
    turns: Int[np.ndarray, " K"]
    rows: Rows
    model: PyTree


def pack(agent: Snapshot) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return a snapshot as JSON and named arrays."""
    header = {
        "settings": _plain(agent.settings),
        "arms": [names_of_arms.to_json(name) for name in agent.arms.names],
        "removed": sorted(agent.arms.removed),
        "encoder": {"kind": type(agent.encoder).__name__, "fields": agent.encoder.to_json()},
        "random": dict(agent.random),
        "lessons": agent.lessons,
        "learned": agent.learned,
        "seen": agent.seen,
    }
    arrays = {f"{MODEL}{name}": array for name, array in flatten_tree(agent.model).items()}
    arrays |= {f"{MEMORY}{name}": array for name, array in agent.rows._asdict().items()}
    return header, arrays | {"turns": agent.turns}


def unpack(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Snapshot:
    """Return the snapshot that :func:`pack` was given, the model as named arrays."""
    if header.keys() != FIELDS:
        raise FileError(f"is not of an agent: it has {sorted(header)!r:.120}")
    part = lambda start: {name.removeprefix(start): a for name, a in arrays.items() if name.startswith(start)}  # noqa: E731
    return Snapshot(
        settings=header["settings"],
        arms=Arms(map(names_of_arms.from_json, header["arms"]), header["removed"]),
        encoder=contexts.from_json(header["encoder"]["kind"], header["encoder"]["fields"]),
        random=header["random"],
        lessons=header["lessons"],
        learned=header["learned"],
        seen=header["seen"],
        turns=arrays["turns"],
        rows=rows_from(part(MEMORY)),
        model=part(MODEL),
    )


def restore_model(fresh: PyTree, named: dict[str, np.ndarray]) -> PyTree:
    """Return a model from its arrays by name, given one that has learned nothing."""
    return jax.tree.map(_on_device, restore_tree(fresh, named))


def _on_device(leaf: Any) -> Any:
    """Return an array as JAX's, unless that would round it."""
    return jnp.asarray(leaf) if jax.dtypes.canonicalize_dtype(leaf.dtype) == leaf.dtype else leaf


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings as they come back from JSON, or :data:`OWN` for a method that is no name."""
    settings = settings | ({} if isinstance(settings["method"], str) else {"method": OWN})
    try:
        check_json(settings, "settings")
    except ValueError as error:
        raise ValueError(
            f"an agent with objects among its options cannot be saved ({error}): make the method yourself, as in "
            "Agent(…, method=AGENTS['function_space'](flow=…)), and give it to load(path, method=…) too"
        ) from error
    return json.loads(canonical(settings))
