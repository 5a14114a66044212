# SPDX-License-Identifier: Apache-2.0
r"""How a file is laid out, and what is checked of it before any array is made.

::

    8 bytes    length of the head, little-endian
    head       JSON: for each array its dtype, shape and place; under "__metadata__" strings: format, format_version,
               kind, header (JSON of the caller's own), versions (of fpovi, jax, numpy), sha256; spaces up to 8·i bytes
    arrays     little-endian, C order, without gaps: largest items first, then by name

That is a safetensors file, so every reader of those can open it. ``sha256`` is the checksum of the whole file with its
own 64 digits set to 0. There is one spelling of a given content, and a reader accepts no other.
"""

import math
import re
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from fpovi.persistence.canonical import canonical, parse

FORMAT = "fpovi"
FORMAT_VERSION = 1
KINDS = ("checkpoint", "export", "model")
MAX_HEAD = 4 * 2**20
ALIGNMENT = 8
NO_CHECKSUM = "0" * 64
DTYPES = {
    "F64": np.dtype("float64"),
    "F32": np.dtype("float32"),
    "F16": np.dtype("float16"),
    "BF16": np.dtype(jnp.bfloat16),
    "I64": np.dtype("int64"),
    "I32": np.dtype("int32"),
    "I16": np.dtype("int16"),
    "I8": np.dtype("int8"),
    "U64": np.dtype("uint64"),
    "U32": np.dtype("uint32"),
    "U16": np.dtype("uint16"),
    "U8": np.dtype("uint8"),
    "BOOL": np.dtype("bool"),
}
CODES = {dtype: code for code, dtype in DTYPES.items()}
MAX_NDIM = 64  # NumPy's own limit


class FileError(ValueError):
    """A file that cannot be written, read, or used as what it was asked for."""


class Spec(NamedTuple):
    """What an array is, without its numbers."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return self.dtype.itemsize * math.prod(self.shape)


class Head(NamedTuple):
    """All that stands before the arrays; ``specs`` are in the order in which the arrays lie."""

    kind: str
    header: dict[str, Any]
    versions: dict[str, str]
    specs: dict[str, Spec]
    sha256: str = NO_CHECKSUM


def make_head(kind: str, header: dict[str, Any], specs: Mapping[str, Spec]) -> Head:
    """The head of a new file."""
    versions = {name: version(name) for name in ("fpovi", "jax", "numpy")}
    return Head(kind, header, versions, _in_order(specs))


def _in_order(specs: Mapping[str, Spec]) -> dict[str, Spec]:
    # largest items first, so that each array starts at a multiple of its item's size
    return dict(sorted(specs.items(), key=lambda item: (-item[1].dtype.itemsize, item[0])))


def encode(head: Head) -> bytes:
    """The first bytes of a file: the length of the head, and the head."""
    metadata = {
        "format": FORMAT,
        "format_version": str(FORMAT_VERSION),
        "kind": head.kind,
        "header": canonical(head.header).decode(),
        "versions": canonical(head.versions).decode(),
        "sha256": head.sha256,
    }
    table: dict[str, Any] = {"__metadata__": metadata}
    begin = 0
    for name, spec in head.specs.items():
        end = begin + spec.nbytes
        table[name] = {"dtype": CODES[spec.dtype], "shape": list(spec.shape), "data_offsets": [begin, end]}
        begin = end
    text = canonical(table)
    text += b" " * (-len(text) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def decode(text: bytes, kind: str) -> Head:
    """The head that ``text`` spells, every claim in it checked; a ``FileError`` continues "the file …"."""
    try:
        table = parse(text)
    except ValueError as error:
        raise FileError(f"is damaged, or not an fpovi {kind}: its head is not JSON ({error})") from error
    metadata = table.pop("__metadata__", None) if isinstance(table, dict) else None
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise FileError(f"is not an fpovi {kind}, but some other safetensors file")
    _check_version(metadata.get("format_version"))
    _check_kind(metadata.get("kind"), kind)
    specs = _in_order({name: _spec(name, entry) for name, entry in table.items()})
    _check_places(specs, table)
    try:
        header, versions = parse(metadata["header"].encode()), parse(metadata["versions"].encode())
        head = Head(kind, header, versions, specs, metadata["sha256"])
        genuine = isinstance(header, dict) and encode(head)[8:] == text
    except (KeyError, AttributeError, TypeError, ValueError, RecursionError) as error:
        raise FileError(f"was altered: its metadata is not what fpovi writes ({error!r:.80})") from error
    if not genuine:
        raise FileError("was altered: its head is not spelt as fpovi spells it")
    return head


def _check_version(written: Any) -> None:
    if not isinstance(written, str) or not re.fullmatch("[1-9][0-9]{0,8}", written):
        raise FileError(f"was altered: its format version is {written!r:.80}, not a positive whole number")
    if int(written) > FORMAT_VERSION:
        raise FileError(
            f"was written by a newer fpovi (format {written}; this one reads up to {FORMAT_VERSION}): upgrade fpovi"
        )


def _check_kind(written: Any, wanted: str) -> None:
    if written not in KINDS:
        raise FileError(f"is a {written!r:.80}, not a {wanted}")
    if written != wanted:
        raise FileError(f"is a {written}, not a {wanted}")


def _spec(name: str, entry: Any) -> Spec:
    """The dtype and shape that an entry of the table declares."""
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise FileError(f"was altered: array {name!r:.80} needs dtype, shape and data_offsets, and nothing else")
    code, shape = entry["dtype"], entry["shape"]
    if not isinstance(code, str) or code not in DTYPES:
        raise FileError(f"was altered: array {name!r:.80} has dtype {code!r:.80}; known are {', '.join(DTYPES)}")
    whole = isinstance(shape, list) and all(type(size) is int and size >= 0 for size in shape)
    # sizes of 0 left out, as NumPy does when it asks whether a shape is too large
    if not whole or len(shape) > MAX_NDIM or math.prod(filter(None, shape)) >= 2**63 // DTYPES[code].itemsize:
        raise FileError(f"was altered: array {name!r:.80} has shape {shape!r:.80}, which no array can have")
    return Spec(DTYPES[code], tuple(shape))


def _check_places(specs: Mapping[str, Spec], table: Mapping[str, Any]) -> None:
    """Each array lies right behind the one before: none overlap, nothing is left over."""
    begin = 0
    for name, spec in specs.items():
        end = begin + spec.nbytes
        if table[name]["data_offsets"] != [begin, end]:
            raise FileError(
                f"was altered: array {name!r:.80} is said to lie at bytes {table[name]['data_offsets']!r:.80}, "
                f"but {spec.dtype} of shape {list(spec.shape)!r:.80} belongs at [{begin}, {end}]"
            )
        begin = end
