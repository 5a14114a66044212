# SPDX-License-Identifier: Apache-2.0
"""Methods of learning from rewards, by name."""

from collections.abc import Callable

import jax.numpy as jnp

from fpovi.bandits.method import Method
from fpovi.bandits.methods.bootstrap import bootstrap
from fpovi.bandits.methods.gaussian_process import gaussian_process
from fpovi.bandits.methods.linear import linear, neural_linear
from fpovi.bandits.methods.particles import function_space, greedy, weight_space
from fpovi.bandits.methods.variational import bayes_by_backprop, mc_dropout


def uniform(*, rewards: str = "gaussian") -> Method:
    """Return a method that chooses every arm with the same probability and learns nothing.

    Args:
        rewards: of no meaning here.
    """
    zeros = lambda model, x: jnp.zeros((1, x.shape[0], model.shape[0]))  # noqa: E731
    return Method(lambda key, inputs, arms: jnp.zeros(arms), lambda model, lesson: model, zeros, by_functions=False)


AGENTS: dict[str, Callable[..., Method]] = {
    "function_space": function_space,
    "weight_space": weight_space,
    "bayes_by_backprop": bayes_by_backprop,
    "bootstrap": bootstrap,
    "mc_dropout": mc_dropout,
    "gaussian_process": gaussian_process,
    "linear": linear,
    "neural_linear": neural_linear,
    "greedy": greedy,
    "uniform": uniform,
}

__all__ = ["AGENTS"]
