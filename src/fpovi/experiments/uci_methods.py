# SPDX-License-Identifier: Apache-2.0
r"""How each method of ``uci`` learns a split: one network and prior for all, the settings of Wang et al. (2019).

Settings that the paper's text leaves open are those of the authors' released code:

- inputs divided by √d_x once standardised; weights and biases N(0, 1/n_out); starts at N(0, 1/(n_in + n_out + 1));
- at every step 100 extra points, training rows plus noise of standard deviation 1/√(N d_x): nearly training inputs;
- a Gaussian of 40 fresh prior networks at 4 of the step's points, eigenvalues at least 1e-3, added with weight 1;
- one noise scale per particle from .5, by MAP with an Adam of its own.

Where we differ, and why it should not show:

- The code takes the first two labelled and the last two extra points for the prior, we two and two at random: the same
  in distribution, as its rows are shuffled.
- The code's extra rows are a slice of the epoch's shuffle: with steps of 100 rows, either the labelled ones or none of
  those. Ours are drawn without regard to them. Any one extra point has the same distribution.
- The code's last batch and last slice of an epoch are short. Ours are full: the batch with rows that weigh nothing in
  the likelihood, but are compared.
- The code halves pi-SGLD and divides GFSF by n: a factor that Adam takes out.
- In weight space we count the change of variables from σ to softplus⁻¹(σ), as a density needs; the code does not.

All splits of a set drawn in the same way have as many rows, so they share one compiled program.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from fpovi.baselines import BASELINES, normal
from fpovi.baselines.reuse import made_once
from fpovi.data.scaling import scale_split
from fpovi.data.uci import Split
from fpovi.flows import FLOWS
from fpovi.inference import function_space, weight_space
from fpovi.kernels import rbf
from fpovi.likelihoods import gaussian
from fpovi.loop import run
from fpovi.networks import fan_out_scales, mlp
from fpovi.predictive import Predictive, predict
from fpovi.priors import moment_matched
from fpovi.types import Algorithm, Batch, Info, Key, Likelihood, Measurement, Network, Recipe, Scalar, State

PARTICLES, RATE = 20, 4e-3
EXTRA, PRIOR_DRAWS, PRIOR_POINTS, FLOOR = 100, 40, 4, 1e-3
NOISE_START = 0.5
LOOKS = 20  # from outside, in the course of a run
LIKELIHOOD = gaussian(start=NOISE_START)
Watch = Callable[[int, int, float], None]


class Task(NamedTuple):
    """A split to learn: with how many hidden units, rows a step and epochs. A Gaussian process sees ``gp_rows``."""

    seed: int
    split: Split
    width: int
    batch_size: int
    epochs: int
    gp_rows: int = normal.MOST_ROWS

    @property
    def steps(self) -> int:
        """Of all epochs together; the last of each may be on fewer rows."""
        return self.epochs * -(-len(self.split.y_train) // self.batch_size)


Method = Callable[[Task, Watch], Predictive]
Learn = Callable[[Key, Network, Batch, Task, Watch], State]


class Surroundings(NamedTuple):
    """Where extra points are drawn: training inputs, and the standard deviation of the noise around them."""

    x: Float[Array, "N d_x"]
    bandwidth: Scalar


def surroundings(data: Batch) -> Surroundings:
    r"""All rows of ``data``, with noise of :math:`1/\sqrt{N d_x}` in every coordinate."""
    return Surroundings(data.x, jnp.asarray(data.x.size**-0.5, data.x.dtype))


def near_rows(size: int, around: Surroundings) -> Measurement:
    """``size`` different training rows (all, if there are fewer) plus noise, beside the labelled ones."""

    def draw(key: Key, labelled: Float[Array, "B_ d_x"]) -> Float[Array, "B d_x"]:
        key_rows, key_noise = jax.random.split(key)
        rank = jax.random.uniform(key_rows, around.x.shape[:1], jnp.float32)
        _, rows = jax.lax.top_k(rank, min(size, len(rank)))  # cheaper than to shuffle all of them
        noise = jax.random.normal(key_noise, (len(rows), labelled.shape[1]), labelled.dtype)
        return jnp.concatenate([labelled, around.x[rows] + around.bandwidth * noise])

    return draw


@lru_cache
def network_of(inputs: int, width: int) -> Network:
    """The same object for the same sizes, so that programs made for it are found again."""
    sizes = (inputs, width, 1)
    return mlp(sizes, scales=fan_out_scales(sizes), prior_start=False)


@made_once
def in_functions(network: Network, likelihood: Likelihood, flow: str) -> Callable[[Surroundings], Algorithm]:
    """Function space, open to the split's inputs."""
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
def in_weights(network: Network, likelihood: Likelihood, flow: str) -> Algorithm:
    """Weight space; with the flow ``ensemble``, nothing but the members' own climb."""
    return weight_space(network, likelihood, flow=FLOWS[flow], kernel=rbf(), optimiser=optax.adam(RATE))


