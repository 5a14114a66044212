# SPDX-License-Identifier: Apache-2.0
"""Tables read from files: whatever is wrong with a file is said in one line."""

import gzip
import os

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fpovi.tabular.files import read_table
from fpovi.tabular.writing import write_table
from support.table_files import mixed_frame, put, refused


@pytest.fixture
def frame():
    return mixed_frame()


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
