# SPDX-License-Identifier: Apache-2.0
"""Decisions under uncertainty: problems, agents, and the loop that lets an agent play a problem."""

from fpovi.bandits.agent import Agent, load
from fpovi.bandits.environments import Environment, Rewards, Stream, draw, mushroom, table, wheel
from fpovi.bandits.method import Method
from fpovi.bandits.methods import AGENTS
from fpovi.bandits.policy import Decision
from fpovi.bandits.runner import Played, play, regrets, relative_regret, uniform_regrets

__all__ = [
    "AGENTS",
    "Agent",
    "Decision",
    "Environment",
    "Method",
    "Played",
    "Rewards",
    "Stream",
    "draw",
    "load",
    "mushroom",
    "play",
    "regrets",
    "relative_regret",
    "table",
    "uniform_regrets",
    "wheel",
]
