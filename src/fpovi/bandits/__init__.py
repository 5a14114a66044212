# SPDX-License-Identifier: Apache-2.0
"""Decisions under uncertainty: problems, agents, the loop that plays them, and what logs say of other policies."""

from fpovi.bandits.agent import Agent, load
from fpovi.bandits.environments import Environment, Rewards, Stream, draw, mushroom, table, wheel
from fpovi.bandits.logs import Logs, logs_from_frame, make_logs, policy_probabilities
from fpovi.bandits.method import Method
from fpovi.bandits.methods import AGENTS
from fpovi.bandits.off_policy import ESTIMATORS, Estimate, OverlapWarning, estimate_value
from fpovi.bandits.overlap import Overlap, overlap
from fpovi.bandits.policy import Decision
from fpovi.bandits.reward_model import PredictedRewards, cross_fit
from fpovi.bandits.runner import Played, play, regrets, relative_regret, uniform_regrets

__all__ = [
    "AGENTS",
    "ESTIMATORS",
    "Agent",
    "Decision",
    "Environment",
    "Estimate",
    "Logs",
    "Method",
    "Overlap",
    "OverlapWarning",
    "Played",
    "PredictedRewards",
    "Rewards",
    "Stream",
    "cross_fit",
    "draw",
    "estimate_value",
    "load",
    "logs_from_frame",
    "make_logs",
    "mushroom",
    "overlap",
    "play",
    "policy_probabilities",
    "regrets",
    "relative_regret",
    "table",
    "uniform_regrets",
    "wheel",
]
