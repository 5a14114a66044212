# SPDX-License-Identifier: Apache-2.0
r"""``approximation``: the error of networks and mini-batches against a closed-form posterior (the paper's appendix).

Inputs X are 21 for training, −2, −1.8, …, 2, and 3 for testing, 1.7, 1.9, 2.1; targets are :math:`\mathcal N(\sin x,
.1^2)`; the prior over functions is a Gaussian process with covariance :math:`\exp(-(x-x')^2 / 2 \cdot .5^2)`. Four
versions of f-SVGD run with 1,000 particles, begun at draws from the prior:

- ``exact``: the particles are the 24 values f(X);
- ``parametric``: they are networks, compared at all of X in every step;
- ``mini_batch``: they are networks, and a step sees 16 training inputs and the 3 test inputs;
- ``moments``: the same with another kernel, :class:`fpovi.experiments.approximation.moment_kernel.MomentKernel`.

The score is KL(q‖p) of the values at the test inputs, q a normal through the particles, p the posterior without any
jitter; it is the sum of a part for the mean and one for the covariance. ``baseline`` is the KL from the posterior that
was given every second training point only.

What the paper leaves open is ours. The networks have this prior as their wide limit and 50 units
(:mod:`~fpovi.experiments.approximation.fourier`). Steps are those of Adam with a decaying rate, where the paper has a
size of 1e-3; those of values are in coordinates that have a prior variance of 1. The kernel's lengthscale is three
times the median heuristic's, computed in every step from 100 of the particles: a median of 1,000² distances would cost
more than the rest of the step. Numbers are float64 throughout, the prior's jitter is 1e-5. (Particles that come to rest
where a prior with a jitter of 1e-4 would have them have a KL of .002; with 1e-5, of .00002.)
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float
from numpy.typing import NDArray

from fpovi._lookup import lookup
from fpovi.experiments.approximation.fourier import fourier_network
from fpovi.experiments.approximation.moment_kernel import MomentKernel
from fpovi.experiments.harness.experiment import Options, Watch, silent
from fpovi.experiments.harness.store import Cell, Store
from fpovi.experiments.paper_parts import PAPER_FLOWS
from fpovi.experiments.sine.scores import gaussian_kl
from fpovi.inference import exact, function_space
from fpovi.inference.batches import make_batch, take
from fpovi.inference.loop import run
from fpovi.inference.particles import forward
from fpovi.kernels import StationaryKernel, median_lengthscale, rbf
from fpovi.likelihoods import gaussian
from fpovi.measurement import points
from fpovi.priors import gaussian_process
from fpovi.types import Algorithm, Batch, Info, Kernel, Key, State

NOISE, JITTER, BANDWIDTH = 0.1, 1e-5, 0.5
X = np.linspace(-2, 2, 21)[:, None]
X_TEST = np.array([[1.7], [1.9], [2.1]])
UNITS, BATCH = 50, 16
LENGTHSCALE_FACTOR, MEDIAN_PARTICLES = 3.0, 100
RATE_OF_VALUES, RATE_OF_NETWORKS, RATE_OF_MOMENTS = 0.1, 1e-2, 0.1
REPORTS = 40
Moments = tuple[NDArray[np.float64], NDArray[np.float64]]


class Preset(NamedTuple):
    """The numbers of particles and steps, the draws of the targets, and the rate with mini-batches and RBF."""

    particles: int
    steps: int
    seeds: tuple[int, ...]
    rate: float


PRESETS = {"quick": Preset(200, 2_000, (0, 1), 5e-3), "paper": Preset(1_000, 20_000, (0, 1, 2), 2e-3)}
LABELS = {
    "exact": "exact",
    "parametric": "networks",
    "mini_batch": "networks, mini-batches",
    "moments": "mini-batches, linear kernel",
}


def targets(seed: int) -> NDArray[np.float64]:
    """Return the training targets of a draw."""
    return np.sin(X[:, 0]) + NOISE * np.random.default_rng(seed).normal(size=len(X))


def covariance(a: Float[Array, "A 1"], b: Float[Array, "B 1"]) -> Float[Array, "A B"]:
    """Return the prior covariance of f between two sets of inputs."""
    return jnp.exp(-((a - b.T) ** 2) / (2 * BANDWIDTH**2))


def posterior(y: NDArray[np.float64], every: int = 1) -> Moments:
    """Return mean and covariance of f at the test inputs, given every ``every``-th of the training targets."""
    k = lambda a, b: np.exp(-((a - b.T) ** 2) / (2 * BANDWIDTH**2))  # noqa: E731
    x, y = X[::every], y[::every]
    gain = np.linalg.solve(k(x, x) + NOISE**2 * np.eye(len(x)), k(x, X_TEST)).T
    return gain @ y, k(X_TEST, X_TEST) - gain @ k(x, X_TEST)


class Version(NamedTuple):
    """An algorithm that is given all rows, and the values of its particles at the test inputs."""

    algorithm: Algorithm
    values: Callable[[State], Float[Array, "n 3"]]


def sampled_kernel(factor: float, n: int) -> StationaryKernel:
    """Return ``rbf`` with the median heuristic of n particles, its median taken over the first 100 of them."""
    few = min(MEDIAN_PARTICLES, n)
    corrected = factor * float(np.sqrt(np.log(few + 1) / np.log(n + 1)))
    return rbf(lambda f: median_lengthscale(f[:few], factor=corrected, floor=1e-5))


def exact_version(n: int, steps: int) -> Version:
    """Return the version whose particles are the values f(X), begun at draws from the prior."""
    x = jnp.asarray(np.concatenate([X, X_TEST]))
    root = jnp.linalg.cholesky(covariance(x, x) + JITTER * jnp.eye(len(x)))
    algorithm = exact(
        x,
        gaussian(NOISE, floor=0.0),
        gaussian_process(covariance, jitter=JITTER),
        flow=PAPER_FLOWS["svgd"],
        prior_weight=1.0,
        start=lambda key: root @ jax.random.normal(key, (len(x), 1)),
        kernel=sampled_kernel(LENGTHSCALE_FACTOR, n),
        optimiser=in_coordinates(root, _adam(RATE_OF_VALUES, steps)),
    )
    return Version(algorithm, lambda state: state.particles[:, len(X) :, 0])


def in_coordinates(root: Float[Array, "d d"], optimiser: optax.GradientTransformation) -> optax.GradientTransformation:
    """Return ``optimiser`` acting on the coordinates z of particles f = root z.

    With the root of the prior's covariance all coordinates have a prior variance of 1.

    Steps in f itself are slow: its directions have prior variances from 1e-5 to 7.
    """

    def update(updates: Array, state: optax.OptState, particles: Array | None = None) -> tuple[Array, optax.OptState]:
        del particles
        steps, state = optimiser.update(jnp.einsum("ji,njk->nik", root, updates), state)
        return jnp.einsum("ij,njk->nik", root, steps), state

    return optax.GradientTransformation(optimiser.init, update)


def network_version(
    n: int, steps: int, rate: float, batch_size: int | None = None, kernel: Kernel | None = None
) -> Version:
    """Return the version of networks, begun at draws from their prior; the test inputs are compared in every step."""
    network = fourier_network(UNITS, BANDWIDTH, NOISE)
    algorithm = function_space(
        network,
        gaussian(NOISE, floor=0.0),
        gaussian_process(covariance, jitter=JITTER),
        flow=PAPER_FLOWS["svgd"],
        prior_weight=1.0,
        measurement=points(X_TEST),
        prior_size=None,
        kernel=sampled_kernel(LENGTHSCALE_FACTOR, n) if kernel is None else kernel,
        optimiser=_adam(rate, steps),
    )
    at_test = jax.jit(
        lambda state: forward(network, state.particles, state.network_state, jnp.asarray(X_TEST))[0][..., 0]
    )
    return Version(algorithm if batch_size is None else on_batches(batch_size, algorithm), at_test)


def on_batches(size: int, algorithm: Algorithm) -> Algorithm:
    """Return the algorithm with ``size`` of the rows in every step, and with all of them equally often.

    A step continues in a shuffled order where the last one stopped, and starts again at its end; in N steps each of N
    rows has been seen ``size`` times, then the order is a new one. (Rows drawn independently for every step leave noise
    that all particles share. Epochs would not do either: of 21 rows 16 leave 5, and every second step would see only
    these.)
    """

    def step(key: Key, state: State, batch: Batch) -> tuple[State, Info]:
        count = batch.x.shape[0]
        order = jax.random.permutation(jax.random.fold_in(jax.random.key(0), state.step // count), count)
        rows = order[(size * (state.step % count) + jnp.arange(size)) % count]
        return algorithm.step(key, state, take(batch, rows, jnp.ones(size, bool)))

    return algorithm._replace(step=step)


VERSIONS: dict[str, Callable[[Preset], Version]] = {
    "exact": lambda preset: exact_version(preset.particles, preset.steps),
    "parametric": lambda preset: network_version(preset.particles, preset.steps, RATE_OF_NETWORKS),
    "mini_batch": lambda preset: network_version(preset.particles, preset.steps, preset.rate, BATCH),
    "moments": lambda preset: network_version(preset.particles, preset.steps, RATE_OF_MOMENTS, BATCH, MomentKernel()),
}


def _adam(rate: float, steps: int) -> optax.GradientTransformation:
    return optax.adam(optax.cosine_decay_schedule(rate, steps))


def cells(options: Options) -> list[Cell]:
    """Return the cells of every version on every draw of the targets."""
    chosen = lookup(PRESETS, options.preset, "preset")
    for method in options.methods:
        lookup(LABELS, method, "method")
    return [
        Cell("approximation", method, dataset="sine-gp", seed=draw, preset=options.preset)
        for draw in (chosen.seeds if options.seed is None else (options.seed,))
        for method in (options.methods or LABELS)
    ]


def run_cell(cell: Cell, watch: Watch = silent, store: Store | None = None) -> dict[str, Any]:
    """Return KL(q‖p) in the course of a version's run, and that of the baseline."""
    preset = lookup(PRESETS, cell.preset, "preset")
    y = targets(cell.seed)
    truth = posterior(y)
    with jax.enable_x64(True):
        version = lookup(VERSIONS, cell.method, "method")(preset)
        steps, curve = _train(jax.random.key(cell.seed), version, y, preset, truth, watch)
    of_mean, of_covariance = curve[-1]
    return {
        "kl": round(sum(curve[-1]), 6),
        "kl_of_mean": round(of_mean, 6),
        "kl_of_covariance": round(of_covariance, 6),
        "baseline": round(gaussian_kl(*posterior(y, 2), *truth), 6),
        "steps": steps,
        "curve": [round(sum(parts), 6) for parts in curve],
    }


def _train(
    key: Key, version: Version, y: NDArray[np.float64], preset: Preset, truth: Moments, watch: Watch
) -> tuple[list[int], list[tuple[float, float]]]:
    steps, curve = [], []

    def report(state: State, history: Info) -> None:
        steps.append(int(state.step))
        curve.append(kl_parts(np.asarray(version.values(state)), truth))
        watch(steps[-1], preset.steps, float(history.log_likelihood[-1]))

    key_start, key_run = jax.random.split(key)
    start = version.algorithm.init(key_start, preset.particles)
    data, between = make_batch(X, y), preset.steps // REPORTS
    run(key_run, version.algorithm, start, data, preset.steps, chunk_size=between, watch=report)
    return steps, curve


def kl_parts(values: NDArray[np.floating], truth: Moments) -> tuple[float, float]:
    """Return the parts of KL(q‖p) due to mean and covariance, q a normal with the moments of ``values (n, 3)``."""
    mean, covariance = truth
    of_mean = gaussian_kl(values.mean(axis=0), covariance, *truth)
    return of_mean, gaussian_kl(mean, np.cov(values.T), *truth)
