# SPDX-License-Identifier: Apache-2.0
"""The folder that holds data files: where it is, the state of its files, and how to fill it from public addresses.

Fetched files arrive whole and with the right checksum, or not at all.
"""

import hashlib
import http.client
import io
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

import numpy as np
from platformdirs import user_cache_path

from fpovi.datasets.catalogue import DataFile, DataSet
from fpovi.persistence.atomic import replace_file

VARIABLE = "FPOVI_DATA"


class Condition(StrEnum):
    """The state of a data file: as we know it, absent, or different."""

    GOOD = "good"
    MISSING = "missing"
    OTHER = "other content"


def data_folder(folder: Path | str | None = None) -> Path:
    """Return ``folder``, else what the environment variable FPOVI_DATA names, else the user's cache."""
    if folder is not None:
        return Path(folder)
    return Path(os.environ.get(VARIABLE) or user_cache_path("fpovi"))


def data_file(relative: str, folder: Path | str | None = None) -> Path:
    """Return the path of a data file, or raise a ``FileNotFoundError`` that says how to get it.

    Args:
        relative: its path inside the data folder, such as ``uci/yacht.npz``.
        folder: the data folder, as in :func:`data_folder`.
    """
    path = data_folder(folder) / relative
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is not there: set {VARIABLE} to the folder that holds {relative}, or see `fpovi data fetch`"
        )
    return path


def digest(content: bytes | Path) -> str:
    """Return the sha256 of a data file: of its bytes, or of the arrays of an ``.npz``, however they are packed."""
    data = content.read_bytes() if isinstance(content, Path) else content
    hashed = hashlib.sha256()
    if not data.startswith(b"PK"):
        hashed.update(data)
        return hashed.hexdigest()
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        for name in sorted(arrays.files):
            array = np.ascontiguousarray(arrays[name])
            hashed.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
            hashed.update(array.tobytes())
    return hashed.hexdigest()


def condition(file: DataFile, folder: Path) -> Condition:
    """Compare a file in the data folder with the checksum of the one we know."""
    path = folder / file.path
    if not path.exists():
        return Condition.MISSING
    try:
        return Condition.GOOD if digest(path) == file.sha256 else Condition.OTHER
    except Exception:  # an archive that is cut short or none at all fails its reader in many ways
        return Condition.OTHER


TIMEOUT = 30.0  # seconds without a byte
ATTEMPTS = 3
PAUSE = 1.0  # seconds before the second attempt, twice that before the third
MOST_BYTES = 400_000_000  # more than any file we know
CHUNK = 1 << 16
WORTH_ANOTHER_TRY = {408, 429, 500, 502, 503, 504}

OnBytes = Callable[[int, int], None]
# data file, which of its parts, how many there are, bytes of it that have come, bytes there are (0: unknown)
Watch = Callable[[DataFile, int, int, int, int], None]


class DownloadError(OSError):
    """An address did not give the file that was expected of it."""


def download(
    address: str, on_bytes: OnBytes = lambda done, total: None, timeout: float = TIMEOUT, pause: float = PAUSE
) -> bytes:
    """Return the content of the file at ``address``; try again where the connection breaks or stalls.

    Args:
        address: http or https.
        on_bytes: called with how many bytes have come, and how many there are (0 if the server does not say).
        timeout: seconds without any byte until an attempt is given up.
        pause: seconds between the first two attempts, half of those between the last two.

    Raises:
        DownloadError: the file did not come whole.
    """
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(pause * attempt)
        try:
            return _once(address, on_bytes, timeout)
        except urllib.error.HTTPError as error:
            reason = f"the server answered {error.code} {error.reason}"
            if error.code not in WORTH_ANOTHER_TRY:
                break
        except TimeoutError:
            reason = f"nothing came for {timeout:g} seconds"
        except urllib.error.URLError as error:
            timed_out = isinstance(error.reason, TimeoutError)
            reason = f"nothing came for {timeout:g} seconds" if timed_out else str(error.reason)
        except (http.client.HTTPException, ConnectionError) as error:
            reason = f"the connection broke off ({error or type(error).__name__})"
    raise DownloadError(f"{address} cannot be fetched: {reason}")


def _once(address: str, on_bytes: OnBytes, timeout: float) -> bytes:
    request = urllib.request.Request(address, headers={"User-Agent": "fpovi"})
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        total = int(answer.headers.get("Content-Length") or 0)
        parts, done = [], 0
        on_bytes(0, total)
        while part := answer.read1(CHUNK):
            parts.append(part)
            done += len(part)
            if done > MOST_BYTES:
                raise DownloadError(f"{address} gives more than {MOST_BYTES} bytes: this is not the file we know")
            on_bytes(done, total)
    if done < total:
        raise http.client.IncompleteRead(b"", total - done)
    return b"".join(parts)


def fetch(
    dataset: DataSet,
    folder: Path,
    watch: Watch = lambda file, part, parts, done, total: None,
    timeout: float = TIMEOUT,
    pause: float = PAUSE,
) -> list[Path]:
    """Download the missing and wrong files of a data set, each written whole and only if its checksum is right.

    Args:
        dataset: one of :data:`~fpovi.datasets.catalogue.DATASETS`.
        folder: the data folder; made if it is not there.
        watch: called after every piece that comes.
        timeout, pause: as in :func:`download`.

    Returns:
        The paths that were written.

    Raises:
        DownloadError: a file did not come, or is not the one we know.
    """
    written = []
    for file in dataset.files:
        if condition(file, folder) is Condition.GOOD:
            continue
        parts, count = [], len(file.addresses)
        for number, address in enumerate(file.addresses):
            report = lambda done, total, at=number: watch(file, at, count, done, total)  # noqa: B023, E731
            parts.append(download(address, report, timeout, pause))
        content = _checked(file, parts)
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(str(path), [content])
        written.append(path)
    return written


def _checked(file: DataFile, parts: list[bytes]) -> bytes:
    """Assemble a file of its parts, or raise a ``DownloadError`` unless that gives the one we know."""
    try:
        content = file.build(parts)
        found = digest(content)
    except Exception as error:  # what comes from elsewhere may be anything
        raise DownloadError(f"{file.addresses[0]} does not hold what {file.path} is made of: {error}") from error
    if found != file.sha256:
        raise DownloadError(
            f"{file.path} as fetched from {file.addresses[0]} has checksum {found[:12]}…, but {file.sha256[:12]}… is "
            "expected: it was altered on the way or at its origin, and is not kept"
        )
    return content
