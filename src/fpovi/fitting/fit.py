# SPDX-License-Identifier: Apache-2.0
"""A fit, from encoded rows to particles: what is held out, which phases there are, and where they start."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from numpy.typing import NDArray

from fpovi.fitting.parts import Spec
from fpovi.fitting.phases import (
    PhaseSettings,
    can_warm_up,
    continue_from,
    flow_phase,
    outputs_of,
    start,
    warm_start,
    warm_up_phase,
)
from fpovi.fitting.training import FLOW, WARM, Progressed, belongs_to, fingerprint_of, train
from fpovi.inference.batches import make_batch, pad
from fpovi.inference.sharding import check_split, make_mesh
from fpovi.predictive import Predictive
from fpovi.types import Batch, Key, Scales, State

Rows = tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]  # inputs, targets and weights
LEAST_ROWS, MOST_ROWS_AT_START = 32, 2048


class Keys(NamedTuple):
    """What is random in a fit: where particles start, the steps they take, and which rows are held out."""

    start: Key
    run: Key
    hold: Key


class FitSchedule(NamedTuple):
    """Rows of a step, steps of the whole fit, how many of them warm up, and the peak rates."""

    batch_size: int
    steps: int
    warm_up_steps: int
    rate: float
    rate_after_warm_up: float


@dataclass(frozen=True)
class RunSettings:
    """How a fit is run: particles and devices, what it shows and keeps.

    ``settings`` are those that decide where it ends, as text: a checkpoint belongs to them.
    """

    n_particles: int
    mesh: Mesh | None
    warm_up: bool
    verbose: bool = False
    checkpoint: Any = None
    settings: str = ""


def fit_particles(
    run: RunSettings,
    schedule: FitSchedule,
    keys: Keys,
    spec: Spec,
    scales: Scales,
    training: Rows,
    held: Rows | None = None,
    earlier: State | None = None,
) -> Progressed:
    """Return particles fitted to rows, from those of ``earlier``, if any.

    A first fit with automatic scales warms up before it flows, where its network and likelihood allow that.

    Args:
        run, schedule: how, how long and at which rates.
        keys: the same keys give the same particles.
        spec, scales: the model.
        training: encoded rows to learn from.
        held: encoded rows by which to stop early.
        earlier: the state of another fit of the same model, to go on from.
    """
    n, steps, rate = run.n_particles, schedule.steps, schedule.rate
    data, held_batch = padded(training), None if held is None else padded(held)
    # of a first fit only: run again, a program gets there at once, and from there takes the same way on
    checkpoint = run.checkpoint if earlier is None else None
    fingerprint = "" if checkpoint is None else fingerprint_of(run.settings, data, held_batch, scales)
    options: dict[str, Any] = {
        "batch_size": min(schedule.batch_size, data.x.shape[0]), "verbose": run.verbose, "checkpoint": checkpoint
    }  # fmt: skip

    if earlier is None and run.warm_up and can_warm_up(spec) and schedule.warm_up_steps:
        steps -= schedule.warm_up_steps
        phase = phase_settings(scales, rate, schedule.warm_up_steps)
        earlier = warm_start(spec, n, phase, keys.start, some(keys.start, training))
        if not belongs_to(checkpoint, fingerprint + FLOW):
            earlier = train(
                jax.random.fold_in(keys.run, 1), warm_up_phase(spec, phase, run.mesh), earlier, data,
                schedule.warm_up_steps, fingerprint=fingerprint + WARM, label="warm-up", **options,
            ).state  # fmt: skip
        rate = schedule.rate_after_warm_up
    phase = phase_settings(scales, rate, steps)
    state = start(spec, n, phase, keys.start) if earlier is None else continue_from(spec, phase, keys.start, earlier)
    return train(
        keys.run, flow_phase(spec, phase, run.mesh), state, data, steps, fingerprint=fingerprint + FLOW,
        validate=None if held_batch is None else lambda state: _held_out_nll(spec, scales, state, held_batch),
        **options,
    )  # fmt: skip


def generator(key: Key) -> np.random.Generator:
    """Return NumPy's random numbers, which need no compilation for every number of rows."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key)))


