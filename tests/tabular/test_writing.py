# SPDX-License-Identifier: Apache-2.0
"""Tables written to files: what is written is read back, and a file is written whole or not at all."""

import os
import resource
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest

from fpovi.tabular.files import READERS, read_table
from fpovi.tabular.writing import WRITERS, write_table
from support.table_files import mixed_frame, put, refused

EXTENSIONS = sorted(READERS)


@pytest.fixture
def frame():
    return mixed_frame()


def test_there_is_a_writer_for_every_reader():
    assert READERS.keys() == WRITERS.keys()


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_what_is_written_is_read_back_to_the_last_digit(tmp_path, frame, extension):
    path = tmp_path / f"table{extension}"
    write_table(frame, path)
    pd.testing.assert_frame_equal(read_table(str(path)), frame, check_exact=True)
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_the_same_table_gives_the_same_bytes(tmp_path, frame, extension):
    for name in ("a", "b"):
        write_table(frame, tmp_path / f"{name}{extension}")
    assert (tmp_path / f"a{extension}").read_bytes() == (tmp_path / f"b{extension}").read_bytes()


def test_an_existing_file_is_kept_unless_forced(tmp_path, frame):
    path = put(tmp_path / "t.csv", b"precious")
    assert "exists already; use force to replace it" in refused(write_table, frame, path)
    assert path.read_bytes() == b"precious"
    write_table(frame, path, force=True)
    assert len(read_table(path)) == len(frame)


def test_a_link_stays_a_link(tmp_path, frame):
    target = put(tmp_path / "target.csv", b"old")
    (tmp_path / "link.csv").symlink_to(target)
    write_table(frame, tmp_path / "link.csv", force=True)
    assert (tmp_path / "link.csv").is_symlink()
    assert len(read_table(target)) == len(frame)


def test_a_new_file_has_the_usual_permissions(tmp_path, frame):
    write_table(frame, tmp_path / "t.csv")
    assert (tmp_path / "t.csv").stat().st_mode == put(tmp_path / "usual", b"").stat().st_mode


@contextmanager
def file_size_limit(size):
    """The nearest thing to a full disk that a process can do to itself: writing past ``size`` fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("extension", EXTENSIONS)
@pytest.mark.parametrize("there", [True, False])
def test_a_disk_that_is_full_leaves_things_as_they_were(tmp_path, extension, there):
    path = tmp_path / f"t{extension}"
    if there:
        put(path, b"precious")
    big = pd.DataFrame({"a": np.random.default_rng(0).normal(size=20_000)})
    with file_size_limit(10_000):
        message = refused(write_table, big, path, force=True)
    assert "cannot be written: " in message
    assert os.listdir(tmp_path) == ([path.name] if there else [])
    assert not there or path.read_bytes() == b"precious"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("t.xlsx", "has an unknown extension"),
        ("nowhere/t.csv", "cannot be written: No such file or directory"),
        ("file.csv/t.csv", "cannot be written: Not a directory"),
        ("folder.csv", "is a directory"),
        (f"{'x' * 300}.csv", "File name too long"),
    ],
)
def test_a_place_that_cannot_be_written_says_why(tmp_path, frame, name, said):
    (tmp_path / "folder.csv").mkdir()
    put(tmp_path / "file.csv", b"")
    assert said in refused(write_table, frame, tmp_path / name)
    assert sorted(os.listdir(tmp_path)) == ["file.csv", "folder.csv"]


def test_a_frame_that_a_format_cannot_hold_says_so(tmp_path):
    odd = pd.DataFrame({"a": [1, "x", [2]]})
    assert "cannot be written" in refused(write_table, odd, tmp_path / "t.parquet")
    assert os.listdir(tmp_path) == []
