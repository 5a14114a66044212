# SPDX-License-Identifier: Apache-2.0
"""Other ways to a posterior, on the same networks and likelihoods."""

from fpovi.baselines.nuts import NutsDraws, nuts

__all__ = ["NutsDraws", "nuts"]
