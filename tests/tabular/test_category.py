# SPDX-License-Identifier: Apache-2.0
"""Columns of categories: against scikit-learn's one-hot encoder."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fpovi.tabular import Encoder, learn_encoder


def frame(values):
    return pd.DataFrame({"c": pd.Series(values, dtype=object)})


@pytest.fixture
def words():
    return frame(np.random.default_rng(0).choice(["red", "blue", "green", "Ärger"], 60, p=[0.1, 0.2, 0.3, 0.4]))


def test_levels_are_scikit_learns_centred_and_of_unit_total_variance(words):
    ours = learn_encoder(words)(words)
    theirs = OneHotEncoder(sparse_output=False).fit_transform(words)
    centred = theirs - theirs.mean(axis=0)
    np.testing.assert_allclose(ours, centred / np.sqrt(centred.var(axis=0).sum()), rtol=1e-12, atol=1e-14)  # float64
    assert ours.var(axis=0).sum() == pytest.approx(1, rel=1e-12)
    assert learn_encoder(words).features == ("c=blue", "c=green", "c=red", "c=Ärger")


def test_two_levels_take_one_standardised_column():
    X = frame(["no", "yes", "no", "no", "yes"])
    binary = OneHotEncoder(sparse_output=False, drop="if_binary").fit_transform(X)
    np.testing.assert_allclose(learn_encoder(X)(X), StandardScaler().fit_transform(binary), rtol=1e-12)  # float64


def test_rare_levels_are_put_together_as_by_scikit_learn(words):
    encoder = learn_encoder(words, max_categories=2)
    theirs = OneHotEncoder(sparse_output=False, max_categories=3, handle_unknown="infrequent_if_exist").fit(words)
    later = frame(["red", "blue", "green", "Ärger", "never seen"])
    np.testing.assert_array_equal(encoder(later) > 0, theirs.transform(later) > 0)
    assert encoder.features == ("c=green", "c=Ärger", "c is another")


def test_levels_equally_common_are_kept_in_their_order():
    assert learn_encoder(frame(list("dcba")), max_categories=2).learned[0].levels == ("a", "b")


def test_missing_values_are_zero_and_marked(words):
    gaps = pd.concat([words, frame([None, np.nan, pd.NA])], ignore_index=True)
    ours = learn_encoder(gaps)(gaps)
    np.testing.assert_allclose(ours[:60, :4], learn_encoder(words)(words), rtol=1e-12, atol=1e-14)  # float64
    np.testing.assert_array_equal(ours[60:], [[0, 0, 0, 0, 1]] * 3)
    assert learn_encoder(gaps).features[-1] == "c is missing"


def test_a_single_level_is_left_out():
    encoder = learn_encoder(pd.DataFrame({"c": ["a", "a"], "x": [1.0, 2.0]}))
    assert encoder.features == ("x",)


def test_an_unseen_level_is_named_with_the_known_ones_and_the_knob(words):
    said = (
        "X has 'pink' in column 'c', row 1, where only 'blue', 'green', 'red', 'Ärger' were seen in fit: "
        "unknown='missing' would take it for a missing value"
    )
    with pytest.raises(ValueError, match=said):
        learn_encoder(words)(frame(["red", "pink"]))


def test_only_the_first_known_levels_are_listed():
    with pytest.raises(ValueError, match=r"only 'a', 'b', 'c', 'd', 'e', … were seen"):
        learn_encoder(frame(list("abcdefgh")))(frame(["z"]))


@pytest.mark.parametrize("gaps", [[], [None]])
def test_an_unseen_level_may_count_as_missing(gaps):
    encoder = learn_encoder(frame(["a", "b", "c", *gaps]))
    np.testing.assert_array_equal(encoder(frame(["pink", "a"]), unknown="missing"), encoder(frame([None, "a"])))


def test_a_policy_that_does_not_exist_lists_those_that_do(words):
    with pytest.raises(ValueError, match="unknown='ignore' is not known; choose one of error, missing"):
        learn_encoder(words)(words, unknown="ignore")


@pytest.mark.parametrize("later", [[1, 2], [1.0, 2.0], ["1", "2"], pd.Categorical([1, 2]), [True, 2]])
def test_a_number_is_the_same_level_however_it_is_held(later):
    encoder = learn_encoder(pd.DataFrame({"c": pd.Categorical([1, 2, 2])}))
    np.testing.assert_allclose(encoder(pd.DataFrame({"c": later})), [[-(2**0.5)], [0.5**0.5]], rtol=1e-12)  # by hand


def test_numbers_among_words_are_levels_too():
    mixed = frame(["a", np.float64(np.inf), np.float32(0.5), Decimal("2.50"), Fraction(6, 2), -0.0, True, 10**20])
    assert learn_encoder(mixed).learned[0].levels == ("0", "0.5", "1", "1" + "0" * 20, "2.5", "3", "a", "inf")


def test_a_number_too_large_to_write_is_refused():
    with pytest.raises(ValueError, match="X has values in column 'c' that cannot be written as levels"):
        learn_encoder(frame(["a", Fraction(10**400, 3)]))


def test_categories_that_no_row_has_do_not_count():
    some = pd.DataFrame({"c": pd.Categorical(["a", "b"], categories=["b", "unused", "a"])})
    assert learn_encoder(some) == learn_encoder(frame(["a", "b"]))


@pytest.mark.parametrize("value", [{"a": 1}, [1], b"a", 1j, object()])
def test_what_is_no_plain_value_is_named(value):
    cells = np.empty((2, 1), object)
    cells[0, 0], cells[1, 0] = "a", value
    with pytest.raises(ValueError, match=rf"a {type(value).__name__}, in column 0, row 1, but cells must hold strings"):
        learn_encoder(cells)


def test_a_column_of_many_levels_survives_json():
    encoder = learn_encoder(frame([f"level {i}" for i in range(80)] + [None]))
    assert len(encoder.features) == 52  # fifty kept, the others, missing
    assert Encoder.from_json(encoder.to_json()) == encoder
