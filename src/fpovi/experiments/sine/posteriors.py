# SPDX-License-Identifier: Apache-2.0
"""Posteriors of the one-dimensional sine data as draws of f on a grid: exact ones, and approximations by particles.

Inputs and targets are standardised; the noise is known. A docstring says where a setting is ours and not the paper's.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from fpovi.baselines.nuts import nuts
from fpovi.baselines.optimisation import decaying_adam
from fpovi.datasets.sine import sine
from fpovi.experiments.harness.experiment import Watch
from fpovi.experiments.paper_parts import PAPER_FLOWS, PAPER_KERNELS, median_rbf
from fpovi.inference import function_space, weight_space
from fpovi.inference.batches import make_batch
from fpovi.inference.loop import run
from fpovi.inference.particles import forward
from fpovi.likelihoods import gaussian
from fpovi.measurement import halo
from fpovi.networks import fan_out_scales, mlp
from fpovi.predictive import predict
from fpovi.priors import flat, moment_matched, nngp_covariance, on_weights
from fpovi.tabular import Standardiser, standardiser
from fpovi.types import Algorithm, Batch, FunctionPrior, Info, Key, Measurement, Network, State

NOISE = 0.2
PARTICLES = 50
HIDDEN = (50, 50)
GRID = np.linspace(-0.5, 1.5, 200)
CHUNK = 100

Draws = NDArray[np.floating]


class PosteriorDraws(NamedTuple):
    """Draws of f on the grid ``(n, G)``, and metrics of how they were made."""

    draws: Draws
    metrics: dict[str, Any]


class SineTask(NamedTuple):
    """The data and the model that all methods share, and the inputs where posteriors are compared."""

    data: Batch
    x_scaling: Standardiser
    y_scaling: Standardiser
    sizes: tuple[int, ...]
    grid: NDArray[np.float64]

    @property
    def scaled_grid(self) -> jax.Array:
        """Return the inputs where posteriors are compared, standardised."""
        return jnp.asarray(self.x_scaling(self.grid[:, None]), self.data.x.dtype)

    def network(self, **options: Any) -> Network:
        """Return the network, with the paper's prior N(0, 1/n_out)."""
        return mlp(self.sizes, scales=fan_out_scales(self.sizes), **options)


MakeAlgorithm = Callable[[SineTask, int], Algorithm]  # of the number of steps


def sine_task(seed: int, hidden: tuple[int, ...] = HIDDEN, grid: NDArray[np.float64] = GRID) -> SineTask:
    """Return sine data drawn with ``seed``, standardised, and networks with ``hidden`` units."""
    x, y = (column[:, None] for column in sine(seed))
    x_scaling, y_scaling = standardiser(x), standardiser(y)
    return SineTask(make_batch(x_scaling(x), y_scaling(y)), x_scaling, y_scaling, (1, *hidden, 1), grid)


def nuts_posterior(
    seed: int, task: SineTask, watch: Watch, *, rhat_limit: float = 1.01, chains: int = 4, warmup: int = 300,
    draws: int = 500,
) -> PosteriorDraws:  # fmt: skip
    """Sample the exact posterior by several chains on the weights; R̂ is of the function at every grid point."""
    network = task.network(unit_weights=True)
    found = nuts(
        jax.random.key(seed), network, gaussian(NOISE, floor=0.0), task.data,
        chains=chains, warmup=warmup, draws=draws, target_acceptance=0.65,
    )  # fmt: skip
    values = jax.vmap(lambda theta: forward(network, theta, (), task.scaled_grid)[0][..., 0])
    f = values(found.theta)  # (chains, draws, G)
    rhat = float(jnp.max(blackjax.rhat(f)))
    if rhat > rhat_limit:
        raise ArithmeticError(f"NUTS did not converge: R̂ = {rhat:.3f} > {rhat_limit}; give it more draws")
    metrics = {"rhat": rhat, "ess": float(jnp.min(blackjax.ess(f))), "divergent": int(jnp.sum(found.divergent))}
    return PosteriorDraws(np.asarray(f).reshape(-1, task.grid.size), metrics)


