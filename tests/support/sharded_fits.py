# SPDX-License-Identifier: Apache-2.0
"""The same run on several meshes, for processes with many devices: ``python sharded_fits.py TASK …`` prints JSON."""

import json
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np
from small_fits import SETTINGS, plane

from fpovi import BNNRegressor, load
from fpovi.bench.exchange import received
from fpovi.fitting import training
from fpovi.flows import FLOWS
from fpovi.inference import function_space, weight_space
from fpovi.inference import particles as particle_axis
from fpovi.inference.batches import make_batch
from fpovi.inference.loop import run
from fpovi.inference.sharding import connect, make_mesh, shard
from fpovi.likelihoods import gaussian
from fpovi.measurement import halo
from fpovi.networks import mlp
from fpovi.persistence import read_file
from fpovi.priors import moment_matched, nngp

N, ROWS, EXTRA, STEPS = 8, 13, 6, 12
EPOCHS = int(os.environ.get("EPOCHS", 200))
SIZES = (2, 6, 1)
if "SMALL_CACHE" in os.environ:
    particle_axis.IN_LAST_CACHE = particle_axis.IN_OWN_CACHE = 1
PRIORS = {"nngp": nngp, "moment_matched": moment_matched}


def data(rows=ROWS):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 2))
    return make_batch(x, np.sin(2 * x[:, :1]) + x[:, 1:])


def parts(flow, prior):
    network = mlp(SIZES)
    options = {"flow": FLOWS[flow], "measurement": halo(EXTRA)}
    if prior is None:
        return weight_space, (network, gaussian(floor=0.0)), options
    few = {"prior_size": 2}  # so that prior functions are drawn by their values
    return function_space, (network, gaussian(floor=0.0), PRIORS[prior](network)), options | few


def algorithm_on(mesh, flow, prior):
    make, args, options = parts(flow, prior)
    return (make if mesh is None else shard(make, mesh))(*args, **options)


def start(algorithm, n=N):
    return jax.jit(algorithm.init, static_argnums=1)(jax.random.key(0), n)


def taken(mesh, flow, prior, batch_size=8, steps=STEPS):
    """Particles, noise and history after a few steps of mini-batches."""
    algorithm = algorithm_on(mesh, flow, prior)
    done = run(jax.random.key(1), algorithm, start(algorithm), data(), steps, batch_size=batch_size, chunk_size=6)
    leaves = jax.tree.leaves((done.state.particles, done.state.params, done.history))
    return np.concatenate([np.asarray(leaf, np.float64).ravel() for leaf in leaves])


def agreement(flow, prior, *meshes):
    """By mesh, given as "4x2", the largest difference from one device that does not know of meshes."""
    prior = None if prior == "none" else prior
    alone = taken(None, flow, prior)
    shapes = [tuple(map(int, mesh.split("x"))) for mesh in meshes]
    return {mesh: float(np.max(np.abs(taken(make_mesh(*shape), flow, prior) - alone)))
            for mesh, shape in zip(meshes, shapes, strict=True)}  # fmt: skip


def exchanged(*meshes, n=N, rows=ROWS):
    """What a step of function space receives: by the compiled program, and by the formula of ``bytes_received``."""
    return {mesh: _exchanged(*map(int, mesh.split("x")), n, rows) for mesh in meshes}


def _exchanged(along_particles, along_data, n, rows):
    algorithm = algorithm_on(make_mesh(along_particles, along_data), "svgd", "nngp")
    state = start(algorithm, n)
    hlo = jax.jit(algorithm.step).lower(jax.random.key(0), state, data(rows)).compile().as_text()
    points = rows + EXTRA + -(rows + EXTRA) % along_data
    weights = sum(leaf[0].size for leaf in jax.tree.leaves(state.particles))
    return {
        "measured": received(hlo),
        "values": 4 * n * points * SIZES[-1] * (1 - 1 / (along_particles * along_data)),
        "gradients": 8 * n * weights / along_particles * (1 - 1 / along_data),
    }


