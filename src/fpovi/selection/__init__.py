# SPDX-License-Identifier: Apache-2.0
"""What a fit chooses from its own rows: prior scales, noise, steps and rates."""

from fpovi.selection.evidence import evidence, log_evidence
from fpovi.selection.noise import evident_noise

__all__ = ["evidence", "evident_noise", "log_evidence"]
