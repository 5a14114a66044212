# SPDX-License-Identifier: Apache-2.0
"""Results as lines of JSON: written whole or not at all, and never computed twice."""

import fcntl
import json
import os
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO

VERSIONED = ("fpovi", "jax", "optax", "equinox", "blackjax", "numpy")


@dataclass(frozen=True)
class Cell:
    """One cell of an experiment: what to run. Equal cells are the same result.

    ``split`` is the number of a split of the data set, and ``split_kind`` how splits are made:
    see :data:`fpovi.datasets.splits.SPLIT_KINDS`.
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
    """A finished cell: its numbers (JSON types), how long it took and with which versions."""

    cell: Cell
    metrics: dict[str, Any]
    seconds: float
    versions: dict[str, str]


class Store:
    """The rows of one file of JSON lines. The file need not exist yet."""

    def __init__(self, path: Path):
        self.path = path

    def rows(self) -> list[Row]:
        """All finished rows; a line that a kill cut short at the end of the file does not count."""
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
        """Forget the rows of these cells; the file is replaced as a whole."""
        gone = set(cells)
        kept = [row for row in self.rows() if row.cell not in gone]
        if self.path.exists():
            beside = self.path.with_suffix(".part")
            beside.write_bytes(b"".join(_line(row) for row in kept))
            beside.replace(self.path)

    def append(self, row: Row) -> None:
        """Add a row at once: a single write under a lock, on disk before this returns."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = _line(row)
        with open(self.path, "ab+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            _drop_cut_line(file)
            file.write(line)
            file.flush()
            os.fsync(file.fileno())


def _line(row: Row) -> bytes:
    return json.dumps(asdict(row), allow_nan=True, separators=(",", ":")).encode() + b"\n"


def _drop_cut_line(file: BinaryIO) -> None:
    """Remove what a killed writer left after the last newline."""
    if file.seek(0, os.SEEK_END) == 0:
        return
    file.seek(-1, os.SEEK_END)
    if file.read(1) != b"\n":
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)


def versions() -> dict[str, str]:
    """The versions a result depends on."""
    return {"python": platform.python_version(), **{name: version(name) for name in VERSIONED}}
