# SPDX-License-Identifier: Apache-2.0
"""Decide among arms, and ask logs what another policy would have earned."""

from fpovi.bandits.logs import Logs, logs_from_frame, make_logs, policy_probabilities
from fpovi.bandits.off_policy import ESTIMATORS, Estimate, OverlapWarning, estimate_value
from fpovi.bandits.overlap import Overlap, overlap
from fpovi.bandits.reward_model import PredictedRewards, cross_fit

__all__ = [
    "ESTIMATORS",
    "Estimate",
    "Logs",
    "Overlap",
    "OverlapWarning",
    "PredictedRewards",
    "cross_fit",
    "estimate_value",
    "logs_from_frame",
    "make_logs",
    "overlap",
    "policy_probabilities",
]
