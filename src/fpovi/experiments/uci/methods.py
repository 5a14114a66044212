# SPDX-License-Identifier: Apache-2.0
"""From a split of a UCI set to what a method says of its test rows."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from fpovi.baselines import nuts, regressors
from fpovi.calibration import nll
from fpovi.datasets.scaling import Scaled, scale_split
from fpovi.datasets.uci import Split
from fpovi.experiments.harness.experiment import Watch
from fpovi.experiments.uci import best
from fpovi.experiments.uci.learners import LEARNERS, LIKELIHOOD, Learn, Plan, by_baseline, network_of
from fpovi.inference.particles import forward
from fpovi.inference.step import first_step
from fpovi.networks import fan_out_scales, mlp
from fpovi.predictive import Predictive, predict
from fpovi.types import Info, Network, State

LOOKS = 20  # from outside, in the course of a run; where an epoch is chosen, one every so many epochs instead
EPOCHS_BETWEEN = 20
CHAINS = {"chains": 4, "warmup": 300, "draws": 200}  # of NUTS
KEPT = 200  # draws of all chains that answer
Rows = tuple[NDArray[np.float64], NDArray[np.float64]]


class Task(NamedTuple):
    """A split to learn: with which hidden layers, how many rows a step and epochs. A Gaussian process sees ``gp_rows``.

    ``valid`` are inputs and targets kept from training, by which the last epoch is chosen, if there are any.
    """

    seed: int
    split: Split
    hidden: tuple[int, ...]
    batch_size: int
    epochs: int
    gp_rows: int = regressors.MOST_ROWS
    valid: Rows | None = None

    @property
    def batches(self) -> int:
        """Steps of an epoch; the last may be on fewer rows."""
        return -(-len(self.split.y_train) // self.batch_size)

    @property
    def plan(self) -> Plan:
        """The steps of all epochs."""
        steps = self.epochs * self.batches
        between = max(steps // LOOKS, 1) if self.valid is None else EPOCHS_BETWEEN * self.batches
        return Plan(steps, self.batch_size, between)


class Answer(NamedTuple):
    """What a method says of the test rows, and what else is worth keeping of how it came to that."""

    said: Predictive
    facts: dict[str, Any] = {}  # noqa: RUF012


Method = Callable[[Task, Watch], Answer]


class Lesson(NamedTuple):
    """A network, and a split in the units it learns in."""

    network: Network
    scaled: Scaled

    def answer(self, state: State, x: NDArray[np.float64]) -> Predictive:
        """What the particles of ``state`` say of inputs ``x``, both they and their targets in their own units."""
        inputs = self.scaled.inputs(x).astype(np.float32)
        return predict(self.network, LIKELIHOOD, state, inputs, *self.scaled.target)


def lesson_of(task: Task) -> Lesson:
    """The task's network under the paper's prior, and its split with inputs of unit norm."""
    return Lesson(network_of(task.split.x_train.shape[1], task.hidden), scale_split(task.split, unit_norm=True))


def learn_networks(learn: Learn, task: Task, watch: Watch) -> Predictive:
    """The answer of the networks where the last step leaves them, or where ``valid`` rows were most probable."""
    lesson, steps = lesson_of(task), task.plan.steps
    best: tuple[float, State] | None = None

    def look(state: State, history: Info) -> None:
        nonlocal best
        watch(int(state.step), steps, float(history.log_likelihood[-1]))
        if task.valid is not None:
            x, y = task.valid
            found = nll(lesson.answer(state, x), y)
            best = (found, state) if best is None or found < best[0] else best

    last = learn(jax.random.key(task.seed), lesson.network, lesson.scaled.train, task.plan, look)
    return lesson.answer(last if best is None else best[1], task.split.x_test)


def gaussian_process(task: Task, watch: Watch) -> Predictive:
    """The answer of scikit-learn's."""
    method = partial(regressors.gaussian_process, most_rows=task.gp_rows)
    return regressors.predict_dist(method, task.seed, task.split.x_train, task.split.y_train, task.split.x_test)


def by_nuts(task: Task, watch: Watch) -> Answer:
    """The answer of NUTS on weights and noise, under the same prior; R̂ is of f, over the test rows.

    The chains are short, and their answer counts whatever R̂ is: it is kept to be looked at.
    """
    scaled, sizes = scale_split(task.split, unit_norm=True), (task.split.x_train.shape[1], *task.hidden, 1)
    network = mlp(sizes, scales=fan_out_scales(sizes), unit_weights=True)
    found = nuts(jax.random.key(task.seed), network, LIKELIHOOD, scaled.train, **CHAINS)
    x = jnp.asarray(scaled.x_test)
    rhat = blackjax.rhat(jax.lax.map(lambda theta: forward(network, theta, (), x)[0][..., 0], found.theta))
    kept = np.linspace(0, found.divergent.size - 1, KEPT).astype(int)
    theta, params = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[kept], (found.theta, found.params))
    said = predict(network, LIKELIHOOD, State(first_step(), theta, params, (), (), (), ()), x, *scaled.target)
    of_rhat = {"rhat_median": float(jnp.median(rhat)), "rhat_most": float(jnp.max(rhat))}
    return Answer(said, {**of_rhat, "divergent": int(jnp.sum(found.divergent))})


def _best(task: Task, watch: Watch) -> Answer:
    choice = best.choose(task.seed, task.hidden, task.split, task.plan)
    said = best.answer(choice, task.seed, task.hidden, task.split, task.plan)
    return Answer(said, choice._asdict())


def _only(answer: Callable[[Task, Watch], Predictive], task: Task, watch: Watch) -> Answer:
    return Answer(answer(task, watch))


BASELINES = {"mc-dropout": "mc_dropout", "bbb": "bayes_by_backprop", "sghmc": "sghmc"}
METHODS: dict[str, Method] = {
    "fpovi": _best,
    **{name: partial(_only, partial(learn_networks, learn)) for name, learn in LEARNERS.items()},
    **{name: partial(_only, partial(learn_networks, by_baseline(ours))) for name, ours in BASELINES.items()},
    "gp": partial(_only, gaussian_process),
    "nuts": by_nuts,
}
