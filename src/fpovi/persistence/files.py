# SPDX-License-Identifier: Apache-2.0
"""Write and read the files of :mod:`fpovi.persistence.layout`."""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np

from fpovi.persistence.atomic import replace_file
from fpovi.persistence.canonical import MAX_COMMAS, check_json
from fpovi.persistence.layout import CODES, KINDS, MAX_HEAD, NO_CHECKSUM, FileError, Spec, decode, encode, make_head


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
        kind: "model", "checkpoint" or "export".
        force: whether a file that exists may be replaced.

    Raises:
        ValueError: an argument cannot be written.
        FileError: the disk does not play along; the old file is as it was, and nothing is left beside it.

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
    head = make_head(kind, header, {name: _spec(name, array) for name, array in arrays.items()})
    blocks = [_block(arrays[name], spec) for name, spec in head.specs.items()]
    checksum = hashlib.sha256(encode(head))
    for block in blocks:
        checksum.update(block)
    start = encode(head._replace(sha256=checksum.hexdigest()))
    if len(start) > MAX_HEAD + 8 or start.count(b",") > MAX_COMMAS:
        raise ValueError(
            f"header and the names of the arrays take {len(start)} bytes with {start.count(b',')} entries, but at most "
            f"{MAX_HEAD} and {MAX_COMMAS} are allowed: keep long lists in an array"
        )
    write_bytes(path, [start, *blocks], force)


def write_bytes(path: str | os.PathLike[str], chunks: Iterable[bytes | memoryview], force: bool = True) -> None:
    """Write a file of any format as a whole or not at all, with the errors of :func:`write_file`."""
    with _about(path, "written"):
        replace_file(_target(path, force), chunks)


def check_writable(path: str | os.PathLike[str], force: bool = True) -> None:
    """Raise now the ``FileError`` that :func:`write_file` would raise after hours of work."""
    with _about(path, "written"):
        folder = os.path.dirname(_target(path, force))
        if not os.access(folder, os.W_OK | os.X_OK):
            raise FileError(f"cannot be written: no file may be made in {folder}")


def read_versions(path: str | os.PathLike[str], *, kind: str) -> dict[str, str]:
    """The versions of fpovi, jax and numpy that wrote a file; of the rest of it only the head is looked at."""
    _check_known(kind)
    with _about(path, "read"), _open(path) as file:
        return decode(_read_head(file, os.fstat(file.fileno()).st_size, kind), kind).versions


def read_file(path: str | os.PathLike[str], *, kind: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and arrays of a file, bit for bit as they were written.

    Everything the file says of itself is checked before an array is made, so that no more memory is asked for than
    the file is long. Nothing in it is run.

    Raises:
        FileError: there is no such file, or it is not one of this kind, cut short, altered, or from a newer fpovi.
    """
    _check_known(kind)
    with _about(path, "read"), _open(path) as file:
        size = os.fstat(file.fileno()).st_size
        head = decode(_read_head(file, size, kind), kind)
        missing = file.tell() + sum(spec.nbytes for spec in head.specs.values()) - size
        if missing > 0:
            raise FileError(f"is truncated: the last {missing} of {size + missing} bytes are missing")
        if missing < 0:
            raise FileError(f"was altered: it has {-missing} bytes more than its head says")
        checksum = hashlib.sha256(encode(head._replace(sha256=NO_CHECKSUM)))
        arrays = {}
        for name, spec in head.specs.items():
            block = _read(file, spec.nbytes)
            checksum.update(block.data)
            if spec.dtype == np.bool_ and block.size and block.max() > 1:
                raise FileError(f"was altered: array {name!r:.80} is of bools, but has other numbers than 0 and 1")
            arrays[name] = block.view(spec.dtype).reshape(spec.shape)
        if checksum.hexdigest() != head.sha256:
            raise FileError("was altered: checksum differs")
        return head.header, arrays


def _check_known(kind: str) -> None:
    if kind not in KINDS:
        raise ValueError(f"kind={kind!r} is not known; choose one of {', '.join(KINDS)}")


def _spec(name: str, array: np.ndarray) -> Spec:
    if not isinstance(name, str) or name == "__metadata__" or not name.isprintable():
        raise ValueError(f"arrays has the name {name!r:.80}, but a name is printable text other than '__metadata__'")
    if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
        raise ValueError(f"arrays[{name!r}] is a {type(array).__name__}, but a NumPy array is needed")
    native = array.dtype.newbyteorder("=")
    if native not in CODES:
        raise ValueError(f"arrays[{name!r}] is of {array.dtype}, but one of {', '.join(map(str, CODES))} is needed")
    return Spec(native, array.shape)


def _block(array: np.ndarray, spec: Spec) -> memoryview:
    """The bytes of an array."""
    return np.ascontiguousarray(array, spec.dtype).reshape(-1).view(np.uint8).data


@contextmanager
def _about(path: str | os.PathLike[str], done: str) -> Iterator[None]:
    """Begin the message of an error with the name of the file, which cannot be ``done``."""
    try:
        yield
    except FileError as error:
        raise FileError(f"{path} {error}") from error.__cause__
    except OSError as error:
        raise FileError(f"{path} cannot be {done}: {error.strerror or error}") from error
    except MemoryError as error:
        raise FileError(f"{path} cannot be {done}: it needs more memory than there is") from error


def _resolve(path: str | os.PathLike[str]) -> str:
    """The name of the file itself, behind any links."""
    try:
        return os.path.realpath(path)
    except ValueError as error:  # a null byte, or half a surrogate pair
        raise FileError(f"is no name of a file: {error}") from error


def _target(path: str | os.PathLike[str], force: bool) -> str:
    """Where the file will be, if it may."""
    target = _resolve(path)
    try:
        os.stat(os.path.dirname(target))
    except FileNotFoundError as error:
        raise FileError(f"cannot be written: there is no folder {os.path.dirname(target)}") from error
    if os.path.lexists(target):
        _check_regular(os.stat(target).st_mode)
        if not force:
            raise FileError("exists already: choose another name, or say force=True to replace it")
    return target


def _check_regular(mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise FileError("is a folder, not a file")
    if not stat.S_ISREG(mode):
        raise FileError("is not a regular file")


def _open(path: str | os.PathLike[str]) -> BinaryIO:
    # without O_NONBLOCK a pipe would keep us waiting for a writer
    handle = os.open(_resolve(path), os.O_RDONLY | os.O_NONBLOCK)
    try:
        _check_regular(os.fstat(handle).st_mode)
    except BaseException:
        os.close(handle)
        raise
    return open(handle, "rb")


def _read_head(file: BinaryIO, size: int, kind: str) -> bytes:
    if size == 0:
        raise FileError("is empty")
    if size < 8:
        raise FileError(f"is truncated, or not an fpovi {kind}: {size} bytes are too few")
    length = int.from_bytes(_read(file, 8).tobytes(), "little")
    if length > MAX_HEAD:
        raise FileError(f"is not an fpovi {kind}: its head would be {length} bytes long, and {MAX_HEAD} are allowed")
    if length > size - 8:
        raise FileError(f"is truncated: its head ends at byte {8 + length}, the file at byte {size}")
    return _read(file, length).tobytes()


def _read(file: BinaryIO, count: int) -> np.ndarray:
    block = np.empty(count, np.uint8)
    if (came := file.readinto(block)) != count:  # type: ignore[attr-defined]
        raise FileError(f"is truncated: {count - came} bytes went missing while it was read")
    return block
