# SPDX-License-Identifier: Apache-2.0
"""A fitted model as one frozen record, and what it says of new rows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from fpovi.diagnostics import Diagnostics, base_rate, diagnose, enough_gain
from fpovi.fitting.fit import Rows, generator, take_rows
from fpovi.fitting.parts import Spec, make_spec_to_predict
from fpovi.fitting.phases import outputs_of
from fpovi.predictive import Predictive
from fpovi.tabular import ArrayEncoder, Encoder
from fpovi.tabular.blocks import encoded_chunks, row_blocks
from fpovi.tabular.target import Target
from fpovi.types import Info, Key, Scales, State, Support

MOST_LOOKED_AT, FAR = 256, 2.0  # rows that a diagnosis looks at, and how many standard deviations it goes past them
KEPT = ("particles", "params", "network_state")  # of a state: all that predictions need


@dataclass(frozen=True)
class Fitted:
    """Everything that predictions, files, exports and diagnostics need of a fit.

    ``spec`` are the parts and ``parts`` the names or objects they were chosen by; ``scales`` the prior's, ``state`` the
    particles, ``encoder`` and ``target`` what was learned of inputs and targets, and ``history`` the Info of all steps.
    """

    spec: Spec
    parts: Mapping[str, Any]
    scales: Scales
    state: State
    encoder: Encoder | ArrayEncoder
    target: Target
    history: Info
    diagnostics: Diagnostics = field(default_factory=lambda: Diagnostics(()))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy all but the spec, whose functions are made anew from the names of the parts."""
        kept = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "spec"}
        return _restored, (self.spec.sizes, self.encoder.shape, kept)

    @property
    def n_particles(self) -> int:
        """How many networks there are."""
        return jax.tree.leaves(self.state.particles)[0].shape[0]

    def values(self, x: Float[np.ndarray, "N *d_x"]) -> Float[np.ndarray, "n N k"]:
        """Return f of all particles at encoded rows, block by block."""
        parts = [np.asarray(self._outputs(block))[:, :count] for block, count in row_blocks(x)]
        return np.concatenate(parts, axis=1)

    def predictive(self, table: Any, unknown: str) -> Predictive:
        """Return the predictive distribution at the rows of a table, in the target's own units.

        Args:
            table: rows with the columns seen in training.
            unknown: what a category unseen in training is: an "error", or "missing".
        """
        f = self.values(self.encoder(table, unknown=unknown))
        return self._predictive(jnp.asarray(f), *self.target.units)

    def answers(self, ask: Callable[[Predictive], Any], table: Any, unknown: str) -> Any:
        """Return the arrays that ``ask`` makes of the rows of a table, in standardised units.

        Only f of one block of rows is in memory at a time.
        """
        units, found = (np.zeros(()), np.ones(())), []
        for x in encoded_chunks(self.encoder, table, unknown):
            for block, count in row_blocks(x):
                answer = ask(self._predictive(self._outputs(block), *units))
                found.append(jax.tree.map(lambda leaf, count=count: np.asarray(leaf)[:count], answer))
        return jax.tree.map(lambda *parts: np.concatenate(parts), *found)

    def diagnose(self, key: Key, rows: Rows) -> Diagnostics:
        """Diagnose the fit at some of the encoded training rows, and at as many points well past them.

        Of labels, rare ones are looked at as often as others, and count by their share of all rows.
        """
        rng, support = generator(key), self.spec.likelihood.support
        chosen, weight = _rows_to_look_at(rng, rows, support)
        at, y, _ = take_rows(rows, chosen)
        past = at + FAR * rng.normal(size=at.shape)
        has_noise = bool(jax.tree.leaves(self.state.params))
        noise = float(np.mean(jax.vmap(self.spec.likelihood.noise)(self.state.params))) if has_noise else None
        f = self.values(at)
        predictive = self._predictive(jnp.asarray(f), np.zeros(()), np.ones(()))
        log_prob = float(np.average(np.asarray(predictive.log_prob(y)), weights=weight))
        base = base_rate(support, *rows[1:])
        least = enough_gain(support, base)
        skill = () if least is None else (log_prob - base, least)
        return diagnose(self.history, f, self.values(past), noise, *skill)

    def _predictive(self, f: Float[Array, "n N k"], shift: Any, scale: Any) -> Predictive:
        units = (jnp.asarray(unit, jnp.float32) for unit in (shift, scale))
        return Predictive(self.spec.likelihood, f, jax.tree.map(jnp.asarray, self.state.params), *units)

    def _outputs(self, block: Float[np.ndarray, "B *d_x"]) -> Float[Array, "n B k"]:
        return outputs_of(self.spec, self.scales, self.state.particles, self.state.network_state, block)


def _rows_to_look_at(
    rng: np.random.Generator, rows: Rows, support: Support
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return places of rows at random, the same number of each label if there are labels, and what each stands for."""
    _, y, weight = rows
    order = rng.permutation(len(y))
    if not support.labels:
        return order[:MOST_LOOKED_AT], weight[order[:MOST_LOOKED_AT]]
    _, label = np.unique(y, axis=0, return_inverse=True)
    by_label = order[np.argsort(label[order], kind="stable")]
    counts = np.bincount(label)
    turn = np.empty(len(y), np.int64)  # of a row among those of its label
    turn[by_label] = np.arange(len(y)) - np.repeat(np.cumsum(counts) - counts, counts)
    chosen = order[np.argsort(turn[order], kind="stable")][:MOST_LOOKED_AT]
    whole, seen = (np.bincount(label[some], weight[some], len(counts)) for some in (order, chosen))
    return chosen, weight[chosen] * (whole[label[chosen]] / seen[label[chosen]])


def _restored(sizes: tuple[int, ...], shape: tuple[int, ...], kept: dict[str, Any]) -> Fitted:
    return Fitted(spec=make_spec_to_predict(sizes, kept["parts"], shape), **kept)
