# SPDX-License-Identifier: Apache-2.0
"""Ask for rows of a table from the command line."""

import json

import numpy as np
import pandas as pd
import pytest

from fpovi import acquisition, load
from fpovi.acquisition import ACQUISITIONS, criteria
from fpovi.cli import ask
from support.commands import good, refusal


@pytest.fixture(scope="module")
def folder(tmp_path_factory, regressor, classifier, of_two_targets):
    """Models of numbers, classes and two numbers, and a pool as a table and as arrays."""
    folder = tmp_path_factory.mktemp("ask")
    for name, model in {"numbers": regressor, "classes": classifier, "two": of_two_targets}.items():
        model.save(folder / name)
    X = 3 * np.random.default_rng(0).normal(size=(40, 2))
    np.save(folder / "pool.npy", X)
    np.savez(folder / "pool.npz", X=X, place=np.arange(100, 140))
    pd.DataFrame(X).to_csv(folder / "plain.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def table(folder):
    """A model fitted to a table, and a pool of rows with a column more."""
    import jax

    from fpovi import BNNRegressor
    from support.small_fits import SETTINGS, plane

    X, y = plane()
    with jax.numpy_dtype_promotion("standard"):
        BNNRegressor(**SETTINGS).fit(pd.DataFrame(X, columns=["a", "b"]), y).save(folder / "table")
    pool = pd.DataFrame(np.load(folder / "pool.npy"), columns=["a", "b"]).assign(name=[f"no. {i}" for i in range(40)])
    pool.to_csv(folder / "pool.csv", index=False)
    return pool


def test_rows_are_those_of_the_library(folder, table):
    found = json.loads(good("ask", folder / "table", folder / "pool.csv", "-n", 5, "--json").stdout)
    expected = acquisition.choose(load(folder / "table"), table[["a", "b"]], "bald", 5)
    assert [row["row"] for row in found] == expected.rows.tolist()
    assert [row["name"] for row in found] == [f"no. {row}" for row in expected.rows]
    np.testing.assert_allclose([row["score"] for row in found], expected.scores, rtol=1e-9)  # JSON keeps ten digits


@pytest.mark.parametrize(
    ("options", "best"),
    [
        (["--what", "expected_improvement", "--best", "1.5"], {"best": 1.5}),
        (["--what", "upper_confidence_bound", "--beta", "0.5", "--minimise"], {"beta": 0.5, "minimise": True}),
        (["--what", "thompson", "--seed", "3"], {"random_state": 3}),
    ],
)
def test_options_reach_the_library(folder, options, best):
    found = json.loads(good("ask", folder / "numbers", folder / "pool.npy", *options, "--json").stdout)
    expected = acquisition.choose(load(folder / "numbers"), np.load(folder / "pool.npy"), options[1], 10, **best)
    assert [row["row"] for row in found] == expected.rows.tolist()


def test_a_table_is_written_with_row_and_score(folder, table):
    said = good("ask", folder / "table", folder / "pool.csv", "-n", 4, "--out", folder / "asked.csv").stdout
    assert said.endswith("4 of 40 rows with row, score\n")
    found = pd.read_csv(folder / "asked.csv")
    assert list(found) == ["row", "score", "a", "b", "name"]
    pd.testing.assert_frame_equal(
        found[["a", "b", "name"]], table.iloc[found["row"]].reset_index(drop=True), check_dtype=False
    )
    assert "exists already" in refusal("ask", folder / "table", folder / "pool.csv", "--out", folder / "asked.csv")
    streamed = good("ask", folder / "table", folder / "pool.csv", "-n", 4, "--out", "-").stdout
    assert streamed == (folder / "asked.csv").read_text()


def test_rows_are_shown(folder, table):
    shown = good("ask", folder / "table", folder / "pool.csv", "-n", 3).stdout
    assert "3 of 40 rows to ask for next, by bald" in shown
    assert shown.count("no. ") == 3


def test_arrays_and_what_stands_beside_them(folder):
    found = json.loads(good("ask", folder / "classes", folder / "pool.npz", "-n", 3, "--json").stdout)
    assert [row["place"] - 100 for row in found] == [row["row"] for row in found]
    assert "rows to ask for next" in good("ask", folder / "classes", folder / "pool.npy", "--what", "margin").stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["classes", "pool.npy", "--what", "bold"], "--what='bold' is not known; choose one of bald, entropy"),
        (["numbers", "pool.npy", "--what", "expected_improvement"], "needs best, the largest target seen so far"),
        (["numbers", "pool.npy", "--what", "entropy"], "entropy is for classes"),
        (["classes", "pool.npy", "--what", "thompson"], "thompson is for numbers, but these targets are classes"),
        (["two", "pool.npy", "--what", "variance"], "variance is for one target, but there are 2"),
        (["classes", "pool.npy", "-n", "41"], "n=41 must be a whole number from 1 to 40"),
        (["classes", "pool.npy", "--best", "1"], "best is no option of bald"),
        (["classes", "pool.npy", "--minimise"], "minimise is no option of bald"),
        (["classes", "absent.npy"], "there is no such file"),
        (["absent", "pool.npy"], "absent"),
    ],
)
def test_what_cannot_be_asked(folder, arguments, said):
    model, data, *options = arguments
    line = refusal("ask", folder / model, folder / data, *options)
    assert said in line


def test_a_column_called_score_is_refused(folder, table):
    table.rename(columns={"name": "score"}).to_csv(folder / "taken.csv", index=False)
    line = refusal("ask", folder / "table", folder / "taken.csv")
    assert "taken.csv: has a column 'score' already" in line


def test_the_command_knows_all_acquisitions():
    assert set(ask.KNOWN) == set(ACQUISITIONS)
    drawing = {name for name in ACQUISITIONS if "random_state" in getattr(criteria, name).__annotations__}
    assert set(ask.RANDOM) == drawing
