# SPDX-License-Identifier: Apache-2.0
"""JSON with one spelling per value, so that equal content is equal bytes, and no surprises for who reads it."""

import json
import math
from typing import Any, NoReturn

MAX_DEPTH = 50
# Bounds what a hostile text can make json build, which is up to half a kilobyte for each comma.
MAX_COMMAS = 100_000


def canonical(value: Any) -> bytes:
    """The one spelling of ``value``: keys sorted, no spaces, UTF-8.

    >>> canonical({"b": [1, 0.5], "a": None})
    b'{"a":null,"b":[1,0.5]}'
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8")


def parse(text: bytes) -> Any:
    """The value that ``text`` spells, in whatever spelling, or a ``ValueError`` of one line."""
    if text.count(b",") > MAX_COMMAS:
        raise ValueError(f"more than {MAX_COMMAS} entries")
    try:
        return json.loads(text.decode("utf-8"), object_pairs_hook=_distinct, parse_constant=_not_a_number)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise ValueError("a key occurs twice")
    return entries


def _not_a_number(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


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
