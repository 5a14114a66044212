# SPDX-License-Identifier: Apache-2.0
"""Results as lines of JSON, each with what made it: code, libraries and processor."""

import fcntl
import json
import os
import platform
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO

VERSIONED = ("fpovi", "jax", "optax", "equinox", "blackjax", "numpy")
PACKAGE = Path(__file__).parents[2]
VECTORS = ("avx512f", "avx2", "avx", "sse4_2")  # sets of vector instructions, the widest first


@dataclass(frozen=True)
class Cell:
    """One cell of an experiment: all that says what to run. Equal cells have the same result.

    Attributes:
        experiment: the name of the experiment, and of the file with its rows.
        method: what is run.
        dataset: on which data, if there is a choice.
        split: the number of a division of the data into rows for training and rows for tests.
        seed: seeds the method, and the data where they are made.
        preset: the name of a set of choices, such as the number of epochs.
        split_kind: how such divisions are made, for UCI sets a name in :data:`fpovi.datasets.uci.SPLIT_KINDS`.
    """

    experiment: str
    method: str
    dataset: str = ""
    split: int = 0
    seed: int = 0
    preset: str = "quick"
    split_kind: str = "standard"


@dataclass(frozen=True)
class Row:
    """A finished cell: its numbers (JSON types), how long it took, and :func:`versions` of what made it."""

    cell: Cell
    metrics: dict[str, Any]
    seconds: float
    versions: dict[str, str]


class Store:
    """The rows of one file of JSON lines. The file need not exist yet."""

    def __init__(self, path: Path):
        self.path = path

    def rows(self) -> list[Row]:
        """Return all finished rows; a line that a kill cut short at the end of the file does not count."""
        if not self.path.exists():
            return []
        *whole, _cut_short = self.path.read_bytes().split(b"\n")
        return [self._parse(number, line) for number, line in enumerate(whole, start=1) if line]

    def _parse(self, number: int, line: bytes) -> Row:
        try:
            fields = json.loads(line)
            cell = fields["cell"]
            if "draw" in cell:  # the former name of split_kind
                cell["split_kind"] = cell.pop("draw")
            return Row(Cell(**cell), fields["metrics"], fields["seconds"], fields["versions"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{self.path}, line {number} is not a result row ({error}): repair or delete it"
            ) from error

    def find(self, cell: Cell) -> Row | None:
        """Return the row of a cell, or None where it has not finished."""
        return next((row for row in self.rows() if row.cell == cell), None)

    def drop(self, cells: Iterable[Cell]) -> None:
        """Remove the rows of these cells; the file is replaced as a whole."""
        gone = set(cells)
        kept = [row for row in self.rows() if row.cell not in gone]
        if self.path.exists():
            beside = self.path.with_suffix(".part")
            beside.write_bytes(b"".join(_line(row) for row in kept))
            beside.replace(self.path)

    def checkpoint(self, cell: Cell) -> Path:
        """Return where the progress of a cell is kept until its row is there: a file beside that of the rows."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        name = sha256(repr(cell).encode()).hexdigest()[:16]
        return self.path.parent / f".{cell.experiment}-{name}.checkpoint"

    def append(self, row: Row) -> None:
        """Add a row by a single write under a lock, and remove its checkpoint. It is on disk when this returns."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = _line(row)
        with open(self.path, "ab+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            _drop_cut_line(file)
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        self.checkpoint(row.cell).unlink(missing_ok=True)


def _line(row: Row) -> bytes:
    """Return the line of a row, with its end."""
    return json.dumps(asdict(row), allow_nan=True, separators=(",", ":")).encode() + b"\n"


def _drop_cut_line(file: BinaryIO) -> None:
    """Remove what a killed writer left after the last newline."""
    if file.seek(0, os.SEEK_END) == 0:
        return
    file.seek(-1, os.SEEK_END)
    if file.read(1) != b"\n":
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)


@lru_cache
def _versions() -> dict[str, str]:
    revision = revision_of(PACKAGE)
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in VERSIONED},
        **({"revision": revision} if revision else {}),
        "processor": processor(),
        "cores": str(count_cores()),
    }


def versions() -> dict[str, str]:
    """Return what a result depends on besides its cell, as it was when this process first asked.

    These are the versions of Python and libraries; ``revision``, where the package lies in a git repository, as
    :func:`revision_of` writes it; and ``processor`` and ``cores``, as both have a say in how sums are rounded.
    """
    return dict(_versions())


def revision_of(package: Path) -> str | None:
    """Return the git revision of a folder, with ``-dirty`` after it where files in the folder differ from it.

    Other files of the repository, such as rows that a sweep adds, have no say. None where the folder is not under
    version control (an installed package) or git is missing.
    """
    try:
        _git(package, "ls-files", "--error-unmatch", "__init__.py")
        head = _git(package, "rev-parse", "--short=12", "HEAD")
        return f"{head}-dirty" if _git(package, "status", "--porcelain", "--", ".") else head
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()


def count_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_facts() -> dict[str, str]:
    """Return what the system says of its first core, nothing where it keeps no list of them."""
    path = Path("/proc/cpuinfo")
    first = path.read_text().split("\n\n", maxsplit=1)[0] if path.exists() else ""
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first.splitlines())}


def processor() -> str:
    """Return name, family, model and widest vector instructions of the processor, as far as the system tells."""
    facts = cpu_facts()
    if "model name" not in facts:
        return platform.processor() or platform.machine()
    widest = next((name for name in VECTORS if name in facts.get("flags", "").split()), "")
    return f"{facts['model name']}, family {facts.get('cpu family')}, model {facts.get('model')}, {widest}"
