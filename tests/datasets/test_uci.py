# SPDX-License-Identifier: Apache-2.0
import os

import numpy as np
import pytest

from fpovi.datasets.uci import UCI, Regression, load_uci, standard_split

needs_data = pytest.mark.skipif(not os.environ.get("FPOVI_DATA"), reason="FPOVI_DATA names no folder with data files")

# rows, features, splits, test rows per split
SHAPES = {
    "boston": (506, 13, 20, 51),
    "concrete": (1030, 8, 20, 103),
    "energy": (768, 8, 20, 77),
    "kin8nm": (8192, 8, 20, 819),
    "naval": (11934, 16, 20, 1193),
    "power": (9568, 4, 20, 957),
    "protein": (45730, 9, 5, 4573),
    "wine-red": (1599, 11, 20, 160),
    "yacht": (308, 6, 20, 31),
}


@needs_data
@pytest.mark.parametrize("name", UCI)
def test_set_has_the_published_shape(name):
    rows, features, splits, test_rows = SHAPES[name]
    data = load_uci(name)
    assert data.x.shape == (rows, features)
    assert data.y.shape == (rows,)
    assert data.test_index.shape == (splits, test_rows)
    assert np.all(np.isfinite(data.x))
    assert np.all(np.isfinite(data.y))


@needs_data
@pytest.mark.parametrize("name", UCI)
def test_every_split_lists_its_test_rows_once(name):
    data = load_uci(name)
    assert all(len(np.unique(rows)) == data.test_index.shape[1] for rows in data.test_index)


def numbered(rows=10):
    """A set whose targets are the row numbers, so that a split shows where each row went."""
    y = np.arange(float(rows))
    return Regression(np.stack([y, -y], axis=1), y, np.array([[7, 2], [0, 9]], np.int32))


@pytest.mark.parametrize("number", [0, 1])
def test_split_is_disjoint_and_complete(number):
    data = numbered()
    split = standard_split(data, number)
    assert set(split.y_test) == set(data.test_index[number])
    assert set(split.y_test).isdisjoint(split.y_train)
    assert sorted([*split.y_train, *split.y_test]) == list(range(10))


def test_inputs_stay_with_their_targets():
    split = standard_split(numbered(), 0)
    np.testing.assert_array_equal(split.x_train, np.stack([split.y_train, -split.y_train], axis=1))
    np.testing.assert_array_equal(split.x_test, np.stack([split.y_test, -split.y_test], axis=1))


@pytest.mark.parametrize("number", [-1, 2])
def test_unknown_split_is_an_error(number):
    with pytest.raises(ValueError, match=rf"split={number} does not exist: this set has splits 0…1"):
        standard_split(numbered(), number)


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"dataset='bostom' is not known; choose one of boston, .*, yacht"):
        load_uci("bostom")


def test_missing_file_says_how_to_point_to_it(tmp_path, monkeypatch):
    monkeypatch.setenv("FPOVI_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"yacht\.npz is not there: set FPOVI_DATA to the folder"):
        load_uci("yacht")


def test_a_folder_that_is_named_wins_over_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("FPOVI_DATA", str(tmp_path / "elsewhere"))
    (tmp_path / "uci").mkdir()
    np.savez(tmp_path / "uci" / "yacht.npz", **numbered()._asdict())
    np.testing.assert_array_equal(load_uci("yacht", tmp_path).y, numbered().y)


def test_without_a_setting_the_users_cache_is_searched(tmp_path, monkeypatch):
    monkeypatch.delenv("FPOVI_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "fpovi" / "uci").mkdir(parents=True)
    np.savez(tmp_path / "fpovi" / "uci" / "yacht.npz", **numbered()._asdict())
    np.testing.assert_array_equal(load_uci("yacht").y, numbered().y)
