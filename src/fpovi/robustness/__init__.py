# SPDX-License-Identifier: Apache-2.0
"""Attack classifiers, and measure what they know about inputs unlike those they were fitted to."""

from fpovi.robustness.attacks import fgsm, iterated_fgsm, pgd, trajectory
from fpovi.robustness.log_probs import LogProbs, Redrawn, attackable
from fpovi.robustness.losses import LOSSES
from fpovi.robustness.uncertainty import ood_scores, uncertainties, under_attack

__all__ = [
    "LOSSES",
    "LogProbs",
    "Redrawn",
    "attackable",
    "fgsm",
    "iterated_fgsm",
    "ood_scores",
    "pgd",
    "trajectory",
    "uncertainties",
    "under_attack",
]
