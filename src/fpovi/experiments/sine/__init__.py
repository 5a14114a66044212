# SPDX-License-Identifier: Apache-2.0
"""The one-dimensional sine data of the paper, where the exact posterior is known (NUTS)."""

from fpovi.experiments.sine import complexity, synthetic

EXPERIMENTS = {"synthetic": synthetic.EXPERIMENT, "complexity": complexity.EXPERIMENT}
