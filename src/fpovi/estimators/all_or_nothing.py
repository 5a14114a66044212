# SPDX-License-Identifier: Apache-2.0
"""A fit that fails, or is interrupted, leaves the estimator as it was."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def all_or_nothing(model: object) -> Iterator[None]:
    """Give ``model`` back the attributes it came with if what is done inside does not come to its end.

    Attributes are replaced in a fit and never changed in place, so remembering which they were is enough.
    """
    before = dict(vars(model))
    try:
        yield
    except BaseException:
        vars(model).clear()
        vars(model).update(before)
        raise
