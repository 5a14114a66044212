# SPDX-License-Identifier: Apache-2.0
"""The course of a fit, from encoded rows to particles: what is held out, which phases it has, and where they start."""

import re
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from numpy.typing import NDArray

from fpovi.fitting import schedule
from fpovi.fitting.parts import Spec
from fpovi.fitting.phases import (
    Dials,
    can_warm_up,
    continue_from,
    flow_recipe,
    outputs_of,
    start,
    warm_recipe,
    warm_start,
)
from fpovi.fitting.training import FLOW, WARM, Progressed, belongs_to, fingerprint_of, train
from fpovi.inference.batches import make_batch, pad
from fpovi.inference.sharding import check_split, make_mesh
from fpovi.predictive import Predictive
from fpovi.types import Batch, Key, Scales, State

Rows = tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]  # inputs, targets and weights
OF_THE_RUN = ("verbose", "checkpoint", "devices")  # settings that change how a fit is run, and not where it ends


class Keys(NamedTuple):
    """What is random in a fit: where particles start, the steps they take, and which rows are held out."""

    start: Key
    run: Key
    hold: Key


def fit_particles(
    model: Any, keys: Keys, spec: Spec, scales: Scales, rows: Rows, earlier: State | None = None
) -> Progressed:
    """Particles fitted to ``rows`` as the settings of ``model``, an estimator, say; from those of ``earlier``, if any.

    A first fit with automatic scales warms up before it flows, where its network and likelihood allow that.
    """
    n, mesh = whole_particles(model.n_particles), mesh_of(model)
    training, held = _hold_out(model, keys.hold, rows)
    count = len(training[0])
    size = schedule.rows_per_step(model.batch_size, count)
    steps, rate = schedule.total_steps(model.max_epochs, count, size), schedule.peak_rate(model.learning_rate)
    data, held_batch = padded(training), None if held is None else padded(held)
    # of a first fit only: run again, a program gets there at once, and from there takes the same way on
    checkpoint = model.checkpoint if earlier is None else None
    fingerprint = "" if checkpoint is None else fingerprint_of(settings_of(model), data, held_batch, scales)
    options: dict[str, Any] = {
        "batch_size": min(size, data.x.shape[0]), "verbose": bool(model.verbose), "checkpoint": checkpoint
    }  # fmt: skip

    if earlier is None and model.prior == "auto" and can_warm_up(spec) and steps > 1:
        warm_steps = schedule.warm_steps(steps)
        steps -= warm_steps
        dials = dials_of(scales, rate, warm_steps)
        earlier = warm_start(spec, n, dials, keys.start, some(keys.start, training))
        if not belongs_to(checkpoint, fingerprint + FLOW):
            earlier = train(
                jax.random.fold_in(keys.run, 1), warm_recipe(spec, dials, mesh), earlier, data, warm_steps,
                fingerprint=fingerprint + WARM, label="warm-up", **options,
            ).state  # fmt: skip
        rate *= schedule.FLOW_RATE
    dials = dials_of(scales, rate, steps)
    state = start(spec, n, dials, keys.start) if earlier is None else continue_from(spec, dials, keys.start, earlier)
    return train(
        keys.run, flow_recipe(spec, dials, mesh), state, data, steps, fingerprint=fingerprint + FLOW,
        validate=None if held_batch is None else lambda state: _held_out_nll(spec, scales, state, held_batch),
        **options,
    )  # fmt: skip


def settings_of(model: Any) -> str:
    """What else a checkpoint depends on; where an object happens to lie in memory is left out."""
    settled = {name: value for name, value in model.get_params().items() if name not in OF_THE_RUN}
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(sorted(settled.items())))


def generator(key: Key) -> np.random.Generator:
    """NumPy's random numbers, which need no compilation for every number of rows."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key)))


def whole_particles(n: Any) -> int:
    """The number of particles, if it is one."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise ValueError(f"n_particles={n!r} must be a positive whole number")
    return int(n)


def mesh_of(model: Any) -> Mesh | None:
    """The devices that particles are split over, if they are."""
    wanted = model.devices
    if wanted is None:
        return None
    known = wanted == "all" or (isinstance(wanted, int | np.integer) and not isinstance(wanted, bool) and wanted > 0)
    if not known:
        raise ValueError(f'devices={wanted!r} must be None, "all", or a positive whole number')
    there = jax.device_count()
    count = there if wanted == "all" else int(wanted)
    if count > there:
        raise ValueError(
            f"devices={count}, but JAX sees {there} ({jax.default_backend()}); of a CPU it makes as many with "
            f"JAX_NUM_CPU_DEVICES={count} in the environment when it starts"
        )
    if count < there and jax.process_count() > 1:
        raise ValueError(f'devices={count} leaves out some of the {there} of all hosts: use devices="all"')
    mesh = make_mesh(count)
    check_split(whole_particles(model.n_particles), mesh)
    return mesh


def _hold_out(model: Any, key: Key, rows: Rows) -> tuple[Any, Any]:
    """Training rows and, for early stopping, validation rows."""
    if not model.early_stopping:
        return rows, None
    if not 0 < model.validation_fraction < 1:
        raise ValueError(f"validation_fraction={model.validation_fraction} must lie strictly between 0 and 1")
    count = len(rows[0])
    held = int(np.clip(round(model.validation_fraction * count), 1, count - 1))
    order = generator(key).permutation(count)
    return tuple(a[np.sort(order[held:])] for a in rows), tuple(a[np.sort(order[:held])] for a in rows)


def some(key: Key, rows: tuple[NDArray[Any], ...]) -> Batch:
    """The rows that a start looks at: all of them, or as many at random as will do."""
    chosen = np.sort(generator(key).permutation(len(rows[0]))[: schedule.MOST_ROWS_AT_START])
    return padded(tuple(a[chosen] for a in rows))


def padded(rows: tuple[NDArray[Any], ...], to: int | None = None) -> Batch:
    """The rows as a batch of the size of their bucket, or of that of ``to`` rows."""
    x, y, weight = rows
    batch = make_batch(x.astype(np.float32), y if y.dtype.kind in "iu" else y.astype(np.float32), weight)
    return pad(batch, schedule.padded_rows(len(x) if to is None else to))


def dials_of(scales: Scales, rate: float, steps: int) -> Dials:
    """Numbers as the compiled programs take them."""
    return Dials(scales, jnp.asarray(rate), jnp.asarray(float(steps)))


def _held_out_nll(spec: Spec, scales: Scales, state: State, held: Batch) -> float:
    """Mean negative log predictive density of the mixture, weighted."""
    f = outputs_of(spec, scales, state.particles, state.network_state, held.x)
    predictive = Predictive(spec.likelihood, f, jax.tree.map(jnp.asarray, state.params), jnp.zeros(()), jnp.ones(()))
    weight = np.asarray(held.weight).mean(axis=1)
    return float(-np.sum(np.asarray(predictive.log_prob(held.y)) * weight) / np.sum(weight))
