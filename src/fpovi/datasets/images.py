# SPDX-License-Identifier: Apache-2.0
"""Labelled images: MNIST, Fashion-MNIST, CIFAR-10 and a part of it."""

import gzip
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fpovi._lookup import lookup
from fpovi.datasets.catalogue import cifar10_arrays
from fpovi.datasets.folder import data_file

CLASSES = 10
Pixels: TypeAlias = NDArray[np.float32]
Labels: TypeAlias = NDArray[np.int32]


class ImageData(NamedTuple):
    """Training and test images ``(N, H, W, C)`` in float32 between 0 and 1, and their labels ``(N,)`` in int32."""

    x_train: Pixels
    y_train: Labels
    x_test: Pixels
    y_test: Labels


class ValidatedImages(NamedTuple):
    """Images with some of the training images held out to choose by: ``x_valid`` and ``y_valid``."""

    x_train: Pixels
    y_train: Labels
    x_valid: Pixels
    y_valid: Labels
    x_test: Pixels
    y_test: Labels


def load_images(name: str, folder: Path | str | None = None) -> ImageData:
    """Read a set of labelled images in ten classes.

    Args:
        name: one of :data:`IMAGES`. "cifar10" is the part of CIFAR-10 that ``fpovi data fetch cifar10`` keeps: 10,000
            and 2,000. "cifar10-full" is all of it, the archive of its binary version.
        folder: the data folder; by default what FPOVI_DATA names, else the user's cache.

    Raises:
        FileNotFoundError: the folder lacks a file of the set.
        ValueError: a file holds something else than these images.
    """
    read, part, shape, sizes = lookup(IMAGES, name, "dataset")
    x_train, y_train, x_test, y_test = read(part, folder)
    for images, labels, size in ((x_train, y_train, sizes[0]), (x_test, y_test, sizes[1])):
        if images.shape != (size, *shape) or labels.shape != (size,) or labels.max() >= CLASSES:
            raise ValueError(
                f"{name} has images of shape {images.shape} with labels of shape {labels.shape}, but {(size, *shape)} "
                f"and labels below {CLASSES} are needed: run `fpovi data verify {name}`"
            )
    return ImageData(_pixels(x_train), y_train.astype(np.int32), _pixels(x_test), y_test.astype(np.int32))


def validation_split(data: ImageData, held: int = 10_000, seed: int | None = None) -> ValidatedImages:
    """Hold some training images out to choose by.

    Args:
        data: the images.
        held: how many.
        seed: which, at random; None for the last ones, as is usual for MNIST (50,000 and 10,000).
    """
    size = len(data.y_train)
    if not 0 < held < size:
        raise ValueError(f"held={held} must lie between 1 and {size - 1}, as there are {size} training images")
    order = np.arange(size) if seed is None else np.random.default_rng(seed).permutation(size)
    train, valid = np.sort(order[: size - held]), np.sort(order[size - held :])
    x, y = data.x_train, data.y_train
    return ValidatedImages(x[train], y[train], x[valid], y[valid], data.x_test, data.y_test)


def _pixels(images: NDArray[np.uint8]) -> Pixels:
    pixels = images.astype(np.float32)
    pixels /= 255
    return pixels


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read an array of bytes: two zeros, the number 8, how many axes, their big-endian lengths, and the bytes."""
    try:
        content = gzip.decompress(path.read_bytes())
        if content[:3] != bytes([0, 0, 8]):
            raise ValueError("it does not begin as an idx file of bytes")
        axes = content[3]
        shape = np.frombuffer(content, ">u4", axes, offset=4)
        return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(tuple(map(int, shape)))
    except (OSError, EOFError, zlib.error, ValueError, IndexError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


Read: TypeAlias = Callable[[str, Path | str | None], tuple[NDArray[np.uint8], ...]]


def _of_idx(part: str, folder: Path | str | None) -> tuple[NDArray[np.uint8], ...]:
    names = (f"{stem}-{kind}-ubyte.gz" for stem in ("train", "t10k") for kind in ("images-idx3", "labels-idx1"))
    arrays = [read_idx(path) for path in [data_file(f"{part}/{name}", folder) for name in names]]
    return tuple(array[..., None] if array.ndim == 3 else array for array in arrays)


def _of_npz(part: str, folder: Path | str | None) -> tuple[NDArray[np.uint8], ...]:
    with np.load(data_file(part, folder), allow_pickle=False) as file:
        return tuple(file[name] for name in ("x_train", "y_train", "x_test", "y_test"))


def _of_archive(part: str, folder: Path | str | None) -> tuple[NDArray[np.uint8], ...]:
    path = data_file(part, folder)
    try:
        return cifar10_arrays(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


# name -> how it is read, where in the data folder, shape of an image, how many train and test
IMAGES: dict[str, tuple[Read, str, tuple[int, ...], tuple[int, int]]] = {
    "mnist": (_of_idx, "mnist", (28, 28, 1), (60_000, 10_000)),
    "fashion-mnist": (_of_idx, "fashion_mnist", (28, 28, 1), (60_000, 10_000)),
    "cifar10": (_of_npz, "cifar10/cifar10_subset.npz", (32, 32, 3), (10_000, 2_000)),
    "cifar10-full": (_of_archive, "cifar10/cifar-10-binary.tar.gz", (32, 32, 3), (50_000, 10_000)),
}