def gp_posterior(seed: int, task: SineTask, watch: Watch) -> PosteriorDraws:
    """Draw from the exact posterior under the network's infinite-width prior: the best a Gaussian prior can reach."""
    architecture = task.network().architecture
    assert architecture is not None
    with jax.enable_x64(True):
        covariance = nngp_covariance(architecture)
        x, y, grid = (np.asarray(a, np.float64) for a in (task.data.x, task.data.y[:, 0], task.scaled_grid))
        k_rr, k_tr, k_tt = (
            np.asarray(covariance(jnp.asarray(a), jnp.asarray(b))) for a, b in ((x, x), (grid, x), (grid, grid))
        )
    gain = np.linalg.solve(k_rr + NOISE**2 * np.eye(len(x)), k_tr.T).T
    rng = np.random.default_rng(seed)
    draws = rng.multivariate_normal(gain @ y, k_tt - gain @ k_tr.T, size=1000, method="eigh")
    return PosteriorDraws(draws, {})


def particle_posterior(
    make: MakeAlgorithm, steps: int, seed: int, task: SineTask, watch: Watch, *, first: MakeAlgorithm | None = None
) -> PosteriorDraws:
    """Run ``make(task, steps)``, or half of the steps after as many of ``first``, and evaluate f on the grid."""
    key_start, key_run = jax.random.split(jax.random.key(seed))
    phases = [make] if first is None else [first, make]
    particles, done = None, 0
    for phase in phases:
        share = steps // len(phases)
        algorithm = phase(task, share)

        def report(state: State, history: Info, done: int = done) -> None:
            watch(done + int(state.step), steps, float(history.log_likelihood[-1]))

        start = algorithm.init(key_start, PARTICLES, particles)
        finished = run(key_run, algorithm, start, task.data, share, chunk_size=CHUNK, watch=report)
        particles, done = finished.state.particles, done + share
    f = predict(task.network(), gaussian(NOISE, floor=0.0), finished.state, task.scaled_grid).f[..., 0]
    return PosteriorDraws(np.asarray(f), {"steps": steps})


def function_space_ours(
    flow: str, prior: Callable[[Network], FunctionPrior] | None, task: SineTask, steps: int, rate: float = 4e-3
) -> Algorithm:
    """Return function space with our settings: 20 points of a halo, the prior at 16 of all, a wide kernel.

    Without a function prior, the prior is that of the weights.
    """
    network, optimiser = task.network(), decaying_adam(steps, rate)
    return function_space(
        network,
        gaussian(NOISE, floor=0.0),
        flat() if prior is None else prior(network),
        flow=PAPER_FLOWS[flow],
        kernel=median_rbf(factor=2.0),
        measurement=halo(20, reach=2.0, scale=1.0),
        prior_size=16,
        prior_weight=1.0,
        optimiser=optax.chain(on_weights(network), optimiser) if prior is None else optimiser,
    )


def function_space_as_released(flow: str, task: SineTask, steps: int) -> Algorithm:
    r"""Return function space with the settings of the paper's released code.

    All training inputs again, with noise of .1/√N, as extra points; a Gaussian of 400 fresh prior networks at two
    training inputs and two extra points; the plain median heuristic; Adam at a constant 1e-3 from small weights.
    """
    network = task.network(prior_start=False)
    return function_space(
        network,
        gaussian(NOISE, floor=0.0),
        moment_matched(network, draws=400, floor=1e-3),
        flow=PAPER_FLOWS[flow],
        kernel=median_rbf(),
        measurement=noisy_training_inputs(0.1 * task.data.x.size**-0.5),
        prior_size=4,
        prior_weight=1.0,
        optimiser=optax.adam(1e-3),
    )


def weight_space_ours(flow: str, task: SineTask, steps: int, rate: float = 4e-3, kernel: str = "rbf") -> Algorithm:
    """Return weight space; with the flow ``ensemble``, independent MAP fits.

    A kernel of functions or activations evaluates networks where :func:`function_space_ours` compares them.
    """
    return weight_space(
        task.network(),
        gaussian(NOISE, floor=0.0),
        flow=PAPER_FLOWS[flow],
        kernel=PAPER_KERNELS[kernel],
        measurement=halo(20, reach=2.0, scale=1.0),
        optimiser=decaying_adam(steps, rate),
    )


def noisy_training_inputs(bandwidth: float) -> Measurement:
    """Return a sampler that adds the training inputs again, with noise."""

    def draw(key: Key, x: jax.Array) -> jax.Array:
        return jnp.concatenate([x, x + jnp.asarray(bandwidth, x.dtype) * jax.random.normal(key, x.shape, x.dtype)])

    return draw
