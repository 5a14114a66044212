# SPDX-License-Identifier: Apache-2.0
r"""Write and read models, checkpoints and exports as safetensors files.

::

    8 bytes    length of the head, little-endian
    head       JSON: for each array its dtype, shape and place; under "__metadata__" strings: format, format_version,
               kind, header (JSON of the caller's own), versions (of fpovi, jax, numpy), sha256; spaces up to 8·i bytes
    arrays     little-endian, C order, without gaps: largest items first, then by name

``sha256`` is the checksum of the whole file with its own 64 digits set to 0. A given content has one spelling, and
the reader accepts no other. The safetensors library reads the files. It does not write them, because it orders metadata
differently each time and holds copies of all arrays.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any, BinaryIO

import numpy as np
from safetensors import SafetensorError, safe_open

from fpovi._lookup import lookup
from fpovi.persistence.atomic import FileError, errors_naming, open_regular, write_bytes
from fpovi.persistence.plain import canonical, check_json

FORMAT = "fpovi"
FORMAT_VERSION = 2  # of 0.2.0, which calls some arrays otherwise; 1 of 0.1.0
OLDEST_READ = {"agent": 2, "checkpoint": 2, "export": 1, "model": 1}  # by kind of file
MAX_HEAD = 4 * 2**20
MAX_COMMAS = 100_000  # json builds up to half a kilobyte for each comma of a hostile text
METADATA = {"format", "format_version", "kind", "header", "versions", "sha256"}
NO_CHECKSUM = "0" * 64
CODES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"}
CODES |= {"int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8"}
CODES |= {"uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL"}


def write_file(
    path: str | os.PathLike[str],
    header: dict[str, Any],
    arrays: dict[str, np.ndarray],
    *,
    kind: str,
    force: bool = True,
) -> None:
    """Write a header and arrays to one safetensors file, which is replaced as a whole or left as it was.

    The same content gives the same bytes. A link is followed, and an old file's permissions are kept.

    Args:
        path: the file; its folder must exist.
        header: JSON types, with finite numbers; tuples come back as lists.
        arrays: by name; floats, integers and bools.
        kind: "model", "checkpoint", "export" or "agent".
        force: whether a file that exists may be replaced.

    Raises:
        ValueError: an argument cannot be written.
        FileError: the file cannot be written; the old file is as it was, and nothing is left beside it.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "sine.fpovi"
    >>> write_file(path, {"flow": "svgd"}, {"theta": np.arange(3)}, kind="model")
    >>> read_file(path, kind="model")
    ({'flow': 'svgd'}, {'theta': array([0, 1, 2])})
    """
    _check_known(kind)
    if not isinstance(header, dict):
        raise ValueError(f"header is a {type(header).__name__}, but a dict is needed")
    check_json(header, "header")
    arrays = _in_order({name: _little_endian(name, array) for name, array in arrays.items()})
    metadata = {
        "format": FORMAT,
        "format_version": str(FORMAT_VERSION),
        "kind": kind,
        "header": header,
        "versions": {name: version(name) for name in ("fpovi", "jax", "numpy")},
    }
    head = _spell_head(metadata | {"sha256": _checksum(metadata, arrays)}, arrays)
    if len(head) > MAX_HEAD + 8 or head.count(b",") > MAX_COMMAS:
        raise ValueError(
            f"header and the names of the arrays take {len(head)} bytes with {head.count(b',')} entries, but at most "
            f"{MAX_HEAD} and {MAX_COMMAS} are allowed: keep long lists in an array"
        )
    write_bytes(path, [head, *map(_bytes_of, arrays.values())], force)


def read_file(path: str | os.PathLike[str], *, kind: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the header and arrays of a file, bit for bit as they were written.

    The head is checked before an array is made, so that no more memory is asked for than the file is long. Nothing in
    the file is run.

    Args:
        path: the file.
        kind: "model", "checkpoint", "export" or "agent".

    Raises:
        FileError: there is no such file, or it is not one of this kind, cut short, altered, or from a newer fpovi.
    """
    with _open_tensors(path, kind) as (head, metadata, tensors):
        arrays = _load_arrays(tensors)
        if _spell_head(metadata, arrays) != head:
            raise FileError("was altered: its head is not spelt as fpovi spells it")
        if _checksum(metadata, arrays) != metadata["sha256"]:
            raise FileError("was altered: checksum differs")
        return metadata["header"], arrays


