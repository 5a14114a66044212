# SPDX-License-Identifier: Apache-2.0
"""Plain JSON read back: nothing is taken on trust, and whatever is wrong is a ``ValueError``."""

import math
from reprlib import Repr
from typing import Any

_brief = Repr()
_brief.maxstring = _brief.maxother = 60


def short(value: Any) -> str:
    """``value`` as messages show it: cut short, so that a huge one does not flood them."""
    return _brief.repr(value)


def record(value: Any, where: str, keys: set[str]) -> dict[str, Any]:
    """``value`` if it is an object with exactly these ``keys``."""
    if not isinstance(value, dict) or value.keys() != keys:
        raise ValueError(f"{where} must be an object with {', '.join(sorted(keys))}, not {short(value)}")
    return value


def items(value: Any, where: str) -> list[Any]:
    """``value`` if it is a list."""
    if not isinstance(value, list):
        raise ValueError(f"{where} must be a list, not {short(value)}")
    return value


def text(value: Any, where: str) -> str:
    """``value`` if it is a string."""
    if not isinstance(value, str):
        raise ValueError(f"{where} must be a string, not {short(value)}")
    return value


def flag(value: Any, where: str) -> bool:
    """``value`` if it is true or false."""
    if not isinstance(value, bool):
        raise ValueError(f"{where} must be true or false, not {short(value)}")
    return value


def number(value: Any, where: str) -> float:
    """``value`` if it is a finite number; other writers may leave out the point of 1.0."""
    whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**1023
    if not whole and not (isinstance(value, float) and math.isfinite(value)):
        raise ValueError(f"{where} must be a finite number, not {short(value)}")
    return float(value)


def numbers(value: Any, where: str) -> tuple[float, ...]:
    """``value`` if it is a list of finite numbers."""
    return tuple(number(item, where) for item in items(value, where))


def distinct_texts(value: Any, where: str) -> tuple[str, ...]:
    """``value`` if it is a list of strings, none of them twice."""
    texts = tuple(text(item, where) for item in items(value, where))
    if len(set(texts)) < len(texts):
        raise ValueError(f"{where} must not hold the same string twice")
    return texts
