# SPDX-License-Identifier: Apache-2.0
"""What a fitted model says: of itself, of new rows as columns of a table, and of held-out rows in pictures."""

from fpovi.report.held_out import figures
from fpovi.report.model_file import describe
from fpovi.report.predictions import prediction_columns

__all__ = ["describe", "figures", "prediction_columns"]
