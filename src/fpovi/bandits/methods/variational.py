# SPDX-License-Identifier: Apache-2.0
"""One network whose posterior is drawn from after every lesson: Bayes by backprop and MC dropout."""

from typing import Any

import jax
import optax

from fpovi.bandits.memory import Rows
from fpovi.bandits.method import Method
from fpovi.bandits.methods.options import NetworkOptions
from fpovi.bandits.methods.training import Build
from fpovi.baselines.dropout import dropout, thinnings
from fpovi.baselines.mean_field import mean_field, mean_field_draws
from fpovi.types import Key, Network, PyTree


def bayes_by_backprop(*, n_particles: int = 20, **options: Any) -> Method:
    """Return Thompson sampling from a Gaussian posterior of independent weights (Blundell et al. 2015).

    Args:
        n_particles: how many draws decide; they are drawn anew after every lesson.
        options: those of :class:`~fpovi.bandits.methods.options.NetworkOptions`.
    """
    shared = NetworkOptions(**options)
    adam = optax.adam(shared.learning_rate)

    def algorithm(network: Network) -> Build:
        made = mean_field(network, shared.likelihood, adam)
        return lambda numbers: made

    def functions(key: Key, members: PyTree, network: Network, rows: Rows | None) -> PyTree:
        return mean_field_draws(n_particles, key, _only(members))

    return shared.method(algorithm, 1, functions=functions)


def mc_dropout(*, n_particles: int = 20, left_out: float = 0.2, **options: Any) -> Method:
    """Return thinnings of one network trained with dropout as functions (Gal & Ghahramani 2016).

    Args:
        n_particles: how many thinnings decide; they are drawn anew after every lesson.
        left_out: the share of hidden units that are left out.
        options: those of :class:`~fpovi.bandits.methods.options.NetworkOptions`.
    """
    shared = NetworkOptions(**options)
    adam = optax.adam(shared.learning_rate)

    def algorithm(network: Network) -> Build:
        made = dropout(network, shared.likelihood, left_out, adam)
        return lambda numbers: made

    def functions(key: Key, members: PyTree, network: Network, rows: Rows | None) -> PyTree:
        return thinnings(left_out, n_particles, key, _only(members))

    return shared.method(algorithm, 1, functions=functions)


def _only(members: PyTree) -> Any:
    return jax.tree.map(lambda leaf: leaf[0], members)
