# SPDX-License-Identifier: Apache-2.0
"""Fill the data folder from public origins, and check what is in it."""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

from fpovi.datasets.assembly import digest
from fpovi.datasets.download import PAUSE, TIMEOUT, DownloadError, download
from fpovi.datasets.origins import DataFile, DataSet
from fpovi.persistence.atomic import replace_file

# data file, which of its parts, how many there are, bytes of it that have come, bytes there are (0: unknown)
Watch = Callable[[DataFile, int, int, int, int], None]


class Condition(StrEnum):
    """What is at a data file's place."""

    GOOD = "good"
    MISSING = "missing"
    OTHER = "other content"


def condition(file: DataFile, folder: Path) -> Condition:
    """Whether the file is there, and is the one we know."""
    path = folder / file.path
    if not path.exists():
        return Condition.MISSING
    try:
        return Condition.GOOD if digest(path) == file.sha256 else Condition.OTHER
    except Exception:  # an archive that is cut short or none at all fails its reader in many ways
        return Condition.OTHER


def fetch(
    dataset: DataSet,
    folder: Path,
    watch: Watch = lambda file, part, parts, done, total: None,
    timeout: float = TIMEOUT,
    pause: float = PAUSE,
) -> list[Path]:
    """Download what is missing or wrong of a data set; the paths that were written.

    A file is put in its place as a whole, and only if its checksum is right.

    Args:
        dataset: one of :data:`~fpovi.datasets.origins.DATASETS`.
        folder: the data folder; made if it is not there.
        watch: told of every piece that comes.
        timeout, pause: as in :func:`~fpovi.datasets.download.download`.
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
