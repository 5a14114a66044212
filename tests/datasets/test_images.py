# SPDX-License-Identifier: Apache-2.0
import gzip
import io
import os
import tarfile

import numpy as np
import pytest

from fpovi.datasets.catalogue import DATASETS, cifar10_arrays
from fpovi.datasets.images import IMAGES, ImageData, load_images, read_idx, validation_split

needs_data = pytest.mark.skipif(not os.environ.get("FPOVI_DATA"), reason="FPOVI_DATA names no folder with data files")


@needs_data
@pytest.mark.parametrize("name", [name for name in IMAGES if name != "cifar10-full"])  # few have it
def test_set_has_the_published_shape_and_range(name):
    _, _, shape, (train, test) = IMAGES[name]
    data = load_images(name)
    for images, labels, size in ((data.x_train, data.y_train, train), (data.x_test, data.y_test, test)):
        assert images.shape == (size, *shape)
        assert images.dtype == np.float32
        assert (images.min(), images.max()) == (0, 1)
        assert labels.shape == (size,)
        assert labels.dtype == np.int32
        assert set(labels) == set(range(10))


@needs_data
def test_first_labels_are_the_published_ones():
    assert load_images("mnist").y_train[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert load_images("fashion-mnist").y_train[:5].tolist() == [9, 0, 0, 3, 0]  # an ankle boot first
    assert load_images("cifar10").y_train[:5].tolist() == [6, 9, 9, 4, 1]  # a frog, two trucks, …


@needs_data
def test_images_are_the_right_way_up():
    # a trouser has two legs: empty between them below, and none above
    data = load_images("fashion-mnist")
    mean = data.x_train[data.y_train == 1].mean(axis=0)[..., 0]
    assert mean[24, 13:15].max() < 0.5 * mean[3, 13:15].min()


def numbered(rows=10):
    """Images whose pixels and labels are their number, so that a split shows where each went."""
    y = np.arange(rows, dtype=np.int32)
    return ImageData(np.broadcast_to(y[:, None, None, None] / 255, (rows, 2, 2, 1)).astype(np.float32), y,
                     np.zeros((3, 2, 2, 1), np.float32), np.zeros(3, np.int32))  # fmt: skip


def test_the_last_images_are_held_out_without_a_seed():
    split = validation_split(numbered(), held=3)
    assert split.y_train.tolist() == list(range(7))
    assert split.y_valid.tolist() == [7, 8, 9]


def test_a_seed_chooses_other_images_and_always_the_same():
    first, again, other = (validation_split(numbered(), 3, seed) for seed in (0, 0, 1))
    assert first.y_valid.tolist() == again.y_valid.tolist() != other.y_valid.tolist()
    assert sorted([*first.y_train, *first.y_valid]) == list(range(10))


def test_images_stay_with_their_labels():
    split = validation_split(numbered(), 3, seed=2)
    np.testing.assert_allclose(split.x_train[:, 0, 0, 0] * 255, split.y_train, rtol=1e-6)  # a rounding of float32
    np.testing.assert_allclose(split.x_valid[:, 1, 1, 0] * 255, split.y_valid, rtol=1e-6)


@pytest.mark.parametrize("held", [0, 10, -1])
def test_some_must_stay_on_both_sides(held):
    with pytest.raises(ValueError, match=rf"held={held} must lie between 1 and 9"):
        validation_split(numbered(), held)


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"dataset='mnits' is not known; .*mnist"):
        load_images("mnits")


@pytest.mark.parametrize("name", IMAGES)
def test_missing_file_says_how_to_get_it(name, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"is not there: set FPOVI_DATA .*fpovi data fetch"):
        load_images(name, tmp_path)


def write_idx(path, array):
    header = bytes([0, 0, 8, array.ndim]) + np.asarray(array.shape, ">u4").tobytes()
    path.write_bytes(gzip.compress(header + array.astype(np.uint8).tobytes()))


def test_idx_files_are_read_back(tmp_path):
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    write_idx(tmp_path / "a.gz", array)
    np.testing.assert_array_equal(read_idx(tmp_path / "a.gz"), array)


def packed(content):
    """Return an archive without its time, which would go into the names of tests."""
    return gzip.compress(content, mtime=0)


@pytest.mark.parametrize(
    "content", [b"", b"no archive", packed(b""), packed(b"text"), packed(bytes([0, 0, 8, 1, 0, 0, 0, 9]))]
)
def test_damaged_files_are_named(content, tmp_path):
    (tmp_path / "a.gz").write_bytes(content)
    with pytest.raises(ValueError, match=r"a\.gz cannot be read"):
        read_idx(tmp_path / "a.gz")


def test_other_shapes_are_refused(tmp_path):
    (tmp_path / "mnist").mkdir()
    for stem in ("train", "t10k"):
        write_idx(tmp_path / "mnist" / f"{stem}-images-idx3-ubyte.gz", np.zeros((4, 5, 5)))
        write_idx(tmp_path / "mnist" / f"{stem}-labels-idx1-ubyte.gz", np.zeros(4))
    with pytest.raises(ValueError, match=r"mnist has images of shape \(4, 5, 5, 1\) .*`fpovi data verify mnist`"):
        load_images("mnist", tmp_path)


def archive(files):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as opened:
        for name, content in files.items():
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}.bin")
            member.size = len(content)
            opened.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def test_all_of_cifar_is_read_from_the_archive_that_is_fetched(tmp_path, monkeypatch):
    rows = np.random.default_rng(0).integers(0, 256, (12, 1 + 3072), np.uint8)
    rows[:, 0] %= 10
    names = [*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"]
    files = {name: rows[2 * number : 2 * number + 2].tobytes() for number, name in enumerate(names)}
    (known,) = DATASETS["cifar10-full"].files
    path = tmp_path / known.path
    path.parent.mkdir(parents=True)
    path.write_bytes(archive(files))
    read, part, shape, _ = IMAGES["cifar10-full"]
    assert part == known.path
    monkeypatch.setitem(IMAGES, "cifar10-full", (read, part, shape, (10, 2)))
    data = load_images("cifar10-full", tmp_path)
    assert data.y_train.tolist() == rows[:10, 0].tolist()
    assert data.y_test.tolist() == rows[10:, 0].tolist()
    # green is the second plane, and its fifth row begins after 4·32 bytes
    assert data.x_train[3, 4, 7, 1] == np.float32(rows[3, 1 + 1024 + 4 * 32 + 7]) / 255
    path.write_bytes(archive({**files, "test_batch": rows[:1].tobytes()}))
    with pytest.raises(ValueError, match="cifar10-full has images of shape"):
        load_images("cifar10-full", tmp_path)


@pytest.mark.parametrize("content", [b"", b"no archive", archive({"data_batch_1": b""})])
def test_another_archive_is_refused(content):
    with pytest.raises(ValueError, match="not the archive of CIFAR-10's binary version"):
        cifar10_arrays(content)