def whole_particles(n: Any) -> int:
    """Return the number of particles, if it is one."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise ValueError(f"n_particles={n!r} must be a positive whole number")
    return int(n)


def mesh_of(devices: Any, n_particles: Any) -> Mesh | None:
    """Return the devices that particles are split over, if they are.

    Args:
        devices, n_particles: the estimator's settings.
    """
    if devices is None:
        return None
    known = devices == "all" or (
        isinstance(devices, int | np.integer) and not isinstance(devices, bool) and devices > 0
    )
    if not known:
        raise ValueError(f'devices={devices!r} must be None, "all", or a positive whole number')
    there = jax.device_count()
    count = there if devices == "all" else int(devices)
    if count > there:
        raise ValueError(
            f"devices={count}, but JAX sees {there} ({jax.default_backend()}); of a CPU it makes as many with "
            f"JAX_NUM_CPU_DEVICES={count} in the environment when it starts"
        )
    if count < there and jax.process_count() > 1:
        raise ValueError(f'devices={count} leaves out some of the {there} of all hosts: use devices="all"')
    mesh = make_mesh(count)
    check_split(whole_particles(n_particles), mesh)
    return mesh


def hold_out(key: Key, rows: Rows, fraction: float | None) -> tuple[Rows, Rows | None]:
    """Return training rows and, with a ``fraction``, rows held out for early stopping."""
    if fraction is None:
        return rows, None
    if not 0 < fraction < 1:
        raise ValueError(f"validation_fraction={fraction} must lie strictly between 0 and 1")
    count = len(rows[0])
    held = int(np.clip(round(fraction * count), 1, count - 1))
    order = generator(key).permutation(count)
    return take_rows(rows, np.sort(order[held:])), take_rows(rows, np.sort(order[:held]))


def take_rows(rows: Rows, chosen: NDArray[np.int64]) -> Rows:
    """Return some of the rows."""
    x, y, weight = rows
    return x[chosen], y[chosen], weight[chosen]


def some(key: Key, rows: Rows) -> Batch:
    """Return the rows that a start looks at: all of them, or as many at random as will do."""
    return padded(take_rows(rows, np.sort(generator(key).permutation(len(rows[0]))[:MOST_ROWS_AT_START])))


def padded_rows(rows: int) -> int:
    """Return the size to which a number of rows is padded: a power of two, so that few programs serve all tables.

    >>> [padded_rows(rows) for rows in (3, 33, 1000)]
    [32, 64, 1024]
    """
    return max(LEAST_ROWS, 2 ** (rows - 1).bit_length())


def padded(rows: Rows, to: int | None = None) -> Batch:
    """Return the rows as a batch of their padded size, or of that of ``to`` rows."""
    x, y, weight = rows
    batch = make_batch(x.astype(np.float32), y if y.dtype.kind in "iu" else y.astype(np.float32), weight)
    return pad(batch, padded_rows(len(x) if to is None else to))


def phase_settings(scales: Scales, rate: float, steps: int) -> PhaseSettings:
    """Return numbers as the compiled programs take them."""
    return PhaseSettings(scales, jnp.asarray(rate), jnp.asarray(float(steps)))


def _held_out_nll(spec: Spec, scales: Scales, state: State, held: Batch) -> float:
    """Return the mean negative log predictive density of the mixture, weighted."""
    f = outputs_of(spec, scales, state.particles, state.network_state, held.x)
    predictive = Predictive(spec.likelihood, f, jax.tree.map(jnp.asarray, state.params), jnp.zeros(()), jnp.ones(()))
    weight = np.asarray(held.weight).mean(axis=1)
    return float(-np.sum(np.asarray(predictive.log_prob(held.y)) * weight) / np.sum(weight))
