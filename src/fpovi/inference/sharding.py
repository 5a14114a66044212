# SPDX-License-Identifier: Apache-2.0
r"""Particles over a mesh of devices: the same step, with only function values crossing from one device to another.

Every device evaluates its own particles (on its own rows, where the mesh has a second axis) and all gather the outputs;
score, kernel, lengthscale and flow are then computed by every device for all particles, which is cheap beside a network
and lets no shard see another lengthscale; velocities are pulled back to the device's own particles only. A device
receives, per step and with 4 bytes per number,

.. math:: 4\,n B k \Big(1 - \frac{1}{PD}\Big) \quad\text{bytes of } f, \qquad
          8\,\frac{n p}{P} \Big(1 - \frac1D\Big) \quad\text{bytes of gradients}

on a mesh of P devices over particles times D over rows, p weights per particle: the second term is the price of the
rows' axis, and nothing without it. Placement is never a matter of correctness: what is not a forward pass is left to
JAX, which keeps to the shardings of the state.
"""

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import wraps
from types import TracebackType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float

from fpovi.inference.particles import forward, num_particles
from fpovi.types import Algorithm, Batch, Forward, Info, Key, Network, PyTree, State

PARTICLES, DATA = "particles", "data"
SPLIT = ("particles", "network_state", "optimiser")  # of a state; the rest is small, and the same everywhere


