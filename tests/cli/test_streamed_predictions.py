# SPDX-License-Identifier: Apache-2.0
"""Predictions of tables larger than memory: the same file, whatever the size of a piece, and no more memory."""

import importlib
import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from fpovi import BNNRegressor
from fpovi.cli import progress
from fpovi.tabular.files import read_table
from support.commands import call, good, refusal

predict = importlib.import_module("fpovi.cli.predict")
data_rows = importlib.import_module("fpovi.cli.rows")
QUICK = ["--prior", "nngp", "--epochs", "5", "--particles", "3", "--hidden", "4", "--quiet"]
ROWS = 30


def mixed(rows=ROWS):
    """Of every type, each with something in its last rows that the first do not show."""
    rng = np.random.default_rng(0)
    last = np.arange(rows) >= rows - 2
    return pd.DataFrame(
        {
            "size": rng.uniform(40, 200, rows).round(3),
            "rooms": np.where(last, np.nan, rng.integers(1, 6, rows)),
            "town": rng.choice(["north", "south"], rows),
            "code": [f"00{i % 3}" for i in range(rows - 1)] + ["x"],
            "built": np.where(last, "2001-05-17 10:30", "1999-01-01"),
            "sold": np.where(last, "", "True"),
            "note": np.where(last, "late", "7"),
            "price": rng.normal(300, 50, rows).round(2),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("streams")
    mixed().to_csv(folder / "table.csv", index=False)
    # whole numbers with a gap in the last rows are 1 in the first, as in a file that was not written by pandas
    text = (folder / "table.csv").read_text().replace(".0,", ",")
    (folder / "table.csv").write_text(text)
    good("fit", folder / "table.csv", "--target", "price", "--drop", "note", "--model", folder / "m.fpovi", *QUICK)
    good("fit", folder / "table.csv", "--target", "town", "--drop", "note", "--model", folder / "c.fpovi", *QUICK)
    return folder


def asked(monkeypatch, chunk, *arguments):
    monkeypatch.setattr(data_rows, "CHUNK", chunk)
    return good("predict", *arguments)


def test_the_file_is_the_same_whatever_the_size_of_a_piece(folder, tmp_path, monkeypatch):
    for model, extension in (("m.fpovi", ".csv"), ("c.fpovi", ".csv.gz"), ("m.fpovi", ".parquet")):
        paths = {chunk: tmp_path / f"{chunk}{extension}" for chunk in (1000, 3)}
        for chunk, path in paths.items():
            told = asked(monkeypatch, chunk, folder / model, folder / "table.csv", "--out", path, "--json").stdout
            assert json.loads(told)["rows"] == ROWS
        if extension == ".parquet":  # with more groups of rows
            pd.testing.assert_frame_equal(*map(read_table, paths.values()), check_exact=True)
        else:
            assert paths[3].read_bytes() == paths[1000].read_bytes()


def test_what_is_printed_is_the_same_whatever_the_size_of_a_piece(folder, tmp_path, monkeypatch):
    arguments = [folder / "m.fpovi", folder / "table.csv"]
    for how in (["--out", "-"], ["--json"], []):
        printed = {chunk: asked(monkeypatch, chunk, *arguments, *how).stdout for chunk in (1000, 3)}
        assert printed[3] == printed[1000]
    assert f"the first 10 of {ROWS} rows" in printed[3]


def test_a_parquet_table_is_read_in_pieces_too(folder, tmp_path, monkeypatch):
    read_table(folder / "table.csv").to_parquet(tmp_path / "table.parquet", row_group_size=7)
    for chunk in (3, 1000):
        asked(monkeypatch, chunk, folder / "m.fpovi", tmp_path / "table.parquet", "--out", tmp_path / f"{chunk}.csv")
    asked(monkeypatch, 3, folder / "m.fpovi", folder / "table.csv", "--out", tmp_path / "text.csv")
    assert (tmp_path / "3.csv").read_bytes() == (tmp_path / "1000.csv").read_bytes()
    assert (tmp_path / "3.csv").read_bytes() == (tmp_path / "text.csv").read_bytes()


FAULTS = {
    "a word among numbers": {"size": (25, "big")},
    "an unknown category": {"town": (25, "west")},
    "infinity": {"size": (25, "inf")},
    "a later fault in an earlier column": {"town": (2, "west"), "size": (25, "inf")},
    "a word comes before all else": {"town": (2, "west"), "size": (1, "inf"), "rooms": (25, "many")},
    "no date": {"built": (25, "later")},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_wrong_is_said_as_of_the_whole_table(folder, tmp_path, monkeypatch, fault):
    table = pd.read_csv(folder / "table.csv", dtype=str, keep_default_na=False)
    for name, (row, value) in FAULTS[fault].items():
        table.loc[row, name] = value
    table.to_csv(tmp_path / "bad.csv", index=False)
    said = []
    for chunk in (1000, 3):
        monkeypatch.setattr(data_rows, "CHUNK", chunk)
        for out in ([], ["--out", tmp_path / "out.csv"], ["--out", tmp_path / "out.parquet"]):
            said.append(refusal("predict", folder / "m.fpovi", tmp_path / "bad.csv", *out))
            assert os.listdir(tmp_path) == ["bad.csv"]
    assert len(set(said)) == 1
    assert "row" in said[0]


def test_ctrl_c_between_pieces_leaves_nothing(folder, tmp_path, monkeypatch):
    columns, calls = predict.prediction_columns, iter(range(4))

    def interrupted(*args):
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return columns(*args)

    monkeypatch.setattr(data_rows, "CHUNK", 3)
    monkeypatch.setattr(predict, "prediction_columns", interrupted)
    result = call("predict", folder / "m.fpovi", folder / "table.csv", "--out", tmp_path / "out.csv")
    assert result.exit_code == 130
    assert result.stderr == "fpovi: stopped; nothing was written\n"
    assert not list(tmp_path.iterdir())


FOOTPRINT = """
import resource, sys
from typer.testing import CliRunner
from fpovi.cli import app
result = CliRunner().invoke(app, ["predict", *sys.argv[1:]])
assert result.exit_code == 0, result.output
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


@pytest.mark.slow
def test_a_million_rows_take_no_more_memory_than_a_hundred_thousand(tmp_path, loose_dtypes):
    rng = np.random.default_rng(0)
    names = [f"x{i}" for i in range(13)]
    X = pd.DataFrame(rng.normal(size=(200, 13)), columns=names)
    BNNRegressor(prior="nngp", max_epochs=5, random_state=0).fit(X, X["x0"]).save(tmp_path / "m.fpovi")
    peaks = []
    for rows in (100_000, 1_000_000):
        with open(tmp_path / "big.csv", "w") as file:
            for first in range(0, rows, 100_000):
                piece = pd.DataFrame(rng.normal(size=(100_000, 13)).round(3), columns=names)
                piece.to_csv(file, index=False, header=first == 0)
        command = [sys.executable, "-c", FOOTPRINT, tmp_path / "m.fpovi", tmp_path / "big.csv", "--out"]
        done = subprocess.run([*map(str, command), str(tmp_path / f"{rows}.csv")], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        peaks.append(int(done.stdout))
        with open(tmp_path / f"{rows}.csv") as file:
            assert sum(1 for _ in file) == rows + 1
    assert peaks[1] - peaks[0] < 30e6  # the allocator's moods; the predictions alone would be 20 MB, the table 100 MB


@pytest.mark.parametrize(("seconds", "shown"), [(1, False), (3, True)])
def test_a_bar_is_shown_after_two_seconds(monkeypatch, seconds, shown):
    moments = iter([0.0, float(seconds)])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(moments, float(seconds)))
    with progress.RowProgress(10, "predict") as bar:
        bar.bar.disable = False  # as on a terminal
        bar.advance(3)
        assert bar.shown is shown
        assert bar.bar.tasks[0].completed == 3
