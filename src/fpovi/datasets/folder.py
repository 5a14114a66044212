# SPDX-License-Identifier: Apache-2.0
"""The folder that holds data files, and the state of the files in it."""

import os
from enum import StrEnum
from pathlib import Path

from platformdirs import user_cache_path

from fpovi.datasets.assembly import digest
from fpovi.datasets.catalogue import DataFile

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


def condition(file: DataFile, folder: Path) -> Condition:
    """Compare a file in the data folder with the checksum of the one we know."""
    path = folder / file.path
    if not path.exists():
        return Condition.MISSING
    try:
        return Condition.GOOD if digest(path) == file.sha256 else Condition.OTHER
    except Exception:  # an archive that is cut short or none at all fails its reader in many ways
        return Condition.OTHER
