# SPDX-License-Identifier: Apache-2.0
"""Spell plain JSON in one way, and read it back with every part checked."""

import json
import math
from reprlib import Repr
from typing import Any

MAX_DEPTH = 50

_brief = Repr()
_brief.maxstring = _brief.maxother = 60


def canonical(value: Any) -> bytes:
    """Return the one spelling of ``value``: keys sorted, no spaces, UTF-8.

    >>> canonical({"b": [1, 0.5], "a": None})
    b'{"a":null,"b":[1,0.5]}'
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8")


def check_json(value: Any, name: str, depth: int = 0) -> None:
    """Raise a ``ValueError`` that names the first entry of ``value`` that would not come back from JSON as it is.

    Tuples pass, though they come back as lists.

    >>> check_json({"rate": [0.1, float("nan")]}, "header")
    Traceback (most recent call last):
    ValueError: header['rate'][1] is nan, which JSON does not have: keep it in an array
    """
    if depth > MAX_DEPTH:
        raise ValueError(f"{name:.80}… is nested more than {MAX_DEPTH} deep")
    if isinstance(value, dict):
        for key, entry in value.items():
            if not isinstance(key, str):
                raise ValueError(f"{name} has the key {key!r}, but keys of JSON are strings")
            _check_text(key, f"the key {key!r} of {name}")
            check_json(entry, f"{name}[{key!r}]", depth + 1)
    elif isinstance(value, list | tuple):
        for number, entry in enumerate(value):
            check_json(entry, f"{name}[{number}]", depth + 1)
    elif isinstance(value, str):
        _check_text(value, name)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{name} is {value}, which JSON does not have: keep it in an array")
    elif value is not None and not isinstance(value, bool | int | float):
        raise ValueError(
            f"{name} is a {type(value).__name__}, but a header holds dict, list, str, int, float, bool and None"
        )


def _check_text(text: str, name: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(f"{name} has half a surrogate pair, which is no character") from None


def short(value: Any) -> str:
    """Return ``value`` as messages show it: cut short, so that a huge one does not flood them."""
    return _brief.repr(value)


def record(value: Any, where: str, keys: set[str]) -> dict[str, Any]:
    """Return ``value`` if it is an object with exactly these ``keys``."""
    if not isinstance(value, dict) or value.keys() != keys:
        raise ValueError(f"{where} must be an object with {', '.join(sorted(keys))}, not {short(value)}")
    return value


def items(value: Any, where: str) -> list[Any]:
    """Return ``value`` if it is a list."""
    if not isinstance(value, list):
        raise ValueError(f"{where} must be a list, not {short(value)}")
    return value


def text(value: Any, where: str) -> str:
    """Return ``value`` if it is a string."""
    if not isinstance(value, str):
        raise ValueError(f"{where} must be a string, not {short(value)}")
    return value


def flag(value: Any, where: str) -> bool:
    """Return ``value`` if it is true or false."""
    if not isinstance(value, bool):
        raise ValueError(f"{where} must be true or false, not {short(value)}")
    return value


def number(value: Any, where: str) -> float:
    """Return ``value`` as a float if it is a finite number; other writers may leave out the point of 1.0."""
    whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**1023
    if not whole and not (isinstance(value, float) and math.isfinite(value)):
        raise ValueError(f"{where} must be a finite number, not {short(value)}")
    return float(value)


def numbers(value: Any, where: str) -> tuple[float, ...]:
    """Return ``value`` if it is a list of finite numbers."""
    return tuple(number(item, where) for item in items(value, where))


def distinct_texts(value: Any, where: str) -> tuple[str, ...]:
    """Return ``value`` if it is a list of strings, none of them twice."""
    texts = tuple(text(item, where) for item in items(value, where))
    if len(set(texts)) < len(texts):
        raise ValueError(f"{where} must not hold the same string twice")
    return texts
