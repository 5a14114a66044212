# SPDX-License-Identifier: Apache-2.0
"""Tables as files: what is written is read back, and whatever is wrong is said in one line."""

import gzip
import os
import resource
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fpovi.tabular.files import (
    READERS,
    WRITERS,
    TableError,
    check_target,
    infer_task,
    read_table,
    write_table,
)

EXTENSIONS = sorted(READERS)


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "number": rng.normal(size=50) * 10 ** rng.uniform(-300, 300, 50),
            "count": rng.integers(-5, 5, 50),
            "word, quoted": rng.choice(['a "b"', "c\td", "e\nf", "ü"], 50),
            "truth": rng.choice([True, False], 50),
            "day": pd.date_range("2024-01-01", periods=50, unit="us"),
            "gaps": [None, 1.5] * 25,
        }
    )


def refused(action, *args, **options) -> str:
    with pytest.raises(TableError) as caught:
        action(*args, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


def put(path, content: bytes):
    path.write_bytes(content)
    return path


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


def test_extensions_may_be_capitals(tmp_path, frame):
    write_table(frame, tmp_path / "TABLE.CSV.GZ")
    assert gzip.decompress((tmp_path / "TABLE.CSV.GZ").read_bytes()).startswith(b"number,count")
    pd.testing.assert_frame_equal(read_table(tmp_path / "TABLE.CSV.GZ"), frame)


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path):
    assert list(read_table(put(tmp_path / "t.csv", b"\xef\xbb\xbfa,b\n1,2\n"))) == ["a", "b"]


@pytest.mark.parametrize(
    ("values", "dates"),
    [
        (["2024-01-01", "2024-02-01"], True),
        (["2024-01-01T10:00:00", "", "2024-02-01T10:00:00"], True),
        (["2024-01-01 10:00", "2024-02-01 11:30"], True),
        (["2024-01-01", "later"], False),
        (["2024-99-99", "2024-01-01"], False),
        (["2024-01-01-a7", "2024-01-02-b9"], False),
        (["1/2/2024", "2/2/2024"], False),
    ],
)
def test_text_becomes_dates_where_all_of_it_is_dates(tmp_path, values, dates):
    path = put(tmp_path / "t.csv", "\n".join(["a,b", *(f"{value},1" for value in values)]).encode())
    assert pd.api.types.is_datetime64_any_dtype(read_table(path)["a"]) is dates


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.csv", b"", "is empty"),
        ("t.parquet", b"", "is empty"),
        ("t.csv", b"\n\n", "has no columns"),
        ("t.csv", b"a,b\n", "has no rows, only the names of 2 columns"),
        ("t.csv", b"a,b,a\n1,2,3\n", "has more than one column called 'a'"),
        ("t.csv", b"a,b\n1,2\n1,2,3\n", "cannot be read as csv: Error tokenizing data"),
        ("t.csv", b"a,b\n1,2,3\n1,2,3\n", "rows have more values than the header has names (2)"),
        ("t.csv", b'a,b\n"1,2\n', "cannot be read as csv"),
        ("t.csv", b"a,b\n1,caf\xe9\n", "is not UTF-8 text"),
        ("t.csv", bytes(range(256)) * 9, "is not text, but a binary file"),
        ("t.tsv", b"a\tb\ta\n1\t2\t3\n", "has more than one column called 'a'"),
        ("t.csv.gz", b"a,b\n1,2\n", "cannot be read: Not a gzipped file"),
        ("t.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 999, mtime=0)[:40], "cannot be read as csv.gz"),
        ("t.csv.gz", gzip.compress(b"a,b\n1,2\n", mtime=0)[:12] + b"garbage" * 9, "cannot be read as csv.gz"),
        ("t.csv.gz", gzip.compress(b"", mtime=0), "has no columns"),
        ("t.parquet", b"PAR1 and then nothing", "cannot be read as parquet"),
        ("t.txt", b"a,b\n1,2\n", "has an unknown extension; use one of .csv, .tsv, .csv.gz, .parquet"),
        ("t", b"a,b\n1,2\n", "has an unknown extension"),
    ],
)
def test_a_file_that_is_no_table_says_why(tmp_path, name, content, said):
    message = refused(read_table, put(tmp_path / name, content))
    assert message.startswith(f"{tmp_path / name}: {said}")


