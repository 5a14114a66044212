# SPDX-License-Identifier: Apache-2.0
"""Between a table in its own units and the arrays that networks like."""

from fpovi.preprocessing.encoder import Encoder, learn_encoder
from fpovi.preprocessing.rows import merge_rows
from fpovi.preprocessing.standardise import Standardiser, learn_target, standardiser
from fpovi.preprocessing.table import Columns, align

__all__ = [
    "Columns",
    "Encoder",
    "Standardiser",
    "align",
    "learn_encoder",
    "learn_target",
    "merge_rows",
    "standardiser",
]
