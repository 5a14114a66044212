# SPDX-License-Identifier: Apache-2.0
"""Methods of learning from rewards, by name."""

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax.numpy as jnp

from fpovi._lookup import lookup
from fpovi.bandits.method import Method
from fpovi.bandits.methods.bootstrap import bootstrap
from fpovi.bandits.methods.gaussian_process import gaussian_process
from fpovi.bandits.methods.linear import linear, neural_linear
from fpovi.bandits.methods.particles import function_space, greedy, weight_space
from fpovi.bandits.methods.variational import bayes_by_backprop, mc_dropout
from fpovi.persistence.plain import canonical


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


def make_method(name: str, rewards: str, options: dict[str, Any]) -> Method:
    """Return the method called ``name``; for options of plain JSON the same object each time, and its programs."""
    lookup(AGENTS, name, "method")
    try:
        return _made(name, rewards, canonical(options).decode())
    except TypeError:  # objects among the options
        return AGENTS[name](rewards=rewards, **options)


@lru_cache(maxsize=256)
def _made(name: str, rewards: str, options: str) -> Method:
    return AGENTS[name](rewards=rewards, **json.loads(options))


__all__ = ["AGENTS", "make_method"]
