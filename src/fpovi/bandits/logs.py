# SPDX-License-Identifier: Apache-2.0
"""Logged decisions: who came, what was done with which probability, and what came of it."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from numpy.typing import NDArray

from fpovi.persistence.plain import short

ROUNDING = 1e-4  # by which probabilities in single precision may miss a sum of 1
Policy: TypeAlias = Callable[[Any], Any] | Mapping[Any, float] | NDArray[Any] | Sequence[Any] | pd.DataFrame


class Logs(NamedTuple):
    """N logged decisions among K arms; :func:`make_logs` makes and checks them.

    Args:
        contexts: what was known of each decision: an array or a data frame of N rows.
        names: the K arms, in the order of a policy's columns.
        chosen: the place in ``names`` of the arm that was chosen.
        rewards: what came of it.
        propensities: with which probability that arm was chosen.
        all_propensities: with which probability each arm would have been chosen, if that was logged.
    """

    contexts: Any
    names: tuple[Hashable, ...]
    chosen: Int[np.ndarray, " N"]
    rewards: Float[np.ndarray, " N"]
    propensities: Float[np.ndarray, " N"]
    all_propensities: Float[np.ndarray, "N K"] | None = None

    @property
    def num_rows(self) -> int:
        """How many decisions were logged."""
        return len(self.rewards)


def make_logs(
    contexts: Any, arms: Any, rewards: Any, propensities: Any, names: Sequence[Hashable] | None = None
) -> Logs:
    """Return logged decisions after a check of every row.

    Args:
        contexts: an array ``(N, d)`` or a data frame of N rows.
        arms: the name of the chosen arm of every row, ``(N,)``.
        rewards: numbers ``(N,)``.
        propensities: probabilities of the chosen arms ``(N,)``; or those of all arms ``(N, K)``, in the order of
            ``names``, which tell more about overlap. That of a chosen arm is above 0: what had no chance cannot have
            been done. Write down the probability at the time of the decision, an exploration floor included.
        names: all arms, those that were never chosen too; the sorted arms of the rows by default.

    Raises:
        ValueError: with the first row that is wrong, and what is wrong with it.

    >>> logs = make_logs([[0.0], [1.0], [2.0]], ["call", "mail", "mail"], [1, 0, 1], [0.5, 0.25, 0.25])
    >>> logs.names, logs.chosen.tolist()
    (('call', 'mail'), [0, 1, 1])
    """
    contexts = contexts if isinstance(contexts, pd.DataFrame) else np.asarray(contexts)
    rewards = _finite(rewards, "rewards", (1,))
    propensities = _finite(propensities, "propensities", (1, 2))
    arms = _listed(arms, "arms")
    counts = {
        "contexts": len(contexts) if contexts.ndim else 0,
        "arms": len(arms),
        "rewards": len(rewards),
        "propensities": len(propensities),
    }
    if len(set(counts.values())) > 1 or len(rewards) == 0:
        rows = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise ValueError(f"logs need as many rows of each, and at least one, but have: {rows}")
    names = _arm_names(arms, names)
    place = {name: number for number, name in enumerate(names)}
    unknown = [row for row, arm in enumerate(arms) if arm not in place]
    if unknown:
        raise ValueError(f"arms has {short(arms[unknown[0]])} at row {unknown[0]}, but names are {short(names)}")
    chosen = np.array([place[arm] for arm in arms])
    whole = None
    if propensities.ndim == 2:
        whole = check_probabilities(propensities, len(names), "propensities")
        propensities = whole[np.arange(len(chosen)), chosen]
    _check_chosen(propensities)
    return Logs(contexts, names, chosen, rewards, np.minimum(propensities, 1.0), whole)


def logs_from_frame(
    frame: pd.DataFrame, arm: str, reward: str, propensity: str, names: Sequence[Hashable] | None = None
) -> Logs:
    """Return the logged decisions of a data frame; columns that are not named here are the contexts.

    Args:
        frame: one row per decision.
        arm, reward, propensity: the columns that hold the chosen arm, what came of it, and its probability.
        names: as in :func:`make_logs`.

    >>> frame = pd.DataFrame({"age": [30, 50], "did": ["call", "mail"], "sold": [1, 0], "chance": [0.5, 0.5]})
    >>> list(logs_from_frame(frame, "did", "sold", "chance").contexts)
    ['age']
    """
    missing = [column for column in (arm, reward, propensity) if column not in frame]
    if missing:
        raise ValueError(f"frame has no column {missing[0]!r}; it has {', '.join(map(str, frame))}")
    contexts = frame.drop(columns=[arm, reward, propensity])
    return make_logs(contexts, frame[arm], frame[reward], frame[propensity], names)


def policy_probabilities(logs: Logs, policy: Policy) -> Float[np.ndarray, "N K"]:
    """Return with which probability a policy chooses each arm in every logged context.

    Args:
        logs: the decisions whose contexts are asked about.
        policy: a function from ``logs.contexts`` to probabilities ``(N, K)``, or these; columns are arms in the order
            of ``logs.names``, or named if it is a data frame. A dictionary ``{arm: probability}`` is a policy that does
            the same in every context. Arms without a column are never chosen.

    >>> logs = make_logs([[0.0], [1.0]], ["call", "mail"], [1, 0], [0.5, 0.5])
    >>> policy_probabilities(logs, {"mail": 1.0})
    array([[0., 1.],
           [0., 1.]])
    """
    if callable(policy):
        policy = policy(logs.contexts)
    if isinstance(policy, Mapping):
        policy = pd.DataFrame(np.tile(np.array(list(policy.values())), (logs.num_rows, 1)), columns=list(policy))
    if isinstance(policy, pd.DataFrame):
        known = set(logs.names)
        foreign = [name for name in policy if name not in known]
        if foreign:
            raise ValueError(
                f"policy has the arm {short(foreign[0])}, but logs have {short(logs.names)}: if it was never chosen, "
                "give all arms as names= to make_logs"
            )
        policy = policy.reindex(columns=list(logs.names), fill_value=0.0).to_numpy()
    probabilities = _finite(policy, "policy", (2,))
    if len(probabilities) != logs.num_rows:
        raise ValueError(f"policy has {len(probabilities)} rows, but logs have {logs.num_rows}")
    return check_probabilities(probabilities, len(logs.names), "policy")


def check_probabilities(values: Float[np.ndarray, "N _"], arms: int, argument: str) -> Float[np.ndarray, "N _"]:
    """Return rows of probabilities that sum to 1, or raise a ``ValueError`` that names the first row that does not."""
    if values.shape[1] != arms:
        raise ValueError(
            f"{argument} has {values.shape[1]} columns, but there are {arms} arms; "
            "names= of make_logs lists those that were never chosen too"
        )
    sums = values.sum(axis=1)
    bad = (values < 0).any(axis=1) | (np.abs(sums - 1) > ROUNDING)
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(
            f"{argument} has {bad.sum()} rows that are not probabilities, the first at row {row}: "
            f"they must not be negative and must sum to 1, but are {short(values[row].tolist())}"
        )
    return values


def _check_chosen(propensities: Float[np.ndarray, " N"]) -> None:
    bad = (propensities <= 0) | (propensities > 1 + ROUNDING)
    if not bad.any():
        return
    rows = np.flatnonzero(bad)
    shown = ", ".join(map(str, rows[:5])) + ("…" if len(rows) > 5 else "")
    raise ValueError(
        f"propensities has {propensities[rows[0]]:g} for the arm that was chosen, in {len(rows)} rows ({shown}), but a "
        "probability above 0 and at most 1 is needed: an arm without a chance cannot have been chosen. Log what the "
        "policy that acted gave it, or let that policy explore with a floor under every arm"
    )


def _finite(values: Any, argument: str, dimensions: tuple[int, ...]) -> Float[np.ndarray, "..."]:
    """Return an array of finite numbers, or raise a ``ValueError`` that names the first row without one."""
    array = np.asarray(values)
    if array.ndim not in dimensions:
        needed = " or ".join({1: "(N,)", 2: "(N, K)"}[number] for number in dimensions)
        raise ValueError(f"{argument} has shape {array.shape}, but {needed} is needed")
    if array.dtype.kind not in "biuf":
        array = np.reshape([_number(value) for value in array.ravel().tolist()], array.shape)
    array = array.astype(np.float64)
    bad = ~np.isfinite(array).all(axis=tuple(range(1, array.ndim)))
    if bad.any():
        row = int(np.argmax(bad))
        found = short(np.asarray(values, object)[row])
        raise ValueError(
            f"{argument} has {bad.sum()} rows that are not finite numbers, the first at row {row}: {found}"
        )
    return array


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def _listed(arms: Any, argument: str) -> list[Hashable]:
    """Return hashable names as a list of plain Python values."""
    listed = arms.tolist() if hasattr(arms, "tolist") else list(arms)
    for row, arm in enumerate(listed):
        try:
            hash(arm)
        except TypeError as error:
            raise ValueError(
                f"{argument} has {short(arm)} at row {row}, but arms must be hashable, such as strings"
            ) from error
        if arm is None or arm is pd.NaT or arm is pd.NA or arm != arm:
            raise ValueError(f"{argument} has a missing value at row {row}")
    return listed


def _arm_names(arms: list[Hashable], names: Sequence[Hashable] | None) -> tuple[Hashable, ...]:
    if names is None:
        try:
            return tuple(sorted(set(arms)))  # type: ignore[type-var]
        except TypeError as error:
            raise ValueError("arms have names that cannot be sorted: give their order as names=") from error
    names = tuple(_listed(names, "names"))
    if len(set(names)) < len(names):
        raise ValueError(f"names are {short(names)}, but every arm needs a name of its own")
    return names