def answers():
    """Where the arrays of a state are, and what is said of particles or rows that cannot be split."""
    algorithm, counting = algorithm_on(make_mesh(4), "svgd", "nngp"), mlp(SIZES)
    state = start(algorithm)
    adam = state.optimiser[0]
    places = {"weights": state.particles.weights[0], "momentum": adam.mu.biases[0], "noise": state.params}
    said = {name: list(leaf.sharding.spec) for name, leaf in {**places, "count": adam.count}.items()}
    counting = counting._replace(init=lambda key, init=counting.init: (init(key)[0], jnp.zeros(())))
    stateful = shard(function_space, make_mesh(4, 2))(counting, gaussian(floor=0.0), nngp(counting))
    attempts = {
        "uneven": lambda: start(algorithm, n=9),
        "stateful": lambda: jax.eval_shape(stateful.step, jax.random.key(0), start(stateful), data()),
    }
    for name, attempt in attempts.items():
        try:
            attempt()
        except ValueError as error:
            said[name] = str(error)
    return said


def fitted(**options):
    """An estimator fitted with a look every few steps, so that even a short fit writes checkpoints."""
    training.CHUNK, training.SECONDS_BETWEEN_CHECKPOINTS = 40, 0.0
    return BNNRegressor(**{**SETTINGS, "max_epochs": EPOCHS}, **options).fit(*plane(32))


def difference(a, b):
    """The largest, over predictions, particles and noise of two models."""
    leaves = (
        jax.tree.leaves((m.predict(plane(32)[0]), m.fitted_.state.particles, m.fitted_.state.params)) for m in (a, b)
    )
    return float(max(np.max(np.abs(np.asarray(x) - np.asarray(y))) for x, y in zip(*leaves, strict=True)))


def estimator(folder):
    """Fits on one device and on two; one that is broken off on two and goes on with four; and what files say of it."""
    alone, shared = fitted(), fitted(devices=2)
    for name, model in {"alone": alone, "shared": shared}.items():
        model.save(f"{folder}/{name}.fpovi")
    take_steps, calls = training.run, iter(range(2))

    def breaking(*args, **options):
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return take_steps(*args, **options)

    training.run, checkpoint = breaking, f"{folder}/fit.checkpoint"
    try:
        fitted(devices=2, checkpoint=checkpoint)
    except KeyboardInterrupt:
        training.run = take_steps
    steps = read_file(checkpoint, kind="checkpoint")[0]["steps"]
    resumed = fitted(devices=4, checkpoint=checkpoint)
    settings = [read_file(f"{folder}/{name}.fpovi", kind="model")[0]["settings"] for name in ("alone", "shared")]
    return {
        "shared": difference(alone, shared), "resumed": difference(alone, resumed), "broken off after": steps,
        "same settings": settings[0] == settings[1], "devices when loaded": load(f"{folder}/shared.fpovi").devices,
    }  # fmt: skip


def host(checkpoint):
    """A fit on the devices of all hosts: how far it is from the one of this host alone, and its bits."""
    connect(patience=20)
    together = fitted(devices="all", checkpoint=checkpoint)
    bits = np.concatenate(
        [np.asarray(leaf).ravel() for leaf in jax.tree.leaves(together.fitted_.state.particles)]
    ).tobytes()
    return {"difference": difference(fitted(), together), "bits": bits.hex(), "devices": jax.device_count()}


def resumed(checkpoint):
    """Where a fit that two hosts have left ends on two devices of one, and how far that is from a fit in one go."""
    model = fitted(devices=2, checkpoint=checkpoint)
    return {"difference": difference(fitted(devices=2), model), "steps": len(model.fitted_.history.noise)}


TASKS = {task.__name__: task for task in (agreement, exchanged, answers, estimator, host, resumed)}

if __name__ == "__main__":
    print(json.dumps(TASKS[sys.argv[1]](*sys.argv[2:])))
