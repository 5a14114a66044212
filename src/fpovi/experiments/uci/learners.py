# SPDX-License-Identifier: Apache-2.0
r"""How networks learn in the experiments on UCI sets: the settings of Wang et al. (2019).

Settings that the paper's text leaves open are those of the authors' released code:

- inputs divided by √d_x once standardised; weights and biases N(0, 1/n_out); starts at N(0, 1/(n_in + n_out + 1));
- at every step 100 extra points, training rows plus noise of standard deviation 1/√(N d_x): nearly training inputs;
- a Gaussian of 40 fresh prior networks at 4 of the step's points, eigenvalues at least 1e-3, added with weight 1;
- one noise scale per particle from .5, by MAP with an Adam of its own.

Where we differ, and why it should not show:

- The code takes the first two labelled and the last two extra points for the prior, we two and two at random: the same
  in distribution, as its rows are shuffled.
- The code's extra rows are a slice of the epoch's shuffle: with steps of 100 rows, either the labelled ones or none of
  those. Ours are drawn without regard to them, one of each hundredth of all rows. Any one extra point has the same
  distribution.
- The code's last batch and last slice of an epoch are short. Ours are full: the batch with rows that weigh nothing in
  the likelihood, but are compared.
- The code halves pi-SGLD and divides GFSF by n: a factor that Adam takes out.
- In weight space we count the change of variables from σ to softplus⁻¹(σ), as a density needs; the code does not.

Kernels that look at functions or activations (k_f, k_a) look at the points at which function space compares. The paper
leaves that open and its code has none; so the two spaces differ in nothing else.

All splits of a set drawn in the same way have as many rows, so they share one compiled program.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from fpovi._fast.threefry import normals
from fpovi.baselines import BASELINES
from fpovi.baselines.reuse import made_once
from fpovi.flows import FLOWS
from fpovi.inference import function_space, weight_space
from fpovi.inference.loop import run
from fpovi.kernels import KERNELS, rbf
from fpovi.likelihoods import gaussian
from fpovi.networks import fan_out_scales, mlp
from fpovi.priors import moment_matched
from fpovi.types import (
    Algorithm,
    Batch,
    Info,
    Key,
    Likelihood,
    Measurement,
    Network,
    ParametrisedAlgorithm,
    Scalar,
    State,
)

PARTICLES, RATE = 20, 4e-3
EXTRA, PRIOR_DRAWS, PRIOR_POINTS, FLOOR = 100, 40, 4, 1e-3
NOISE_START = 0.5
LIKELIHOOD = gaussian(start=NOISE_START)


class Plan(NamedTuple):
    """How long to learn: steps in all, rows of each, and steps between two looks from outside."""

    steps: int
    batch_size: int
    between: int


Look = Callable[[State, Info], bool | None]
Learn = Callable[[Key, Network, Batch, Plan, Look], State]


class Surroundings(NamedTuple):
    """Where extra points are drawn: inputs, and the standard deviation of the noise around them."""

    x: Float[Array, "N d_x"]
    bandwidth: Scalar


def surroundings(x: Float[Array, "N d_x"]) -> Surroundings:
    r"""All rows of ``x``, with noise of :math:`1/\sqrt{N d_x}` in every coordinate."""
    return Surroundings(x, jnp.asarray(x.size**-0.5, x.dtype))


def near_rows(size: int, around: Surroundings) -> Measurement:
    """``size`` different rows (all, if there are fewer) plus noise, beside the labelled ones.

    One row of each of ``size`` parts of a circle of all rows, cut at random: none need be shuffled or sorted.
    """
    total = around.x.shape[0]
    cuts = np.arange(min(size, total) + 1) * total // min(size, total)
    first, length = jnp.asarray(cuts[:-1]), jnp.asarray(np.diff(cuts))

    def draw(key: Key, labelled: Float[Array, "B_ d_x"]) -> Float[Array, "B d_x"]:
        key_cut, key_rows, key_noise = jax.random.split(key, 3)
        within = jax.random.randint(key_rows, length.shape, 0, length)
        rows = (jax.random.randint(key_cut, (), 0, total) + first + within) % total
        noise = normals(key_noise, (len(rows), labelled.shape[1]), labelled.dtype)
        return jnp.concatenate([labelled, around.x[rows] + around.bandwidth * noise])

    return draw


@lru_cache
def network_of(inputs: int, hidden: tuple[int, ...]) -> Network:
    """The same object for the same sizes, so that programs made for it are found again."""
    sizes = (inputs, *hidden, 1)
    return mlp(sizes, scales=fan_out_scales(sizes), prior_start=False)


@made_once
def in_functions(network: Network, likelihood: Likelihood, flow: str) -> Callable[[Surroundings], Algorithm]:
    """Function space, open to where extra points are."""
    return lambda around: function_space(
        network,
        likelihood,
        moment_matched(network, draws=PRIOR_DRAWS, floor=FLOOR),
        flow=FLOWS[flow],
        kernel=rbf(),
        measurement=near_rows(EXTRA, around),
        optimiser=optax.adam(RATE),
        noise_optimiser=optax.adam(RATE),
        prior_size=PRIOR_POINTS,
        prior_weight=1.0,
    )


@made_once
def in_weights(network: Network, likelihood: Likelihood, flow: str, kernel: str) -> Callable[[Surroundings], Algorithm]:
    """Weight space; with the flow ``ensemble``, nothing but the members' own climb."""
    compare: Any = KERNELS[kernel]
    return lambda around: weight_space(
        network,
        likelihood,
        flow=FLOWS[flow],
        kernel=compare(),
        measurement=near_rows(EXTRA, around),  # where a kernel looks, if it looks at functions
        optimiser=optax.adam(RATE),
    )


