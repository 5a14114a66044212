# SPDX-License-Identifier: Apache-2.0
"""Open a file to read it, or replace it as a whole or not at all; every error names the file."""

import fcntl
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedWriter
from typing import BinaryIO


class FileError(ValueError):
    """Raised when a file cannot be written, read, or used as what it was asked for."""


def write_bytes(path: str | os.PathLike[str], chunks: Iterable[bytes | memoryview], force: bool = True) -> None:
    """Write a file of any format as a whole or not at all.

    Args:
        path: the file; its folder must exist.
        chunks: the content, in order.
        force: whether a file that exists may be replaced.

    Raises:
        FileError: as for :func:`write_file`.
    """
    with errors_naming(path, "written"):
        replace_file(_target(path, force), chunks)


def check_writable(path: str | os.PathLike[str], force: bool = True) -> None:
    """Raise now the ``FileError`` that :func:`write_file` would raise after hours of work.

    Args:
        path: the file to be written.
        force: whether a file that exists may be replaced.

    Raises:
        FileError: the file could not be written.
    """
    with errors_naming(path, "written"):
        folder = os.path.dirname(_target(path, force))
        if not os.access(folder, os.W_OK | os.X_OK):
            raise FileError(f"cannot be written: no file may be made in {folder}")


def replace_file(path: str, chunks: Iterable[bytes | memoryview]) -> None:
    """Write ``chunks`` as the file at ``path``, or raise ``OSError`` and leave what was there."""
    with replacing(path) as file:
        for chunk in chunks:
            file.write(chunk)


@contextmanager
def replacing(path: str) -> Iterator[BufferedWriter]:
    """Yield a file to write, which becomes the one at ``path`` at the end; after an error the old one is still there.

    Until then it is ``.NAME.part`` in the same folder. A killed process leaves at most this one file behind, which the
    next write to the same path uses up.
    """
    folder, name = os.path.split(path)
    part = os.path.join(folder, f".{name}.part")
    with open(_claim(part), "wb") as file:
        try:
            with suppress(FileNotFoundError):
                os.fchmod(file.fileno(), stat.S_IMODE(os.stat(path).st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.replace(part, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(part)
            raise
    _sync_folder(folder)


def _claim(part: str) -> int:
    """Open ``part``, empty and locked: another writer of the same file waits here until we are done."""
    # a planted link is not followed, a planted pipe does not block
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    while True:
        handle = os.open(part, flags, 0o666)
        try:
            with suppress(OSError):  # a network folder may have no locks; it is then up to its users not to collide
                fcntl.flock(handle, fcntl.LOCK_EX)
            # while we waited, the other writer may have made this very file the new target
            if _is_still_at(handle, part):
                os.ftruncate(handle, 0)
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _is_still_at(handle: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False


def _sync_folder(folder: str) -> None:
    """Write the folder itself to disk, so that the new name survives a power cut; not every file system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def errors_naming(path: str | os.PathLike[str], done: str) -> Iterator[None]:
    """Raise errors as a ``FileError`` that begins with ``path`` and says that it cannot be ``done``."""
    try:
        yield
    except FileError as error:
        raise FileError(f"{path} {error}") from error.__cause__
    except OSError as error:
        raise FileError(f"{path} cannot be {done}: {error.strerror or error}") from error
    except MemoryError as error:
        raise FileError(f"{path} cannot be {done}: it needs more memory than there is") from error


def _resolve(path: str | os.PathLike[str]) -> str:
    """Return the name of the file itself, behind any links."""
    try:
        return os.path.realpath(path)
    except ValueError as error:  # a null byte, or half a surrogate pair
        raise FileError(f"is no name of a file: {error}") from error


def _target(path: str | os.PathLike[str], force: bool) -> str:
    """Return the name of the file to write, or raise a ``FileError`` unless it may be written."""
    target = _resolve(path)
    folder = os.path.dirname(target)
    try:
        os.stat(folder)
    except FileNotFoundError as error:
        raise FileError(f"cannot be written: there is no folder {folder}") from error
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


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file to read it, or raise a ``FileError`` or ``OSError``."""
    # without O_NONBLOCK a pipe would keep us waiting for a writer
    handle = os.open(_resolve(path), os.O_RDONLY | os.O_NONBLOCK)
    try:
        _check_regular(os.fstat(handle).st_mode)
    except BaseException:
        os.close(handle)
        raise
    return open(handle, "rb")
