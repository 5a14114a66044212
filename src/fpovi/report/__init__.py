# SPDX-License-Identifier: Apache-2.0
"""What a fitted model says: of itself, and of new rows as columns of a table.

Pictures of held-out rows are in :mod:`fpovi.report.held_out`, imported by itself as matplotlib takes long to import.
"""

from fpovi.report.model_file import describe
from fpovi.report.predictions import prediction_columns

__all__ = ["describe", "prediction_columns"]
