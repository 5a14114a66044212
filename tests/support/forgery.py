# SPDX-License-Identifier: Apache-2.0
"""Take model files apart and put them together by hand, from the description of the format alone."""

import hashlib
import json
import re

import numpy as np

CHECKSUM = re.compile(rb'(?<="sha256":")[0-9a-f]{64}(?=")')


def take_apart(data: bytes) -> tuple[dict, bytes]:
    """Return the table of a file, and the bytes of its arrays."""
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def spell(table) -> bytes:
    text = json.dumps(table, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
    return text + b" " * (-len(text) % 8)


def join(head: bytes, body: bytes) -> bytes:
    return len(head).to_bytes(8, "little") + head + body


def sign(data: bytes) -> bytes:
    """Return the same file with the checksum it should have."""
    found = CHECKSUM.search(data)
    if found is None:
        return data
    unsigned = data[: found.start()] + b"0" * 64 + data[found.end() :]
    return data[: found.start()] + hashlib.sha256(unsigned).hexdigest().encode() + data[found.end() :]


def forge(table, body: bytes) -> bytes:
    """Return a file with this table, these bytes and their checksum."""
    return sign(join(spell(table), body))


def same_content(came, expected) -> bool:
    """Return whether headers are equal, and arrays to the last bit."""
    (header, arrays), (other_header, other_arrays) = came, expected
    return (
        json.dumps(header, sort_keys=True) == json.dumps(other_header, sort_keys=True)
        and arrays.keys() == other_arrays.keys()
        and all(same_bits(array, other_arrays[name]) for name, array in arrays.items())
    )


def same_bits(a, b) -> bool:
    return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes()) and isinstance(a, np.ndarray)
