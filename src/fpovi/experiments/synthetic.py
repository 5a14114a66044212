# SPDX-License-Identifier: Apache-2.0
"""``synthetic``: the paper's one-dimensional sine data, every method against NUTS.

The question is how close the marginals of f are to the exact posterior's, on the data, in their gap and outside.
Distances and spreads are in standardised y. A method is judged by 50 functions; one that can give more (NUTS, a
Gaussian process) by the mean over random fifties, so that NUTS itself shows what 50 independent draws can reach.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from fpovi.baselines.nuts import nuts
from fpovi.batches import make_batch
from fpovi.data.sine import sine
from fpovi.experiments.distances import quantiles, wasserstein2
from fpovi.experiments.store import Cell, Row
from fpovi.flows import ensemble
from fpovi.inference import function_space, weight_space
from fpovi.kernels import median_lengthscale, rbf
from fpovi.likelihoods import gaussian
from fpovi.loop import run
from fpovi.measurement import halo
from fpovi.networks import fan_out_scales, mlp
from fpovi.particles import forward
from fpovi.predictive import predict
from fpovi.preprocessing import Standardiser, standardiser
from fpovi.priors import nngp, nngp_covariance, width_aware
from fpovi.types import Algorithm, Batch, FunctionPrior, Info, Network, State, lookup

SEED = 3
NOISE = 0.2
PARTICLES = 50
HIDDEN = (50, 50)
STEPS = 2000
GRID = np.linspace(-0.5, 1.5, 200)
REGIONS = {
    "all": np.ones_like(GRID, bool),
    "data": (GRID > 0) & (GRID < 0.6),
    "gap": (GRID > 0.6) & (GRID < 0.8),
    "outside": (GRID < 0) | (GRID > 1),
}
FIFTIES = 20
CURVES = 8
RHAT_LIMIT = 1.01
CHUNK = 100

Draws = NDArray[np.floating]
Watch = Callable[[int, int, float], None]


class Problem(NamedTuple):
    """The data and the model that all methods share."""

    data: Batch
    x_scaling: Standardiser
    y_scaling: Standardiser
    sizes: tuple[int, ...]

    @property
    def grid(self) -> jax.Array:
        """The inputs where posteriors are compared, standardised."""
        return jnp.asarray(self.x_scaling(GRID[:, None]), self.data.x.dtype)

    def network(self, **options: Any) -> Network:
        """The network, with the paper's prior N(0, 1/n_out)."""
        return mlp(self.sizes, scales=fan_out_scales(self.sizes), **options)


def problem(seed: int, hidden: tuple[int, ...] = HIDDEN) -> Problem:
    """Sine data drawn with ``seed``, standardised."""
    x, y = (column[:, None] for column in sine(seed))
    x_scaling, y_scaling = standardiser(x), standardiser(y)
    return Problem(make_batch(x_scaling(x), y_scaling(y)), x_scaling, y_scaling, (1, *hidden, 1))


def nuts_posterior(seed: int, problem: Problem, watch: Watch) -> tuple[Draws, dict[str, Any]]:
    """The ground truth: four chains on the weights, R̂ of the function at every grid point."""
    network = problem.network(unit_weights=True)
    draws = nuts(jax.random.key(seed), network, gaussian(NOISE), problem.data, warmup=300, draws=500)
    values = jax.vmap(lambda theta: forward(network, theta, (), problem.grid)[0][..., 0])
    f = values(draws.theta)  # (chains, draws, G)
    rhat = float(jnp.max(blackjax.rhat(f)))
    if rhat > RHAT_LIMIT:
        raise ArithmeticError(f"NUTS did not converge: R̂ = {rhat:.3f} > {RHAT_LIMIT}; give it more draws")
    facts = {"rhat": rhat, "ess": float(jnp.min(blackjax.ess(f))), "divergent": int(jnp.sum(draws.divergent))}
    return np.asarray(f).reshape(-1, GRID.size), facts


def gp_posterior(seed: int, problem: Problem, watch: Watch) -> tuple[Draws, dict[str, Any]]:
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


def _particles(
    make: Callable[[Problem], Algorithm], seed: int, problem: Problem, watch: Watch
) -> tuple[Draws, dict[str, Any]]:
    """Run a particle algorithm and look at its functions on the grid."""
    algorithm, key = make(problem), jax.random.key(seed)
    key_start, key_run = jax.random.split(key)

    def look(state: State, history: Info) -> None:
        watch(int(state.step), STEPS, float(history.log_likelihood[-1]))

    finished = run(
        key_run, algorithm, algorithm.init(key_start, PARTICLES), problem.data, STEPS, chunk_size=CHUNK, watch=look
    )
    f = predict(problem.network(), gaussian(NOISE), finished.state, problem.grid).f[..., 0]
    facts = {"similarity": float(finished.history.similarity[-1]), "steps": STEPS}
    return np.asarray(f), facts


