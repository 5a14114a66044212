# SPDX-License-Identifier: Apache-2.0
"""Read rows that are arrays, such as images, from a .npy or .npz file. Nothing in the file is run."""

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fpovi.tabular.files import TableError, reason

EXTENSIONS = (".npy", ".npz")
INPUTS, TARGETS = ("X", "x"), ("y", "Y")  # what arrays in a .npz file are called


@dataclass(frozen=True)
class ArrayRows:
    """Rows of arrays, and what stands beside them.

    Attributes:
        inputs: ``(N, *shape)``; those of a .npy file stay there until they are looked at.
        beside: a column for each other array ``(N,)`` or ``(N, m)`` of a .npz file.
    """

    inputs: NDArray[Any]
    beside: pd.DataFrame


def is_array_file(path: Path | str) -> bool:
    """Tell whether a file is one of arrays, by its name."""
    return Path(path).suffix in EXTENSIONS


def read_arrays(path: Path | str, targets: tuple[str, ...] = ("y",)) -> ArrayRows:
    """Read rows from a file.

    Args:
        path: a .npy file with the inputs ``(N, *shape)``; or a .npz file, in which they are called X, and targets y.
        targets: what the columns of y are called.

    Raises:
        TableError: if there is no such file, or it holds something else.
    """
    path = Path(path)
    try:
        arrays = _load(path)
    except FileNotFoundError as error:
        raise TableError(f"{path}: there is no such file") from error
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise TableError(f"{path}: is no file of arrays of numbers that can be read: {reason(error)}") from error
    name = next((name for name in INPUTS if name in arrays), None)
    if name is None:
        raise TableError(
            f"{path}: has no array X, but {', '.join(arrays) or 'nothing'}: inputs are called X, targets y"
        )
    inputs = arrays.pop(name)
    if inputs.ndim < 2 or 0 in inputs.shape:
        raise TableError(f"{path}: X has shape {inputs.shape}, but at least one row of at least one number is needed")
    columns: dict[str, Any] = {}
    for called, array in arrays.items():
        columns |= _columns(path, called, array, len(inputs), targets)
    return ArrayRows(inputs, pd.DataFrame(columns, index=pd.RangeIndex(len(inputs))))


def _load(path: Path) -> dict[str, NDArray[Any]]:
    if path.suffix == ".npy":
        return {INPUTS[0]: np.load(path, mmap_mode="r", allow_pickle=False)}
    with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:  # closed if it is damaged, too
        return {name: arrays[name] for name in arrays.files}


def _columns(path: Path, name: str, array: NDArray[Any], rows: int, targets: tuple[str, ...]) -> dict[str, Any]:
    if array.ndim not in (1, 2) or len(array) != rows:
        raise TableError(f"{path}: {name} has shape {array.shape}, but X has {rows} rows: one value for each is needed")
    names = targets if name in TARGETS else (name,)
    parts = [array] if array.ndim == 1 else list(array.T)
    if len(parts) != len(names):
        names = tuple(f"{name}{i + 1}" for i in range(len(parts)))
    return dict(zip(names, parts, strict=True))