def read_versions(path: str | os.PathLike[str], *, kind: str) -> dict[str, str]:
    """Return the versions of fpovi, jax and numpy that wrote a file, reading no more of it than the head.

    Args:
        path: the file.
        kind: "model", "checkpoint", "export" or "agent".

    Raises:
        FileError: as for :func:`read_file`, except that the checksum is not looked at.
    """
    with _open_tensors(path, kind) as (_, metadata, _):
        return metadata["versions"]


def _check_known(kind: str) -> None:
    lookup(OLDEST_READ, kind, "kind")


def _little_endian(name: str, array: np.ndarray) -> np.ndarray:
    """Return ``array`` as it lies in a file: little-endian, in C order; no copy if it is so already."""
    if not isinstance(name, str) or name == "__metadata__" or not name.isprintable():
        raise ValueError(f"arrays has the name {name!r:.80}, but a name is printable text other than '__metadata__'")
    if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
        raise ValueError(f"arrays[{name!r}] is a {type(array).__name__}, but a NumPy array is needed")
    if array.dtype.name not in CODES:
        raise ValueError(f"arrays[{name!r}] is of {array.dtype}, but one of {', '.join(CODES)} is needed")
    return np.asarray(array, array.dtype.newbyteorder("<"), order="C")


def _in_order(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    # largest items first, so that each array starts at a multiple of its item's size
    return dict(sorted(arrays.items(), key=lambda item: (-item[1].itemsize, item[0])))


def _bytes_of(array: np.ndarray) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _spell_head(metadata: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return the first bytes of a file: the length of the head, and the head."""
    strings = {name: entry if isinstance(entry, str) else canonical(entry).decode() for name, entry in metadata.items()}
    table: dict[str, Any] = {"__metadata__": strings}
    begin = 0
    for name, array in arrays.items():
        end = begin + array.nbytes
        table[name] = {"dtype": CODES[array.dtype.name], "shape": array.shape, "data_offsets": [begin, end]}
        begin = end
    text = canonical(table)
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _checksum(metadata: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    checksum = hashlib.sha256(_spell_head({**metadata, "sha256": NO_CHECKSUM}, arrays))
    for array in arrays.values():
        checksum.update(_bytes_of(array))
    return checksum.hexdigest()


@contextmanager
def _open_tensors(path: str | os.PathLike[str], kind: str) -> Iterator[tuple[bytes, dict[str, Any], safe_open]]:
    """Yield the head of a file, its metadata, and the library's access to its arrays."""
    _check_known(kind)
    with errors_naming(path, "read"), open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        head = _read_head(file, size, kind)
        np.empty(size, np.uint8)  # raises MemoryError for a sparse file of terabytes; the library would print a trace
        try:
            # the same open file: another may take its name meanwhile; and no memory map, as the file may be cut short
            with safe_open(f"/dev/fd/{file.fileno()}", "numpy", backend="pread") as tensors:
                yield head, _read_metadata(tensors.metadata(), kind), tensors
        except SafetensorError as error:
            raise FileError(_describe_fault(str(error), head, size, kind)) from error


def _read_head(file: BinaryIO, size: int, kind: str) -> bytes:
    """Return length and head, or raise a ``FileError`` if they are so long that they would cost much memory."""
    if size == 0:
        raise FileError("is empty")
    if size < 8:
        raise FileError(f"is truncated, or not an fpovi {kind}: {size} bytes are too few")
    start = file.read(8)
    length = int.from_bytes(start, "little")
    if length > MAX_HEAD:
        raise FileError(f"is not an fpovi {kind}: its head would be {length} bytes long, and {MAX_HEAD} are allowed")
    if length > size - 8:
        raise FileError(f"is truncated: its head ends at byte {8 + length}, the file at byte {size}")
    head = start + file.read(length)
    if head.count(b",") > MAX_COMMAS:
        raise FileError(f"is damaged, or not an fpovi {kind}: its head has more than {MAX_COMMAS} entries")
    file.seek(0)
    return head


def _describe_fault(reason: str, head: bytes, size: int, kind: str) -> str:
    """Return the message for a file that the library does not take."""
    if "not fully covered" in reason:  # the head is sound, but speaks of more or fewer bytes
        table = json.loads(head[8:])
        ends = [entry["data_offsets"][1] for name, entry in table.items() if name != "__metadata__"]
        missing = len(head) + max(ends, default=0) - size
        if missing > 0:
            return f"is truncated: the last {missing} of {size + missing} bytes are missing"
        return f"was altered: it has {-missing} bytes more than its head says"
    reason = reason.removeprefix("Error while deserializing header: ")[:200]
    line = "".join(letter if letter.isprintable() else " " for letter in reason)
    return f"is damaged, or not an fpovi {kind}: {line}"


def _read_metadata(metadata: dict[str, str] | None, kind: str) -> dict[str, Any]:
    """Return the metadata with header and versions parsed, every entry checked."""
    if metadata is None or metadata.get("format") != FORMAT:
        raise FileError(f"is not an fpovi {kind}, but some other safetensors file")
    written = metadata.get("format_version")
    if written is None or not re.fullmatch("[1-9][0-9]{0,8}", written):
        raise FileError(f"was altered: its format version is {written!r:.80}, not a positive whole number")
    if int(written) > FORMAT_VERSION:
        raise FileError(
            f"was written by {_writer(metadata)} (format {written}; this one reads up to {FORMAT_VERSION}): "
            "upgrade fpovi"
        )
    if (came := metadata.get("kind")) != kind:
        raise FileError(f"is a {came if came in OLDEST_READ else repr(came):.80}, not a {kind}")
    if int(written) < OLDEST_READ[kind]:
        raise FileError(
            f"is a {kind} of {_writer(metadata)} (format {written}), with which this one cannot go on: remove it or "
            "use that fpovi"
        )
    if metadata.keys() != METADATA:
        raise FileError(f"was altered: its metadata are {sorted(metadata)!r:.120}, not {sorted(METADATA)}")
    return metadata | {entry: _parse_object(metadata[entry], entry) for entry in ("header", "versions")}


def _writer(metadata: Mapping[str, str]) -> str:
    """Return which fpovi wrote a file whose other metadata may be of any form."""
    found = re.search(r'"fpovi":"([\w.+]{1,30})"', metadata.get("versions", ""))
    return f"fpovi {found[1]}" if found else "another fpovi"


def _parse_object(text: str, entry: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
        genuine = isinstance(value, dict) and canonical(value).decode() == text
    except (ValueError, RecursionError) as error:
        raise FileError(f"was altered: its {entry} is not the JSON that fpovi writes ({error!r:.80})") from error
    if not genuine:
        raise FileError(f"was altered: its {entry} is not spelt as fpovi spells it")
    return value


def _load_arrays(tensors: safe_open) -> dict[str, np.ndarray]:
    try:
        arrays = {name: tensors.get_tensor(name) for name in tensors.offset_keys()}
    except (ValueError, TypeError, AttributeError) as error:  # of a dtype or shape that NumPy does not have
        raise FileError(f"was altered: an array cannot be made ({error!r:.80})") from error
    for name, array in arrays.items():
        if array.dtype.name not in CODES:
            raise FileError(f"was altered: array {name!r:.80} is of {array.dtype}; known are {', '.join(CODES)}")
        if array.dtype == np.bool_ and array.view(np.uint8).max(initial=0) > 1:
            raise FileError(f"was altered: array {name!r:.80} is of bools, but has other numbers than 0 and 1")
    return _in_order(arrays)
