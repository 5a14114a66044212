# SPDX-License-Identifier: Apache-2.0
"""The agents of the experiment and their settings.

Ours and weight-space SVGD, with the settings of the paper's released code: two hidden layers of 100 units, 20
particles; weights and biases N(0, 10/n_out), in the last layer N(0, 10), starts √10 times N(0, 1/(n_in + n_out + 1));
rewards and contexts as they are, noise .1. A step has 448 rows of the past and 64 other contexts of it with noise of
deviation .1/√(N d); the prior is a Gaussian of 40 fresh prior networks at four of these points, eigenvalues raised to
1e-4, its weight divided by four. Adam with rate 1e-3; after every 50 rewards 2,000 steps, falling to 100 over the first
twenty lessons.

Of the others, the bootstrap has the settings of that code too (20 members, each with 95 % of the rows; RMSprop from .1,
falling in every lesson; 100 steps). Not given there, and chosen here: Bayes by backprop has the prior, noise, steps and
Adam of ours; the Gaussian process is one over contexts and arms, of at most 1,000 random rows; dropout leaves out a
fifth of the units; both linear methods have priors of unit variance and learn their noise.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from fpovi.bandits import AGENTS, Method
from fpovi.experiments.paper_parts import PAPER_FLOWS, median_rbf
from fpovi.priors import moment_matched

NETWORK: dict[str, Any] = {
    "hidden_layer_sizes": (100, 100), "network": "fan_out", "prior_std": 10**0.5, "noise": 0.1, "standardise": False,
    "learning_rate": 1e-3, "every": 50,
}  # fmt: skip
STEPS: dict[str, Any] = {"first_steps": 2000, "steps": 100, "lessons": 20}
FEWER: dict[str, Any] = {"first_steps": 400, "steps": 50, "lessons": 20}  # for the preset quick
PRIOR: dict[str, Any] = {"prior": partial(moment_matched, draws=40, floor=1e-4), "prior_size": 4, "prior_weight": 0.25}

LABELS = {
    "f-svgd": "f-SVGD",
    "f-svgd-best": "f-SVGD, our settings",
    "w-svgd": "SVGD",
    "bbb": "Bayes by backprop",
    "gp": "Gaussian process",
    "bootstrap": "bootstrap (20)",
    "mc-dropout": "MC dropout",
    "neural-linear": "neural-linear",
    "linear": "linear",
    "greedy": "greedy",
}
METHODS: dict[str, Callable[..., Method]] = {
    "f-svgd": partial(
        AGENTS["function_space"], flow=PAPER_FLOWS["svgd"], kernel=median_rbf(), n_particles=20, measurement="history",
        extra=64, reach=0.1, batch_size=448, **PRIOR, **NETWORK,
    ),
    "f-svgd-best": partial(AGENTS["function_space"], every=50),
    "w-svgd": partial(AGENTS["weight_space"], n_particles=20, **NETWORK),
    "bbb": partial(AGENTS["bayes_by_backprop"], **NETWORK),
    "gp": partial(AGENTS["gaussian_process"], most=1000, every=50),
    "bootstrap": partial(AGENTS["bootstrap"], n_particles=20, share=0.95, standardise=False, every=50),
    "mc-dropout": partial(AGENTS["mc_dropout"], left_out=0.2, **NETWORK),
    "neural-linear": partial(AGENTS["neural_linear"], every=50),
    "linear": partial(AGENTS["linear"]),
    "greedy": partial(AGENTS["greedy"], every=50),
}  # fmt: skip
OWN_STEPS = {"gp", "linear", "bootstrap"}  # those whose steps are settings of the method


@lru_cache
def make_method(name: str, quick: bool) -> Method:
    """Return a method, the same object each time.

    Args:
        name: a key of :data:`METHODS`.
        quick: whether networks take fewer steps.
    """
    steps = {} if name in OWN_STEPS or (name == "f-svgd-best" and not quick) else FEWER if quick else STEPS
    return METHODS[name](**steps)
