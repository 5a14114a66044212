# SPDX-License-Identifier: Apache-2.0
"""A table read in chunks is the table read at once, whatever only the last rows show."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fpovi.tabular.files import TableError, read_table
from fpovi.tabular.streams import open_stream, read_texts, text_examples
from fpovi.tabular.writing import write_chunks, write_table

ROWS = 10
COLUMNS = {
    "number": [f"{i}.5" for i in range(10)],
    "whole": [str(i) for i in range(10)],
    "a gap late": [*"1234567", "", "9", "10"],
    "a fraction late": [*"12345678", "9.5", "10"],
    "a word late": ["007", "1.50", "1e3", *"456789", "word"],
    "zeros": [f"00{i}" for i in range(10)],
    "codes and words": ["x", *(f"00{i}" for i in range(9))],
    "truth": ["True", "False"] * 5,
    "truth with a gap late": ["True"] * 8 + ["", "False"],
    "truth, then a number": ["True"] * 9 + ["1"],
    "nothing": [""] * 10,
    "nothing at first": [""] * 8 + ["word", ""],
    "no number at first": [""] * 8 + ["3", ""],
    "too large late": [*"12345678", "18446744073709551615", "9"],
    "too large, and negative": ["-1", *"2345678", "18446744073709551615", "9"],
    "far too large": ["99999999999999999999999"] * 10,
    "infinite late": [*"12345678", "inf", "9"],
    "day": [f"2024-05-{i + 10}" for i in range(10)],
    "day with a gap": [f"2024-05-{i + 10}" for i in range(8)] + ["", "2024-06-01"],
    "a time late": [f"2024-05-{i + 10}" for i in range(9)] + ["2024-06-01 10:30"],
    "thousandths late": [f"2024-05-{i + 10}" for i in range(9)] + ["2024-06-01T10:30:00.125"],
    "billionths late": [f"2024-05-{i + 10}" for i in range(9)] + ["2024-06-01T10:30:00.000000001"],
    "too far for billionths": ["9024-05-17"] + ["2024-06-01T10:30:00.000000001"] * 9,
    "no day at last": [f"2024-05-{i + 10}" for i in range(9)] + ["2024-13-01"],
    "later": [f"2024-05-{i + 10}" for i in range(9)] + ["later"],
    "zone": ["2024-05-17T10:00+02:00"] * 10,
    "zone with gaps at first": [""] * 4 + ["2024-05-17T10:00+02:00"] * 6,
    "two zones": ["2024-05-17T10:00+02:00"] * 9 + ["2024-05-17T10:00+01:00"],
    "a zone late": ["2024-05-17T10:00"] * 9 + ["2024-05-17T10:00+01:00"],
    "a day, then a number": [f"2024-05-{i + 10}" for i in range(9)] + ["7"],
    'quoted, "so"': ["a,b", 'c"d', "e\nf", "ü", " ", "'", ";", "g", "h", "i"],
}


@pytest.fixture
def table(tmp_path):
    """A file of these columns, with an ordinary column at the end so that no line is empty."""
    path = tmp_path / "table.csv"
    pd.DataFrame(COLUMNS).assign(end=range(ROWS)).to_csv(path, index=False)
    return path


def whole(stream):
    return pd.concat(list(stream.chunks()))


@pytest.mark.parametrize("chunk", [1, 3, 4, 9, 10, 100])
def test_chunks_of_text_make_the_whole(table, chunk):
    expected, stream = read_table(table), open_stream(table, chunk)
    assert stream.rows == ROWS
    assert stream.sample.dtypes.to_dict() == expected.dtypes.to_dict()
    for part in stream.chunks():
        assert len(part) <= chunk
        pd.testing.assert_frame_equal(part, expected.loc[part.index], check_exact=True)
    pd.testing.assert_frame_equal(whole(stream), expected, check_exact=True)


def test_examples_stay_few():
    """However many chunks there are, a column keeps at most four texts and one for a gap."""
    rng, texts = np.random.default_rng(0), []
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 10**9, 200), unit="s")
    for start in range(0, 200, 4):
        chunk = [*map(str, days[start : start + 4]), ""]
        texts = text_examples(read_texts([[*texts, *text_examples(read_texts([chunk])[0])]])[0])
        assert len(texts) <= 5
    assert {str(days.min()), str(days.max()), ""} <= set(texts)


@pytest.mark.parametrize("extension", [".csv", ".tsv", ".csv.gz"])
@pytest.mark.parametrize("chunk", [1, 3])
def test_chunks_make_the_file_that_the_whole_makes(table, tmp_path, extension, chunk):
    once, chunks, stream = tmp_path / f"once{extension}", tmp_path / f"chunks{extension}", open_stream(table, chunk)
    write_table(read_table(table), once)
    write_chunks(stream.chunks(), stream.sample, chunks)
    assert chunks.read_bytes() == once.read_bytes()


def typed():
    """Columns of types that text cannot hold, with a gap or something finer always in the last rows."""
    gap = [*range(8), None, 9]
    return {
        "whole": pa.array(gap, pa.int64()),
        "narrow": pa.array(gap, pa.int8()),
        "truth": pa.array([None if i is None else i > 4 for i in gap], pa.bool_()),
        "float": pa.array(range(10), pa.float32()),
        "word": pa.array([None if i is None else f"w{i}" for i in gap]),
        "level": pa.array([None if i is None else f"w{i}" for i in gap]).dictionary_encode(),
        "day": pa.array([None if i is None else datetime.date(2024, 5, i + 1) for i in gap], pa.date32()),
        "time": pa.array([datetime.datetime(2024, 5, 1)] * 9 + [datetime.datetime(2024, 5, 1, 10)], pa.timestamp("us")),
        "zone": pa.array([datetime.datetime(2024, 5, 1)] * 9 + [None], pa.timestamp("ns", "UTC")),
        "span": pa.array([datetime.timedelta(1)] * 9 + [datetime.timedelta(1, 5)], pa.duration("us")),
        "money": pa.array([Decimal("1.25")] * 9 + [Decimal("12345.75")], pa.decimal128(9, 2)),
        "list": pa.array([None] * 9 + [[1, 2]], pa.list_(pa.int32())),
        "nothing": pa.nulls(10, pa.float64()),
    }


@pytest.mark.parametrize("groups", [2, 10])
@pytest.mark.parametrize("chunk", [1, 3, 10])
def test_chunks_of_parquet_make_the_whole(tmp_path, chunk, groups):
    path, copy = tmp_path / "table.parquet", tmp_path / "copy.parquet"
    pq.write_table(pa.table(typed()), path, row_group_size=groups)
    expected, stream = read_table(path), open_stream(path, chunk)
    assert stream.rows == ROWS
    pd.testing.assert_frame_equal(pd.concat([*stream.chunks()]), expected, check_exact=True)
    write_chunks(stream.chunks(), stream.sample, copy, arrow_types=stream.arrow_types)
    pd.testing.assert_frame_equal(read_table(copy), expected, check_exact=True)
    write_table(expected, tmp_path / "once.csv")
    write_chunks(stream.chunks(), stream.sample, tmp_path / "chunks.csv")
    assert (tmp_path / "chunks.csv").read_bytes() == (tmp_path / "once.csv").read_bytes()


def test_a_frame_with_an_index_and_types_of_its_own(tmp_path):
    frame = pd.DataFrame({"a": pd.array([*range(9), None], "Int64"), "b": pd.Categorical(list("abcdefghij"))})
    frame.index = pd.Index(list("klmnopqrst"), name="key")
    frame.to_parquet(tmp_path / "t.parquet")
    expected = read_table(tmp_path / "t.parquet")
    pd.testing.assert_frame_equal(whole(open_stream(tmp_path / "t.parquet", 3)), expected)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", b""),
        ("t.csv", b"\n\n"),
        ("t.csv", b"a,b\n"),
        ("t.csv", b"a,b,a\n1,2,3\n"),
        ("t.csv", b"a,b\n" + b"1,2\n" * 5 + b"1,2,3\n"),
        ("t.csv", b"a,b\n1,2,3\n1,2,3\n"),
        ("t.csv", b"a,b\n" + b"1,2\n" * 5 + b'"1,2\n'),
        ("t.csv", b"a,b\n" + b"1,2\n" * 5 + b"1,caf\xe9\n"),
        ("t.csv.gz", b"a,b\n1,2\n"),
        ("t.parquet", b"PAR1 and then nothing"),
        ("t.txt", b"a,b\n1,2\n"),
    ],
)
def test_a_file_that_is_no_table_is_refused_in_the_same_words(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    said = []
    for read in (read_table, lambda path: open_stream(path, 2)):
        with pytest.raises(TableError) as caught:
            read(tmp_path / name)
        said.append(str(caught.value))
    assert said[0] == said[1] or (name == "t.parquet" and "cannot be read as parquet: " in said[1])


def test_an_error_between_chunks_leaves_no_file(tmp_path):
    def chunks():
        yield pd.DataFrame({"a": np.arange(3)})
        raise ValueError("a bad row")

    with pytest.raises(ValueError, match=r"^a bad row$"):
        write_chunks(chunks(), pd.DataFrame({"a": [0]}), tmp_path / "t.csv")
    assert not list(tmp_path.iterdir())
