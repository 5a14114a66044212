# SPDX-License-Identifier: Apache-2.0
"""How a cell tells how far it is: ``watch(done, total, score)``, now and then while it runs."""

from collections.abc import Callable

Watch = Callable[[int, int, float], None]


def silent(done: int, total: int, score: float) -> None:
    """For those who do not look."""
