# SPDX-License-Identifier: Apache-2.0
"""A file replaced whole or not at all, whatever happens on the way."""

import fcntl
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedWriter


def replace_file(path: str, chunks: Iterable[bytes | memoryview]) -> None:
    """Make ``chunks`` the content of the file at ``path``, or raise ``OSError`` and leave what was there."""
    with replacing(path) as file:
        for chunk in chunks:
            file.write(chunk)


@contextmanager
def replacing(path: str) -> Iterator[BufferedWriter]:
    """A file to write, which becomes the one at ``path`` at the end, unless an error leaves what was there.

    It lies beside it as ``.NAME.part``, and takes the place of the old one once it is on disk. A killed process leaves
    at most this one file behind, which the next write to the same path uses up.
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
    """Open ``part``, empty and for us alone: another writer of the same file waits here until we are done."""
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
    """Make the new name last through a power cut; not every file system can, and the content is safe without."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