def make_mesh(particles: int | None = None, data: int = 1, devices: Sequence[Any] | None = None) -> Mesh:
    """Return a mesh of devices over particles and rows.

    Args:
        particles: devices along the particles' axis; by default as many as there are for it.
        data: devices along the rows' axis, which exists only where this is above 1.
        devices: which devices; by default all there are, on all hosts.

    >>> make_mesh(particles=1).axis_names
    ('particles',)
    """
    found = list(jax.devices() if devices is None else devices)
    wanted = {"particles": len(found) // max(data, 1) if particles is None else particles, "data": data}
    for name, count in wanted.items():
        if count < 1:
            raise ValueError(f"{name}={count} must be at least 1, and {len(found)} devices are there")
    particles = wanted["particles"]
    if particles * data > len(found):
        raise ValueError(
            f"particles={particles} × data={data} needs {particles * data} devices, but {len(found)} are there (on a "
            f"CPU, JAX_NUM_CPU_DEVICES={particles * data} in the environment makes as many)"
        )
    grid = np.asarray(found[: particles * data], dtype=object).reshape((particles, data)[: 1 + (data > 1)])
    return Mesh(grid, (PARTICLES, DATA)[: grid.ndim], axis_types=(AxisType.Auto,) * grid.ndim)


def shard(make: Callable[..., Algorithm], mesh: Mesh) -> Callable[..., Algorithm]:
    """Return an algorithm's maker whose particles are over a mesh of devices.

    Args:
        make: ``function_space``, ``weight_space`` or ``exact``.
        mesh: from :func:`make_mesh`.

    The result takes the same arguments, and its algorithm the same steps up to the rounding of sums. Particles, network
    states and what the optimiser keeps of them live split; likelihood parameters are everywhere. In weight space the
    flow needs all weights, and those then cross devices.

    Start under ``jit``, so that no device ever holds all particles: ``jax.jit(algorithm.init, static_argnums=1)``.

    >>> from fpovi import function_space, likelihoods, networks, priors
    >>> network = networks.mlp((1, 4, 1))
    >>> algorithm = shard(function_space, make_mesh(1))(network, likelihoods.gaussian(), priors.nngp(network))
    >>> state = jax.jit(algorithm.init, static_argnums=1)(jax.random.key(0), 6)
    >>> state.particles.weights[0].sharding.mesh.axis_names
    ('particles',)
    """

    @wraps(make)
    def made(*args: Any, **options: Any) -> Algorithm:
        algorithm = make(*args, forward=forward_over(mesh), **options)

        def init(key: Key, n: int, particles: PyTree | None = None) -> State:
            check_split(n, mesh)
            return _pinned(algorithm.init(key, n, particles), mesh)

        def step(key: Key, state: State, batch: Batch) -> tuple[State, Info]:
            after, info = algorithm.step(key, _pinned(state, mesh), batch)
            return _pinned(after, mesh), everywhere(info, mesh)

        return algorithm._replace(init=init, step=step)

    return made


def forward_over(mesh: Mesh) -> Forward:
    """Return a forward pass in which every device evaluates its own particles and rows, and gets the outputs of all.

    Differentiated, it takes of what all know the device's own part, and adds up gradients over the rows' axis.
    """
    parts = mesh.shape.get(DATA, 1)
    own, rows = PartitionSpec(PARTICLES), PartitionSpec(DATA if parts > 1 else None)

    def spread(
        network: Network, particles: PyTree, state: PyTree, x: Float[Array, "B *d_x"], train: bool | int = False
    ) -> tuple[Float[Array, "n B k"], PyTree]:
        check_split(num_particles(particles), mesh)
        if parts > 1 and jax.tree.leaves(state):
            raise ValueError(
                f"data={parts} splits the rows of a batch, but the network has a state (BatchNorm?) that needs all of "
                "them: use a mesh with data=1"
            )

        def local(particles: PyTree, state: PyTree, x: Array) -> tuple[Array, PyTree]:
            if parts > 1:  # here, so that gradients are added up once and as they leave, however the network uses them
                particles = jax.lax.pcast(particles, DATA, to="varying")
            outputs, state = forward(network, particles, state, x, train)
            for axis, name in reversed(list(enumerate(mesh.axis_names))):
                outputs = jax.lax.all_gather(outputs, name, axis=axis, tiled=True, to="invarying")
            return outputs, state

        padded = jnp.concatenate([x, jnp.repeat(x[:1], -x.shape[0] % parts, axis=0)])
        apart = jax.shard_map(local, mesh=mesh, in_specs=(own, own, rows), out_specs=(PartitionSpec(), own))
        # pinned on both sides: JAX would split what is small to begin with, and exchange more
        outputs, state = apart(particles, state, everywhere(padded, mesh))
        return everywhere(outputs, mesh)[:, : x.shape[0]], state

    return spread


def bytes_received(n: int, points: int, outputs: int, weights: int, particles: int, data: int = 1) -> tuple[int, int]:
    """Return the bytes of f and of gradients that a device receives in a step: the two terms of this module's formula.

    A few scalars come on top, whether all is finite.

    Args:
        n, points, outputs, weights: particles, rows of the measurement set, outputs and weights of a network.
        particles, data: devices along either axis; rows are filled up to a multiple of ``data``.

    >>> bytes_received(n=16, points=1024, outputs=10, weights=10**9, particles=16)
    (614400, 0)
    >>> bytes_received(n=16, points=1024, outputs=10, weights=10**9, particles=8, data=2)
    (614400, 8000000000)
    """
    devices, rows = particles * data, points + -points % data
    values = 4 * n * rows * outputs * (devices - 1) // devices
    return values, 8 * n * weights * (data - 1) // devices


def check_split(n: int, mesh: Mesh) -> None:
    """Raise a ``ValueError`` unless every device gets as many particles as the others."""
    parts = mesh.shape[PARTICLES]
    if n % parts:
        raise ValueError(
            f"n_particles={n} cannot be split evenly over {parts} devices: use a multiple of {parts} particles"
        )


def state_shardings(state: State, mesh: Mesh) -> State:
    """Return where every array of a state lives: those with one row per particle, but the likelihood's, are split."""
    n = num_particles(state.particles)

    def place(name: str, leaf: Any) -> NamedSharding:
        per_particle = name in SPLIT and jnp.ndim(leaf) > 0 and jnp.shape(leaf)[0] == n
        return NamedSharding(mesh, PartitionSpec(PARTICLES) if per_particle else PartitionSpec())

    placed = {
        name: jax.tree.map(lambda leaf, name=name: place(name, leaf), field) for name, field in state._asdict().items()
    }
    return State(**placed)


def everywhere(tree: PyTree, mesh: Mesh) -> PyTree:
    """Return the same arrays, whole on every device; the gradient of what is computed from them is whole too."""
    return jax.lax.with_sharding_constraint(tree, NamedSharding(mesh, PartitionSpec()))


def _pinned(state: State, mesh: Mesh) -> State:
    return jax.lax.with_sharding_constraint(state, state_shardings(state, mesh))


def connect(
    coordinator: str | None = None, num_processes: int | None = None, process_id: int | None = None, patience: int = 30
) -> None:
    """Join the processes of all hosts, so that each sees the devices of all: the first call of a script they all run.

    A host that stops is missed after ``patience`` seconds; then all others end too, not with 0, and say which it was.
    An error that nobody catches ends its host at once, without waiting at the exit for others who wait for it.

    Args:
        coordinator: "address:port" of the first host, which all can reach; any free port of a network one trusts.
        num_processes, process_id: how many there are, and which of them this one is, from 0.
        patience: seconds.

    What is not given is taken from JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID in the environment,
    or else from Slurm, Open MPI or Kubernetes, as JAX finds them.
    """
    if patience < 1:
        raise ValueError(f"patience={patience} must be at least 1 second")
    jax.distributed.initialize(
        coordinator,
        _whole("JAX_NUM_PROCESSES") if num_processes is None else num_processes,
        _whole("JAX_PROCESS_ID") if process_id is None else process_id,
        heartbeat_timeout_seconds=patience,
    )
    sys.excepthook = _end_at_once


def _whole(name: str) -> int | None:
    """Return a whole number from the environment, if it is there."""
    text = os.environ.get(name)
    if text is not None and not text.isdecimal():
        raise ValueError(f"{name}={text!r} in the environment must be a whole number")
    return None if text is None else int(text)


def _end_at_once(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    traceback.print_exception(kind, error, trace)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)


def fetch(tree: PyTree) -> PyTree:
    """Return the whole arrays as NumPy's, also what other hosts hold; all hosts have to ask together."""

    def whole(leaf: Any) -> Any:
        elsewhere = isinstance(leaf, jax.Array) and not leaf.is_fully_addressable
        return np.asarray(multihost_utils.process_allgather(leaf, tiled=True) if elsewhere else leaf)

    return jax.tree.map(whole, tree)


def same_everywhere(number: int) -> bool:
    """Tell whether all hosts, which have to ask together, ask with the same number."""
    return jax.process_count() == 1 or bool(np.all(multihost_utils.process_allgather(np.asarray(number)) == number))
