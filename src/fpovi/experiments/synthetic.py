# SPDX-License-Identifier: Apache-2.0
"""``synthetic``: the paper's one-dimensional sine data, every method against NUTS.

The question is how close the marginals of f are to the exact posterior's, on the data, in their gap and outside.
Distances and spreads are in standardised y. A method is judged by 50 functions; one that can give more (NUTS, a
Gaussian process) by the mean over random fifties, so that NUTS itself shows what 50 independent draws can reach.
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
from fpovi.batches import make_batch
from fpovi.data.sine import sine
from fpovi.experiments.distances import quantiles, wasserstein2
from fpovi.experiments.store import Cell
from fpovi.flows import ensemble
from fpovi.inference import Algorithm, function_space, weight_space
from fpovi.likelihoods import gaussian
from fpovi.loop import run
from fpovi.measurement import kde
from fpovi.networks import fan_out_scales, mlp
from fpovi.particles import forward
from fpovi.preprocessing import Standardiser, standardiser
from fpovi.priors import moment_matched, nngp, nngp_covariance, width_aware
from fpovi.types import Batch, Network, lookup

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
CURVES = 12
RHAT_LIMIT = 1.01

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


def f_svgd(problem: Problem) -> Algorithm:
    """Function space with the prior of the finite network and measurement points around the data."""
    network = problem.network(prior_start=False)
    return _function_space(network, width_aware(network))


def f_svgd_nngp(problem: Problem) -> Algorithm:
    """The same with the Gaussian prior of the infinite network."""
    network = problem.network(prior_start=False)
    return _function_space(network, nngp(network))


def _function_space(network: Network, prior: Any) -> Algorithm:
    return function_space(
        network, gaussian(NOISE), prior, measurement=kde(20, 1.0), prior_size=8, optimiser=_decaying_adam(4e-3)
    )


def _decaying_adam(rate: float) -> optax.GradientTransformation:
    return optax.adam(optax.cosine_decay_schedule(rate, STEPS))


def f_svgd_paper(problem: Problem) -> Algorithm:
    """Function space as in the paper's own code: a measurement set that hardly leaves the training inputs."""
    network = problem.network(prior_start=False)
    return function_space(
        network,
        gaussian(NOISE),
        moment_matched(network, draws=400),
        measurement=kde(20, 0.1 / 20**0.5),
        prior_size=4,
        optimiser=optax.adam(1e-3),
    )


def w_svgd(problem: Problem) -> Algorithm:
    """Weight-space SVGD."""
    return weight_space(problem.network(prior_start=False), gaussian(NOISE), optimiser=_decaying_adam(4e-3))


def map_ensemble(problem: Problem) -> Algorithm:
    """Independent MAP fits."""
    return weight_space(
        problem.network(prior_start=False), gaussian(NOISE), flow=ensemble, optimiser=_decaying_adam(4e-3)
    )


ALGORITHMS: dict[str, Callable[[Problem], Algorithm]] = {
    "f_svgd": f_svgd,
    "f_svgd_nngp": f_svgd_nngp,
    "f_svgd_paper": f_svgd_paper,
    "w_svgd": w_svgd,
    "map_ensemble": map_ensemble,
}