def by_functions(flow: str, around: Surroundings | None = None) -> Learn:
    """In function space, with extra points near the training rows or ``around`` others."""

    def learn(key: Key, network: Network, data: Batch, plan: Plan, look: Look) -> State:
        where = surroundings(data.x) if around is None else around
        return _take_steps(key, ParametrisedAlgorithm(in_functions(network, LIKELIHOOD, flow), where), data, plan, look)

    return learn


def by_weights(flow: str, kernel: str = "rbf") -> Learn:
    """In weight space."""

    def learn(key: Key, network: Network, data: Batch, plan: Plan, look: Look) -> State:
        recipe = ParametrisedAlgorithm(in_weights(network, LIKELIHOOD, flow, kernel), surroundings(data.x))
        return _take_steps(key, recipe, data, plan, look)

    return learn


def by_baseline(name: str) -> Learn:
    """With its own optimiser, and as many steps as the others."""

    def learn(key: Key, network: Network, data: Batch, plan: Plan, look: Look) -> State:
        options = {"num_steps": plan.steps, "n": PARTICLES, "batch_size": plan.batch_size, "watch": look}
        return BASELINES[name](key, network, LIKELIHOOD, data, **options)

    return learn


def _take_steps(key: Key, recipe: ParametrisedAlgorithm, data: Batch, plan: Plan, look: Look) -> State:
    key_start, key_run = jax.random.split(key)
    return run(
        key_run, recipe, recipe.algorithm.init(key_start, PARTICLES), data, plan.steps,
        batch_size=plan.batch_size, chunk_size=plan.between, watch=look,
    ).state  # fmt: skip


# Each look at one of these shows what would be the result, had it been the last.
LEARNERS: dict[str, Learn] = {
    "f-svgd": by_functions("svgd"),
    "f-w-sgld-b": by_functions("w_sgld_b"),
    "f-pi-sgld": by_functions("pi_sgld"),
    "f-gfsf": by_functions("gfsf"),
    "w-svgd": by_weights("svgd"),
    "w-w-sgld-b": by_weights("w_sgld_b"),
    "w-pi-sgld": by_weights("pi_sgld"),
    "w-gfsf": by_weights("gfsf"),
    "w-svgd-kf": by_weights("svgd", "function_value"),
    "w-svgd-ka": by_weights("svgd", "activation"),
    "w-w-sgld-b-kf": by_weights("w_sgld_b", "function_value"),
    "w-w-sgld-b-ka": by_weights("w_sgld_b", "activation"),
    "ensemble": by_weights("ensemble"),
}
