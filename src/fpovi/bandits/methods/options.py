# SPDX-License-Identifier: Apache-2.0
"""The options that all methods with networks share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fpovi.bandits.method import Method
from fpovi.bandits.methods.parts import MakeNetwork, likelihood_of, make_network
from fpovi.bandits.methods.training import Build, Plan, Schedule, network_method
from fpovi.types import Likelihood, Network


@dataclass(frozen=True)
class NetworkOptions:
    """Options that all methods with networks share.

    Attributes:
        rewards: "gaussian" or "bernoulli".
        hidden_layer_sizes, activation: of a perceptron with an output per arm.
        network: how its prior is spread over weights, a name in :data:`~fpovi.bandits.methods.parts.NETWORKS`.
        prior_std: how much functions vary under the prior, in standard deviations of rewards: optimism about arms and
            contexts that are not known.
        noise: standard deviation of rewards given context and arm, in the unit they are learned in; None learns it.
        standardise: learn rewards of mean 0 and variance 1, by those seen so far.
        learning_rate: of Adam.
        batch_size: rows of a step.
        first_steps, steps, lessons: steps of the first lesson, and of all after so many of them; falling in between.
        every: new rewards between two lessons.
    """

    rewards: str = "gaussian"
    hidden_layer_sizes: Sequence[int] = (100, 100)
    activation: str = "relu"
    network: str = "fan_in"
    prior_std: float = 3.0
    noise: float | None = None
    standardise: bool = True
    learning_rate: float = 1e-3
    batch_size: int = 512
    first_steps: int = 1000
    steps: int = 50
    lessons: int = 20
    every: int = 50

    @cached_property
    def likelihood(self) -> Likelihood:
        """The likelihood of rewards."""
        return likelihood_of(self.rewards, self.noise)

    @property
    def make_network(self) -> MakeNetwork:
        """What makes the network of so many inputs and arms."""
        hidden = tuple(int(size) for size in self.hidden_layer_sizes)
        if not hidden or min(hidden) < 1:
            raise ValueError(f"hidden_layer_sizes={self.hidden_layer_sizes} must be whole numbers, such as (100, 100)")
        return make_network(self.network, hidden, self.activation, self.prior_std)

    @property
    def schedule(self) -> Schedule:
        """The steps of each lesson."""
        return Schedule(self.first_steps, self.steps, self.lessons)

    def method(self, algorithm: Callable[[Network], Build], members: int, **more: Any) -> Method:
        """Return the method of an algorithm with these options.

        Args:
            algorithm, members: as in :class:`~fpovi.bandits.methods.training.Plan`.
            more: other entries of the plan.
        """
        return network_method(
            Plan(
                network=self.make_network,
                algorithm=algorithm,
                members=members,
                schedule=self.schedule,
                batch_size=self.batch_size,
                every=self.every,
                standardise=self.standardise and self.rewards == "gaussian",
                **more,
            )
        )