def _function_space(flow: str) -> Method:
    def learn(key: Key, network: Network, data: Batch, task: Task, watch: Watch) -> State:
        recipe = Recipe(in_functions(network, LIKELIHOOD, flow), surroundings(data))
        return _take_steps(key, recipe, data, task, watch)

    return _networks(learn)


def _weight_space(flow: str) -> Method:
    def learn(key: Key, network: Network, data: Batch, task: Task, watch: Watch) -> State:
        return _take_steps(key, in_weights(network, LIKELIHOOD, flow), data, task, watch)

    return _networks(learn)


def _baseline(name: str) -> Method:
    """With its own optimiser, and as many steps as the others."""

    def learn(key: Key, network: Network, data: Batch, task: Task, watch: Watch) -> State:
        return BASELINES[name](
            key, network, LIKELIHOOD, data, num_steps=task.steps, n=PARTICLES, batch_size=task.batch_size,
            watch=_told(task, watch),
        )  # fmt: skip

    return _networks(learn)


def _gaussian_process(task: Task, watch: Watch) -> Predictive:
    method = partial(normal.gaussian_process, most_rows=task.gp_rows)
    return normal.answer(method, task.seed, task.split.x_train, task.split.y_train, task.split.x_test)


def _networks(learn: Learn) -> Method:
    """From a split to what the networks that learned it say of its test rows, in the target's own units."""

    def method(task: Task, watch: Watch) -> Predictive:
        scaled = scale_split(task.split, unit_norm=True)
        network = network_of(scaled.train.x.shape[1], task.width)
        state = learn(jax.random.key(task.seed), network, scaled.train, task, watch)
        return predict(network, LIKELIHOOD, state, scaled.x_test, *scaled.target)

    return method


def _take_steps(key: Key, algorithm: Algorithm | Recipe, data: Batch, task: Task, watch: Watch) -> State:
    key_start, key_run = jax.random.split(key)
    whole = algorithm.algorithm if isinstance(algorithm, Recipe) else algorithm
    return run(
        key_run, algorithm, whole.init(key_start, PARTICLES), data, task.steps,
        batch_size=task.batch_size, chunk_size=max(task.steps // LOOKS, 1), watch=_told(task, watch),
    ).state  # fmt: skip


def _told(task: Task, watch: Watch) -> Callable[[State, Info], None]:
    return lambda state, history: watch(int(state.step), task.steps, float(history.log_likelihood[-1]))


METHODS: dict[str, Method] = {
    "f-svgd": _function_space("svgd"),
    "f-w-sgld-b": _function_space("w_sgld_b"),
    "f-pi-sgld": _function_space("pi_sgld"),
    "f-gfsf": _function_space("gfsf"),
    "w-svgd": _weight_space("svgd"),
    "w-w-sgld-b": _weight_space("w_sgld_b"),
    "w-pi-sgld": _weight_space("pi_sgld"),
    "w-gfsf": _weight_space("gfsf"),
    "ensemble": _weight_space("ensemble"),
    "mc-dropout": _baseline("mc_dropout"),
    "bbb": _baseline("bayes_by_backprop"),
    "sghmc": _baseline("sghmc"),
    "gp": _gaussian_process,
}
