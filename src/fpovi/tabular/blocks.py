# SPDX-License-Identifier: Apache-2.0
"""Encode and predict long tables in bounded memory: encoded chunk by chunk, predicted in blocks of one size."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Float

from fpovi.tabular import ArrayEncoder, Encoder

BLOCK = 1024  # rows predicted at once: always as many, so that a prediction does not depend on the other rows
CHUNK = 16 * BLOCK  # rows encoded at once: enough that what pandas does per column does not count


def row_blocks(x: Float[np.ndarray, "N *d_x"]) -> Iterator[tuple[Float[np.ndarray, "B *d_x"], int]]:
    """Yield encoded rows in float32, ``BLOCK`` at a time, the last ones padded with zeros, and how many are no padding.

    All blocks have one shape and therefore one compiled program: a row's prediction does not depend on the other rows.

    >>> [(block.shape, count) for block, count in row_blocks(np.ones((1500, 2)))]
    [((1024, 2), 1024), ((1024, 2), 476)]
    """
    for first in range(0, len(x), BLOCK):
        block = np.asarray(x[first : first + BLOCK], np.float32)
        yield np.pad(block, ((0, BLOCK - len(block)), *((0, 0),) * (x.ndim - 1))), len(block)


def encoded_chunks(encoder: Encoder | ArrayEncoder, table: Any, unknown: str) -> Iterator[Float[np.ndarray, "N *d_x"]]:
    """Yield the encoded rows of a table, ``CHUNK`` at a time. Errors are those of encoding the whole table at once."""
    rows = table.iloc if hasattr(table, "iloc") else table
    for first in range(0, max(table.shape[0], 1), CHUNK):
        try:
            chunk = encoder(rows[first : first + CHUNK], unknown=unknown)
        except ValueError:
            # of several faults the one in the first column is named, and it may be in a later chunk
            yield encoder(table, unknown=unknown)[first:]
            return
        yield chunk
