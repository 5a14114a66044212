# SPDX-License-Identifier: Apache-2.0
"""Between a table in its own units and the arrays that networks like."""

from fpovi.tabular.encoder import Encoder, learn_encoder
from fpovi.tabular.frame import Columns, align
from fpovi.tabular.merge import merge_rows
from fpovi.tabular.standardise import Standardiser, learn_target, standardiser

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