def f_svgd(problem: Problem) -> Algorithm:
    """Function space, with the prior of the network at its real width."""
    return _default_function_space(problem, width_aware(problem.network()))


def f_svgd_nngp(problem: Problem) -> Algorithm:
    """The same with the Gaussian prior of the infinitely wide network."""
    return _default_function_space(problem, nngp(problem.network()))


def _default_function_space(problem: Problem, prior: FunctionPrior) -> Algorithm:
    return function_space(
        problem.network(),
        gaussian(NOISE),
        prior,
        kernel=rbf(partial(median_lengthscale, factor=2.0)),
        measurement=halo(20),
        prior_size=16,
        optimiser=_decaying_adam(),
    )


def w_svgd(problem: Problem) -> Algorithm:
    """Weight-space SVGD."""
    return weight_space(problem.network(), gaussian(NOISE), optimiser=_decaying_adam())


def map_ensemble(problem: Problem) -> Algorithm:
    """Independent MAP fits."""
    return weight_space(problem.network(), gaussian(NOISE), flow=ensemble, optimiser=_decaying_adam())


def _decaying_adam() -> optax.GradientTransformation:
    return optax.adam(optax.cosine_decay_schedule(4e-3, STEPS))


ALGORITHMS: dict[str, Callable[[Problem], Algorithm]] = {
    "f_svgd": f_svgd,
    "f_svgd_nngp": f_svgd_nngp,
    "w_svgd": w_svgd,
    "map_ensemble": map_ensemble,
}
POSTERIORS: dict[str, Callable[[int, Problem, Watch], tuple[Draws, dict[str, Any]]]] = {
    "nuts": nuts_posterior,
    "gp": gp_posterior,
    **{name: partial(_particles, make) for name, make in ALGORITHMS.items()},
}
PRESETS = {"quick": tuple(POSTERIORS)}
LABELS = {
    "nuts": "NUTS, 50 draws",
    "gp": "exact GP, 50 draws",
    "f_svgd": "f-SVGD",
    "f_svgd_nngp": "f-SVGD, Gaussian prior",
    "w_svgd": "weight-space SVGD",
    "map_ensemble": "MAP ensemble",
}


def cells(preset: str = "quick", seed: int = SEED) -> list[Cell]:
    """The cells of a preset, the reference first."""
    methods = lookup(PRESETS, preset, "preset")
    return [Cell("synthetic", method, dataset="sine", seed=seed, preset=preset) for method in methods]


def reference_of(cell: Cell) -> Cell:
    """The cell that ``cell`` is measured against."""
    return replace(cell, method="nuts")


def run_cell(cell: Cell, reference: Row | None, watch: Watch = lambda done, total, score: None) -> dict[str, Any]:
    """The numbers of one cell; all but ``nuts`` need the row of ``nuts`` as ``reference``."""
    draws, facts = lookup(POSTERIORS, cell.method, "method")(cell.seed, problem(cell.seed), watch)
    whole = quantiles(draws)
    truth = whole if reference is None else np.asarray(reference.metrics["quantiles"])
    fifties = _fifties(draws, cell.seed)
    distance = np.mean([wasserstein2(quantiles(some), truth) for some in fifties], axis=0)
    spread, true_spread = np.std(whole, axis=0), np.std(truth, axis=0)
    metrics = {
        "w2": {region: float(distance[where].mean()) for region, where in REGIONS.items()},
        "spread": {region: float(spread[where].mean()) for region, where in REGIONS.items()},
        "spread_ratio": {
            region: float(np.mean(spread[where] / true_spread[where])) for region, where in REGIONS.items()
        },
        "mean": _rounded(draws.mean(axis=0)),
        "band": [_rounded(row) for row in np.quantile(draws, (0.025, 0.975), axis=0)],
        "curves": [_rounded(row) for row in draws[:: max(1, len(draws) // CURVES)][:CURVES]],
        **facts,
    }
    return metrics if reference is not None else {**metrics, "quantiles": [_rounded(row) for row in whole]}


def _fifties(draws: Draws, seed: int) -> list[Draws]:
    if len(draws) == PARTICLES:
        return [draws]
    rng = np.random.default_rng(seed)
    return [draws[rng.choice(len(draws), PARTICLES, replace=False)] for _ in range(FIFTIES)]


def _rounded(row: Draws) -> list[float]:
    return [round(float(value), 3) for value in row]
