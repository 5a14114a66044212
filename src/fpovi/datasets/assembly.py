# SPDX-License-Identifier: Apache-2.0
"""Make the files our loaders read of what public addresses give, and tell whether two such files are the same."""

import hashlib
import io
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Build = Callable[[Sequence[bytes]], bytes]
TRAIN_PER_CLASS, TEST_PER_CLASS = 1000, 200


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


def as_is(parts: Sequence[bytes]) -> bytes:
    """Return the one file that was fetched."""
    (only,) = parts
    return only


def member(name: str) -> Build:
    """Return a function that takes the file ``name`` from a zip archive."""

    def build(parts: Sequence[bytes]) -> bytes:
        with zipfile.ZipFile(io.BytesIO(as_is(parts))) as archive:
            return archive.read(name)

    return build


def regression(parts: Sequence[bytes]) -> bytes:
    """Pack the texts of a UCI set into one ``.npz``: x, y and the test rows of every standard split.

    The texts are the table, the numbers of its feature columns, that of its target, and one per split.
    """
    if not all(part.strip() for part in parts):
        raise ValueError("one of its texts is empty")
    table, features, target, *tests = (np.loadtxt(io.BytesIO(part), ndmin=1) for part in parts)
    (column,) = target.astype(int)
    return _npz(x=table[:, features.astype(int)], y=table[:, column], test_index=np.stack(tests).astype(np.int32))


def cifar10_subset(parts: Sequence[bytes]) -> bytes:
    """Pack the first images of every class of CIFAR-10 into one ``.npz``, from the archive of its binary version."""
    with tarfile.open(fileobj=io.BytesIO(as_is(parts)), mode="r:gz") as archive:

        def batch(name: str) -> NDArray[np.uint8]:
            file = archive.extractfile(f"cifar-10-batches-bin/{name}.bin")
            assert file is not None, f"{name} is not a file"
            return np.frombuffer(file.read(), np.uint8).reshape(-1, 1 + 3 * 32 * 32)

        train = np.concatenate([batch(f"data_batch_{number}") for number in range(1, 6)])
        test = batch("test_batch")
    found: dict[str, NDArray[np.generic]] = {}
    for name, rows, most in (("train", train, TRAIN_PER_CLASS), ("test", test, TEST_PER_CLASS)):
        first = [np.flatnonzero(rows[:, 0] == label)[:most] for label in range(10)]
        index = np.sort(np.concatenate(first))
        images = rows[index, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        found |= {f"x_{name}": images, f"y_{name}": rows[index, 0], f"index_{name}": index.astype(np.int32)}
    return _npz(**found)


def _npz(**arrays: NDArray[np.generic]) -> bytes:
    packed = io.BytesIO()
    np.savez_compressed(packed, **arrays)  # type: ignore[arg-type]
    return packed.getvalue()