def test_a_parquet_file_cut_short_says_so(tmp_path, frame):
    path = tmp_path / "t.parquet"
    write_table(frame, path)
    whole = path.read_bytes()
    for length in (4, len(whole) // 2, len(whole) - 1):
        assert "cannot be read as parquet" in refused(read_table, put(path, whole[:length]))


def test_a_parquet_file_with_damaged_metadata_says_so(tmp_path):
    schema = pa.schema([("a", pa.int64())], metadata={"pandas": '{"columns": [{"name": "a"}], "index_columns": []}'})
    pq.write_table(pa.table({"a": [1]}, schema=schema), tmp_path / "t.parquet")
    assert "cannot be read as parquet" in refused(read_table, tmp_path / "t.parquet")


def test_a_parquet_file_without_rows_or_columns_says_so(tmp_path, frame):
    frame.head(0).to_parquet(tmp_path / "rows.parquet")
    frame[[]].to_parquet(tmp_path / "columns.parquet")
    assert "has no rows" in refused(read_table, tmp_path / "rows.parquet")
    assert "has no columns" in refused(read_table, tmp_path / "columns.parquet")


def test_what_is_not_there_says_so(tmp_path):
    assert "No such file or directory" in refused(read_table, tmp_path / "t.csv")
    (tmp_path / "d.csv").mkdir()
    assert "is a directory" in refused(read_table, tmp_path / "d.csv")
    assert "File name too long" in refused(read_table, tmp_path / f"{'x' * 300}.csv")


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_what_is_forbidden_says_so(tmp_path, frame):
    path = put(tmp_path / "t.csv", b"a,b\n1,2\n")
    path.chmod(0)
    assert "Permission denied" in refused(read_table, path)
    tmp_path.chmod(0o500)
    assert "Permission denied" in refused(write_table, frame, tmp_path / "new.csv")
    tmp_path.chmod(0o700)


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


def test_one_target_is_a_column_and_several_a_frame(frame):
    X, y = check_target(frame, "number")
    assert "number" not in X
    pd.testing.assert_series_equal(y, frame["number"])
    X, y = check_target(frame, ["number", "count"])
    assert list(X) == ["word, quoted", "truth", "day", "gaps"]
    assert list(y) == ["number", "count"]


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ("nummer", "target: there is no column 'nummer'; did you mean 'number'?"),
        (
            "xyz",
            "target: there is no column 'xyz'; "
            "the columns are 'number', 'count', 'word, quoted', 'truth', 'day', 'gaps'",
        ),
        (["number", "cuont"], "target: there is no column 'cuont'; did you mean 'count'"),
        (["number", "number"], "names a column twice"),
        ([], "no column is named"),
        ("gaps", "column 'gaps' has 25 missing values, the first at row 0"),
        (["number", "count", "word, quoted", "truth", "day"], None),
    ],
)
def test_targets_are_checked(frame, column, said):
    if said is None:
        said = "the table has no columns besides"
        frame = frame.drop(columns="gaps")
    assert said in refused(check_target, frame, column)


@pytest.mark.parametrize(
    ("y", "task"),
    [
        (["a", "b"], "classification"),
        ([True, False], "classification"),
        (pd.Series(["a", "b", "a"]), "classification"),
        (pd.Series(["a", "b"], dtype="category"), "classification"),
        (pd.Series([1.5, 2.5], dtype="category"), "classification"),
        (pd.Series([True, False], dtype="boolean"), "classification"),
        (pd.Series(["a", "b"], dtype=object), "classification"),
        ([0, 1, 1, 0], "classification"),
        (pd.Series([0, 1, 1, 0], dtype="Int64"), "classification"),
        (np.asarray([[0], [1], [1], [0]]), "classification"),
        (np.arange(100) % 10, "classification"),
        (np.arange(100) % 11, "regression"),
        ([1, 2, 3], "regression"),
        ([0.0, 1.0, 1.0, 0.0], "regression"),
        (pd.Series([1, 2.5], dtype=object), "regression"),
        (np.zeros((10, 2), int), "regression"),
        (pd.DataFrame({"a": [1.5, 2.5], "b": [0, 1]}), "regression"),
    ],
)
def test_the_task_follows_from_the_targets(y, task):
    assert infer_task(y) == task


@pytest.mark.parametrize(
    ("y", "said"),
    [
        (pd.to_datetime(["2024-01-01"]), "are neither numbers nor classes"),
        ([1j], "are neither numbers nor classes"),
        (pd.Series([1, "a"], dtype=object), "are neither numbers nor classes"),
        (pd.DataFrame({"a": ["x"], "b": ["y"]}), "several columns of classes"),
        (pd.DataFrame({"a": [True, False], "b": [False, True]}), "several columns of classes"),
    ],
)
def test_targets_that_suit_no_task_say_so(y, said):
    assert said in refused(infer_task, y)
