# SPDX-License-Identifier: Apache-2.0
"""The encoder of a whole table: weights are repetitions, JSON keeps every digit, bad tables are refused by name."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from fpovi.tabular import Columns, Encoder, align, learn_encoder, learn_target, merge_rows
from support.frames import every_kind, tables


def heavy(rows=400):
    """A table with a squashed column, a rare level and gaps."""
    rng = np.random.default_rng(1)
    words = pd.Series(rng.choice(list("abcdef"), rows, p=[0.4, 0.3, 0.1, 0.1, 0.05, 0.05]), dtype=object)
    return pd.DataFrame(
        {
            "light": rng.normal(size=rows),
            "heavy": np.where(rng.uniform(size=rows) < 0.1, np.nan, np.exp(3 * rng.normal(size=rows))),
            "word": words.where(rng.uniform(size=rows) < 0.9, None),
        }
    )


def as_json(encoder):
    return json.loads(json.dumps(encoder.to_json(), allow_nan=False))


@settings(max_examples=40, deadline=None)
@given(tables())
def test_json_keeps_every_digit(frame):
    encoder = learn_encoder(frame)
    again = Encoder.from_json(as_json(encoder))
    assert again == encoder
    np.testing.assert_array_equal(again(frame), encoder(frame))


@settings(max_examples=40, deadline=None)
@given(tables())
def test_any_table_becomes_finite_numbers_that_float32_holds(frame):
    encoder = learn_encoder(frame)
    encoded = encoder(frame)
    assert encoded.shape == (len(frame), len(encoder.features))
    assert encoded.dtype == np.float64
    assert np.all(np.isfinite(encoded.astype(np.float32)))


def test_any_kind_of_column_goes_there_and_back():
    frame = every_kind()
    encoder = learn_encoder(frame)
    kinds = dict(zip(*encoder.columns, strict=True))
    assert {name for name, kind in kinds.items() if kind == "category"} == {
        "string", "object of strings", "mixed", "category", "category of numbers", "string[pyarrow]",
    }  # fmt: skip
    assert {name for name, kind in kinds.items() if kind == "time"} == {
        "datetime", "datetime with zone", "object of dates", "timestamp[us][pyarrow]",
    }  # fmt: skip
    assert kinds["timedelta"] == "duration"
    assert list(kinds.values()).count("number") == 6
    assert Encoder.from_json(as_json(encoder)) == encoder
    encoded = pd.DataFrame(encoder(frame), columns=encoder.features)
    for name in frame:
        np.testing.assert_array_equal(encoded[f"{name} is missing"], [0, 1, 0, 0])


@settings(max_examples=40, deadline=None)
@given(tables(), st.data())
def test_a_weight_is_a_number_of_copies(frame, data):
    copies = data.draw(st.lists(st.integers(0, 3), min_size=len(frame), max_size=len(frame)).filter(any))
    rows = np.repeat(np.arange(len(frame)), copies)
    repeated = frame.iloc[data.draw(st.permutations(rows.tolist()))]
    assert learn_encoder(frame, copies) == learn_encoder(repeated)  # to the last bit


@pytest.mark.parametrize("unit", [1.0, 2.0**-900, 2.0**900])
def test_weights_are_copies_for_heavy_tails_and_rare_levels_too(unit):
    frame = heavy()
    copies = np.random.default_rng(2).integers(0, 4, len(frame))
    repeated = frame.iloc[np.repeat(np.arange(len(frame)), copies)].sample(frac=1, random_state=0)
    weighted = learn_encoder(frame, copies * unit, max_categories=3)
    assert weighted.learned[1].squash is not None
    assert weighted.learned[2].other
    assert weighted == learn_encoder(repeated, max_categories=3)


def test_a_fit_is_given_the_same_arrays_for_weights_and_for_copies():
    frame = heavy()
    y, copies = np.sin(frame["light"].to_numpy()), np.random.default_rng(2).integers(0, 4, len(frame))

    def arrays(rows, weight):
        encoder, target = learn_encoder(frame.iloc[rows], weight), learn_target(y[rows], weight)
        return merge_rows(encoder(frame.iloc[rows]), target(y[rows]), weight)

    repeated = np.random.default_rng(3).permutation(np.repeat(np.arange(len(frame)), copies))
    for one, other in zip(arrays(np.arange(len(frame)), copies), arrays(repeated, None), strict=True):
        np.testing.assert_array_equal(one, other)


def test_only_the_ratios_of_weights_matter():
    frame = heavy()
    weight = np.random.default_rng(2).uniform(size=len(frame))
    one, other = (learn_encoder(frame, weight * unit)(frame) for unit in (1.0, 0.3))
    np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)  # 0.3 rounds every weight


def test_rows_of_weight_zero_are_as_if_absent():
    """Whatever they hold: another type, a level of their own, an infinity."""
    frame = pd.DataFrame({"a": pd.Series([1.0, "seven", 3.0], dtype=object), "b": [1.0, np.inf, 2.0]})
    assert learn_encoder(frame, [1, 0, 1]) == learn_encoder(frame.iloc[[0, 2]])


def test_rows_are_counted_with_those_of_weight_zero():
    with pytest.raises(ValueError, match="X has inf in column 0, row 2"):
        learn_encoder([[1.0], [2.0], [np.inf]], [1, 0, 1])


@pytest.mark.parametrize(
    ("weight", "said"),
    [
        ([1, 1], r"weight has shape \(2,\), but one number for each of 3 rows is needed"),
        ([1, -1, 1], r"weight has -1.0 at row 1, but all must be finite and none negative"),
        ([1, 1, math.nan], "weight has nan at row 2"),
        ([0, 0, 0], "weight is 0 everywhere"),
        (["a", "b", "c"], "weight cannot be read as an array of numbers"),
    ],
)
def test_weights_are_checked(weight, said):
    with pytest.raises(ValueError, match=said):
        learn_encoder([[1.0], [2.0], [3.0]], weight)


def test_columns_are_found_by_name_and_others_ignored():
    frame = heavy(20)
    encoder = learn_encoder(frame)
    mixed_up = frame.assign(more="x")[["word", "more", "heavy", "light"]]
    np.testing.assert_array_equal(encoder(mixed_up), encoder(frame))
    assert list(align(mixed_up, encoder.columns)) == ["light", "heavy", "word"]


def test_columns_go_by_position_where_a_side_has_no_names():
    frame = heavy(20)
    np.testing.assert_array_equal(learn_encoder(frame)(frame.to_numpy()), learn_encoder(frame)(frame))
    nameless = learn_encoder(frame.to_numpy())
    assert nameless.columns == Columns(None, ("number", "number", "category"))
    np.testing.assert_array_equal(nameless(frame), learn_encoder(frame)(frame))
    numbered = frame.set_axis([0, 1, 2], axis=1)
    assert learn_encoder(numbered) == nameless


def test_the_index_of_a_frame_does_not_matter():
    frame = heavy(20)
    encoder = learn_encoder(frame)
    np.testing.assert_array_equal(encoder(frame.set_axis([5] * 20, axis=0)), encoder(frame))
    with pytest.raises(ValueError, match="column 'light', row 1"):
        encoder(frame.head(2).assign(light=[0.0, np.inf]).set_axis([7, 7], axis=0))


def test_the_frame_is_left_as_it_was():
    frame = every_kind()
    before = frame.copy(deep=True)
    learn_encoder(frame)(frame)
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.parametrize(
    ("X", "said"),
    [
        (pd.DataFrame({"b": [1.0]}), "X lacks 1 of the columns seen in fit: 'a'"),
        (pd.DataFrame({"x": [1.0]}), "X lacks 2 of the columns seen in fit: 'a', 'b'"),
        (np.ones((2, 3)), "X has 3 features, but 2 were seen in fit"),
        (np.ones((2, 1)), "X has 1 features, but 2 were seen in fit"),
        (np.ones(2), r"X has shape \(2,\), but rows and columns \(N, d\) are needed. Reshape your data"),
        (np.ones((0, 2)), r"X has 0 sample\(s\)"),
    ],
)
def test_tables_with_other_columns_are_refused(X, said):
    with pytest.raises(ValueError, match=said):
        learn_encoder(pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, 2.0]}))(X)


@pytest.mark.parametrize(
    ("X", "said"),
    [
        (np.ones((3, 0)), r"X has 0 feature\(s\) \(shape=\(3, 0\)\) while a minimum of 1 is required"),
        (np.ones((0, 3)), r"X has 0 sample\(s\) \(shape=\(0, 3\)\) while a minimum of 1 is required"),
        (np.ones((2, 2, 2)), r"X has shape \(2, 2, 2\), but rows and columns"),
        ([[1.0, 2.0], [3.0]], r"X has shape \(2,\), but rows and columns"),
        (np.ones((2, 2)) * 1j, "Complex data not supported"),
        (csr_array(np.eye(2)), r"X is sparse, .* use X.toarray\(\)"),
        (np.asarray([[b"a"]]), "X has values of type .S1, but numbers, strings or dates are needed"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "X has more than one column called 'a'"),
        (None, r"X has shape \(\), but rows and columns"),
        ("table.csv", r"X has shape \(\), but rows and columns"),
    ],
)
def test_what_is_no_table_is_refused(X, said):
    with pytest.raises(ValueError, match=said):
        learn_encoder(X)


@pytest.mark.parametrize("bad", [0, -1, 2.5, True, "3"])
def test_max_categories_is_checked(bad):
    with pytest.raises(Exception, match="max_categories"):  # under test, the type checker may be first
        learn_encoder([["a"], ["b"]], max_categories=bad)


def test_a_column_without_values_is_left_out_whatever_comes_later():
    encoder = learn_encoder(pd.DataFrame({"e": [None, None], "x": [1.0, 2.0]}))
    assert encoder.features == ("x",)
    np.testing.assert_array_equal(encoder(pd.DataFrame({"e": ["new"], "x": [1.0]})), [[-1.0]])


def test_where_nothing_varies_there_is_one_column_of_zeros():
    encoder = learn_encoder(np.ones((3, 2)))
    assert encoder.features == ("nothing varies",)
    np.testing.assert_array_equal(encoder(np.zeros((2, 2))), np.zeros((2, 1)))


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.just(10**400)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=5,
)


def places(fields, path=()):
    """The paths to every value inside plain JSON."""
    yield path
    inner = fields.items() if isinstance(fields, dict) else enumerate(fields) if isinstance(fields, list) else ()
    for key, value in inner:
        yield from places(value, (*path, key))


def replaced(fields, path, value):
    if not path:
        return value
    copy = dict(fields) if isinstance(fields, dict) else list(fields)
    copy[path[0]] = replaced(fields[path[0]], path[1:], value)
    return copy


STORED = as_json(learn_encoder(heavy(300), max_categories=3))


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(list(places(STORED))), JSON)
def test_hostile_json_is_a_value_error_or_an_encoder_that_works(path, value):
    try:
        encoder = Encoder.from_json(replaced(STORED, path, value))
    except ValueError:
        return
    frame = heavy(20)
    try:
        encoded = encoder(frame)
    except ValueError:  # another name or level than the table has
        return
    assert np.all(np.isfinite(encoded))
    assert Encoder.from_json(as_json(encoder)) == encoder


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ((), [], "encoder must be an object with columns, names"),
        (("names",), ["a", "a", "b"], "names must not hold the same string twice"),
        (("names",), ["a"], "as many as there are names"),
        (("columns",), [], "columns must hold at least one"),
        (("columns", 0, "kind"), "pickle", "kind='pickle' is not known"),
        (("columns", 0, "kind"), ["number"], "kind of a column must be a string"),
        (("columns", 0, "scale"), 0.0, "scale must be positive"),
        (("columns", 0, "scale"), math.inf, "scale must be a finite number"),
        (("columns", 0, "shift"), math.nan, "shift must be a finite number"),
        (("columns", 0, "shift"), 10**400, "shift must be a finite number"),
        (("columns", 0, "shift"), True, "shift must be a finite number"),
        (("columns", 0, "missing"), 1, "missing must be true or false"),
        (("columns", 0), {"kind": "number"}, "column must be an object with kind, missing, scale, shift, squash"),
        (("columns", 1, "squash"), [1.0], "squash must be a centre and a positive scale"),
        (("columns", 1, "squash"), [1.0, -1.0], "squash must be a centre and a positive scale"),
        (("columns", 2, "levels"), ["b", "a", "c"], "levels must be sorted"),
        (("columns", 2, "levels"), [1, 2, 3], "levels must be a string"),
        (("columns", 2, "share"), [0.5, 0.5], "share must hold one positive number per level"),
        (("columns", 2, "share"), [0.5, 0.5, 0.5, 0.5], "in total 1"),
    ],
)
def test_json_that_is_wrong_says_where(path, value, said):
    with pytest.raises(ValueError, match=said):
        Encoder.from_json(replaced(STORED, path, value))


def test_the_stored_example_has_every_field():
    """So that the tests above reach them all."""
    light, heavy_tailed, word = STORED["columns"]
    assert light["scale"] > 0
    assert heavy_tailed["squash"] is not None
    assert word["other"]
    assert word["missing"]
