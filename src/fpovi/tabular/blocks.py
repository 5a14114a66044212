# SPDX-License-Identifier: Apache-2.0
"""Any number of rows in the memory of a few: a table is encoded slab by slab, and particles see blocks of one size."""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from fpovi.predictive import Predictive
from fpovi.tabular import Encoder

BLOCK = 1024  # rows of one prediction: always as many, so that a row's answer does not depend on its company
SLAB = 16 * BLOCK  # rows encoded at once: enough that what pandas does per column does not count


def blocks(x: Float[np.ndarray, "N d"]) -> Iterator[tuple[Float[np.ndarray, "B d"], int]]:
    """Rows in float32, ``BLOCK`` at a time, and how many of them are no padding.

    >>> [(block.shape, count) for block, count in blocks(np.ones((1500, 2)))]
    [((1024, 2), 1024), ((1024, 2), 476)]
    """
    for first in range(0, len(x), BLOCK):
        block = np.asarray(x[first : first + BLOCK], np.float32)
        yield np.pad(block, ((0, BLOCK - len(block)), (0, 0))), len(block)


def slabs(encoder: Encoder, table: Any, unknown: str) -> Iterator[Float[np.ndarray, "N d"]]:
    """The rows of a table encoded, ``SLAB`` at a time; what is wrong is said as of the whole table."""
    rows = table.iloc if hasattr(table, "iloc") else table
    for first in range(0, max(table.shape[0], 1), SLAB):
        try:
            slab = encoder(rows[first : first + SLAB], unknown=unknown)
        except ValueError:
            # of several faults it is the first column's that is named, and which column that is, only all rows say
            yield encoder(table, unknown=unknown)[first:]
            return
        yield slab


@jax.jit
def mean_and_std(predictive: Predictive) -> tuple[Float[Array, "B m"], Float[Array, "B m"]]:
    """Of numbers, in one program."""
    return predictive.mean, predictive.std


@jax.jit
def probabilities(predictive: Predictive) -> Float[Array, "B k"]:
    """Of classes."""
    return predictive.probs
