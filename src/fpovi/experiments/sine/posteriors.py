# SPDX-License-Identifier: Apache-2.0
"""Posteriors of the one-dimensional sine data as draws of f on a grid: exact ones, and what particles make of them.

Inputs and targets are standardised; the noise is known. Where a setting is not the paper's, it is ours and says so.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from fpovi.baselines.nuts import nuts
from fpovi.datasets.sine import sine
from fpovi.experiments.harness.experiment import Watch
from fpovi.flows import FLOWS
from fpovi.inference import function_space, weight_space
from fpovi.inference.batches import make_batch
from fpovi.inference.loop import run
from fpovi.inference.particles import forward
from fpovi.kernels import KERNELS, median_lengthscale, rbf
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
Found = tuple[Draws, dict[str, Any]]


class Problem(NamedTuple):
    """The data and the model that all methods share, and the inputs where posteriors are compared."""

    data: Batch
    x_scaling: Standardiser
    y_scaling: Standardiser
    sizes: tuple[int, ...]
    asked: NDArray[np.float64]

    @property
    def grid(self) -> jax.Array:
        """The inputs where posteriors are compared, standardised."""
        return jnp.asarray(self.x_scaling(self.asked[:, None]), self.data.x.dtype)

    def network(self, **options: Any) -> Network:
        """The network, with the paper's prior N(0, 1/n_out)."""
        return mlp(self.sizes, scales=fan_out_scales(self.sizes), **options)


def problem(seed: int, hidden: tuple[int, ...] = HIDDEN, asked: NDArray[np.float64] = GRID) -> Problem:
    """Sine data drawn with ``seed``, standardised."""
    x, y = (column[:, None] for column in sine(seed))
    x_scaling, y_scaling = standardiser(x), standardiser(y)
    return Problem(make_batch(x_scaling(x), y_scaling(y)), x_scaling, y_scaling, (1, *hidden, 1), asked)


def nuts_posterior(
    seed: int, problem: Problem, watch: Watch, *, rhat_limit: float = 1.01, chains: int = 4, warmup: int = 300,
    draws: int = 500,
) -> Found:  # fmt: skip
    """The ground truth: several chains on the weights, R̂ of the function at every grid point."""
    network = problem.network(unit_weights=True)
    found = nuts(
        jax.random.key(seed), network, gaussian(NOISE), problem.data, chains=chains, warmup=warmup, draws=draws
    )
    values = jax.vmap(lambda theta: forward(network, theta, (), problem.grid)[0][..., 0])
    f = values(found.theta)  # (chains, draws, G)
    rhat = float(jnp.max(blackjax.rhat(f)))
    if rhat > rhat_limit:
        raise ArithmeticError(f"NUTS did not converge: R̂ = {rhat:.3f} > {rhat_limit}; give it more draws")
    facts = {"rhat": rhat, "ess": float(jnp.min(blackjax.ess(f))), "divergent": int(jnp.sum(found.divergent))}
    return np.asarray(f).reshape(-1, problem.asked.size), facts


def gp_posterior(seed: int, problem: Problem, watch: Watch) -> Found:
    """The exact posterior under the network's infinite-width prior: what a Gaussian prior can reach at best."""
    architecture = problem.network().architecture
    assert architecture is not None
    with jax.enable_x64(True):
        covariance = nngp_covariance(architecture)
        x, y, grid = (np.asarray(a, np.float64) for a in (problem.data.x, problem.data.y[:, 0], problem.grid))
        k_rr, k_tr, k_tt = (
            np.asarray(covariance(jnp.asarray(a), jnp.asarray(b))) for a, b in ((x, x), (grid, x), (grid, grid))
        )
    gain = np.linalg.solve(k_rr + NOISE**2 * np.eye(len(x)), k_tr.T).T
    rng = np.random.default_rng(seed)
    return rng.multivariate_normal(gain @ y, k_tt - gain @ k_tr.T, size=1000, method="eigh"), {}


def particle_posterior(
    make: Callable[[Problem, int], Algorithm],
    steps: int,
    seed: int,
    problem: Problem,
    watch: Watch,
    *,
    first: Callable[[Problem, int], Algorithm] | None = None,
) -> Found:
    """Take the steps of ``make(problem, steps)``, or half of them after as many of ``first``; f on the grid."""
    key_start, key_run = jax.random.split(jax.random.key(seed))
    phases = [make] if first is None else [first, make]
    particles, done = None, 0
    for phase in phases:
        share = steps // len(phases)
        algorithm = phase(problem, share)

        def look(state: State, history: Info, done: int = done) -> None:
            watch(done + int(state.step), steps, float(history.log_likelihood[-1]))

        start = algorithm.init(key_start, PARTICLES, particles)
        finished = run(key_run, algorithm, start, problem.data, share, chunk_size=CHUNK, watch=look)
        particles, done = finished.state.particles, done + share
    f = predict(problem.network(), gaussian(NOISE), finished.state, problem.grid).f[..., 0]
    return np.asarray(f), {"similarity": float(finished.history.similarity[-1]), "steps": steps}


def in_functions(
    flow: str, prior: Callable[[Network], FunctionPrior] | None, problem: Problem, steps: int, rate: float = 4e-3
) -> Algorithm:
    """Function space as we would have it: 20 points of a halo, the prior at 16 of all, a wide kernel.

    With no function prior it is that of the weights.
    """
    network, optimiser = problem.network(), _decaying_adam(rate, steps)
    return function_space(
        network,
        gaussian(NOISE),
        flat() if prior is None else prior(network),
        flow=FLOWS[flow],
        kernel=rbf(partial(median_lengthscale, factor=2.0)),
        measurement=halo(20),
        prior_size=16,
        optimiser=optax.chain(on_weights(network), optimiser) if prior is None else optimiser,
    )


def as_released(flow: str, problem: Problem, steps: int) -> Algorithm:
    r"""Function space with the settings of the paper's released code.

    All training inputs again, with noise of .1/√N, as extra points; a Gaussian of 400 fresh prior networks at two
    training inputs and two extra points; the plain median heuristic; Adam at a constant 1e-3 from small weights.
    """
    network = problem.network(prior_start=False)
    return function_space(
        network,
        gaussian(NOISE),
        moment_matched(network, draws=400, floor=1e-3),
        flow=FLOWS[flow],
        kernel=rbf(),
        measurement=_training_inputs_again(0.1 * problem.data.x.size**-0.5),
        prior_size=4,
        optimiser=optax.adam(1e-3),
    )


def in_weights(flow: str, problem: Problem, steps: int, rate: float = 4e-3, kernel: str = "rbf") -> Algorithm:
    """Weight space; with the flow ``ensemble``, independent MAP fits.

    A kernel that looks at functions or activations does so where :func:`in_functions` compares.
    """
    compare: Any = KERNELS[kernel]
    return weight_space(
        problem.network(),
        gaussian(NOISE),
        flow=FLOWS[flow],
        kernel=compare(),
        measurement=halo(20),
        optimiser=_decaying_adam(rate, steps),
    )


def _training_inputs_again(bandwidth: float) -> Measurement:
    def draw(key: Key, x: jax.Array) -> jax.Array:
        return jnp.concatenate([x, x + jnp.asarray(bandwidth, x.dtype) * jax.random.normal(key, x.shape, x.dtype)])

    return draw


def _decaying_adam(rate: float, steps: int) -> optax.GradientTransformation:
    return optax.adam(optax.cosine_decay_schedule(rate, steps))
