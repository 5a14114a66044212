# SPDX-License-Identifier: Apache-2.0
"""Turn tables of any columns into arrays for networks, and predictions into tables.

A CSV file becomes numbers in three steps: ``files.read_table`` makes it a data frame, ``learn_encoder`` learns from the
training rows what to do with each column, and the :class:`Encoder` turns rows into an array.
"""

from fpovi.tabular.arrays import ArrayEncoder, learn_arrays
from fpovi.tabular.encoder import Encoder, learn_encoder
from fpovi.tabular.frame import Columns, align
from fpovi.tabular.standardise import Standardiser, learn_target, standardiser
from fpovi.tabular.weights import merge_rows

__all__ = [
    "ArrayEncoder",
    "Columns",
    "Encoder",
    "Standardiser",
    "align",
    "learn_arrays",
    "learn_encoder",
    "learn_target",
    "merge_rows",
    "standardiser",
]
