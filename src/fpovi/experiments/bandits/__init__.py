# SPDX-License-Identifier: Apache-2.0
"""Contextual bandits: what agents lose while they learn, on the paper's two problems and five more."""

from fpovi.experiments.bandits import run

EXPERIMENTS = run.EXPERIMENTS
