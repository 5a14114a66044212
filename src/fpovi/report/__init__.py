# SPDX-License-Identifier: Apache-2.0
"""What a fitted model says of itself.

What it says of new rows, as columns of a table, is in :mod:`fpovi.report.predictions`, and pictures of held-out rows
are in :mod:`fpovi.report.held_out`: imported by themselves, as scikit-learn and matplotlib take long to import.
"""

from fpovi.report.model_file import describe

__all__ = ["describe"]
