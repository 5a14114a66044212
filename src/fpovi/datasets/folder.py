# SPDX-License-Identifier: Apache-2.0
"""Where data files lie."""

import os
from pathlib import Path

from platformdirs import user_cache_path

VARIABLE = "FPOVI_DATA"


def data_folder(folder: Path | str | None = None) -> Path:
    """``folder``, else what the environment variable FPOVI_DATA names, else the user's cache."""
    if folder is not None:
        return Path(folder)
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE])
    return user_cache_path("fpovi")


def data_file(relative: str, folder: Path | str | None = None) -> Path:
    """The path of a data file, or a ``FileNotFoundError`` that says how to point to it."""
    path = data_folder(folder) / relative
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is not there: set {VARIABLE} to the folder that holds {relative}, or see `fpovi data fetch`"
        )
    return path
