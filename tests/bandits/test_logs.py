# SPDX-License-Identifier: Apache-2.0
"""Logs are checked row by row, and a policy may be given in several forms that mean the same."""

import numpy as np
import pandas as pd
import pytest

from fpovi.bandits import logs_from_frame, make_logs, policy_probabilities

CONTEXTS = [[0.0], [1.0], [2.0]]
GOOD = {"contexts": CONTEXTS, "arms": ["b", "a", "b"], "rewards": [1, 0, 2.5], "propensities": [0.5, 1.0, 0.25]}


def test_logs_hold_what_was_given():
    logs = make_logs(**GOOD)
    assert logs.names == ("a", "b")
    assert logs.num_rows == 3
    np.testing.assert_array_equal(logs.chosen, [1, 0, 1])
    np.testing.assert_array_equal(logs.rewards, [1.0, 0.0, 2.5])
    np.testing.assert_array_equal(logs.propensities, [0.5, 1.0, 0.25])
    assert logs.all_propensities is None


def test_propensities_of_all_arms_are_kept():
    whole = np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.5, 0.25, 0.25]])
    logs = make_logs(CONTEXTS, ["b", "a", "b"], [1, 0, 2.5], whole, names=["a", "b", "c"])
    np.testing.assert_array_equal(logs.propensities, [0.5, 1.0, 0.25])
    np.testing.assert_array_equal(logs.all_propensities, whole)


def test_a_frame_gives_the_same_logs_as_arrays():
    frame = pd.DataFrame({"x": [0.0, 1.0, 2.0], "did": GOOD["arms"], "got": [1, 0, 2.5], "p": GOOD["propensities"]})
    frame.index = [7, 7, 9]
    logs, expected = logs_from_frame(frame, "did", "got", "p"), make_logs(**GOOD)
    assert list(logs.contexts) == ["x"]
    assert logs.names == expected.names
    for name in ("chosen", "rewards", "propensities"):
        np.testing.assert_array_equal(getattr(logs, name), getattr(expected, name))
    with pytest.raises(ValueError, match="frame has no column 'paid'; it has x, did, got, p"):
        logs_from_frame(frame, "did", "paid", "p")


@pytest.mark.parametrize("arms", [[2, 0, 2], np.array([2, 0, 2]), [(1, "x"), (0, "y"), (1, "x")], [True, False, True]])
def test_arms_are_any_hashable_names(arms):
    assert make_logs(CONTEXTS, arms, [1, 0, 1], [0.5] * 3).chosen.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"propensities": [0.5, 0.0, 0.0]}, r"propensities has 0 for the arm that was chosen, in 2 rows \(1, 2\)"),
        ({"propensities": [0.5, 0.5, -0.1]}, r"propensities has -0.1 .* in 1 rows \(2\)"),
        ({"propensities": [0.5, 1.5, 0.5]}, "propensities has 1.5 for the arm"),
        ({"propensities": [0.5, np.nan, 0.5]}, "propensities has 1 rows that are not finite numbers, the first at ro"),
        ({"propensities": [[0.5, 0.5]] * 2}, "contexts 3, arms 3, rewards 3, propensities 2"),
        ({"propensities": [[0.5, 0.4]] * 3}, "propensities has 3 rows that are not probabilities, the first at row 0"),
        ({"propensities": [[1.0, 0.0]] * 3}, r"propensities has 0 for the arm that was chosen, in 2 rows \(0, 2\)"),
        ({"propensities": [[0.5, 0.3, 0.2]] * 3}, "propensities has 3 columns, but there are 2 arms; names= of make_l"),
        ({"propensities": 0.5}, r"propensities has shape \(\), but \(N,\) or \(N, K\) is needed"),
        ({"rewards": [1, np.inf, 0]}, "rewards has 1 rows that are not finite numbers, the first at row 1: inf"),
        ({"rewards": [1, "much", None]}, "rewards has 2 rows that are not finite numbers, the first at row 1: 'much'"),
        ({"rewards": [1, 2j, 0]}, "rewards has 3 rows that are not finite numbers"),
        ({"rewards": [[1], [2], [3]]}, r"rewards has shape \(3, 1\), but \(N,\) is needed"),
        ({"rewards": [1, 0]}, "contexts 3, arms 3, rewards 2, propensities 3"),
        ({"arms": ["b", None, "b"]}, "arms has a missing value at row 1"),
        ({"arms": ["b", ["a"], "b"]}, r"arms has \['a'\] at row 1, but arms must be hashable"),
        ({"arms": ["b", 1, "b"]}, "arms have names that cannot be sorted: give their order as names="),
        ({"names": ["a", "c"]}, r"arms has 'b' at row 0, but names are \('a', 'c'\)"),
        ({"names": ["a", "b", "a"]}, "every arm needs a name of its own"),
        ({"contexts": 3.0}, "contexts 0, arms 3"),
    ],
)
def test_bad_logs_are_refused_with_the_row(change, said):
    with pytest.raises(ValueError, match=said):
        make_logs(**(GOOD | change))


def test_no_rows_are_refused():
    with pytest.raises(ValueError, match="at least one"):
        make_logs([], [], [], [])


P = np.array([[0.2, 0.8], [0.2, 0.8], [0.2, 0.8]])


@pytest.mark.parametrize(
    "policy",
    [
        P,
        P.tolist(),
        P.astype(np.float32),
        lambda contexts: np.repeat([[0.2, 0.8]], len(contexts), axis=0),
        pd.DataFrame({"b": P[:, 1], "a": P[:, 0]}),
        {"b": 0.8, "a": 0.2},
    ],
    ids=["array", "list", "float32", "function", "frame", "dictionary"],
)
def test_a_policy_has_many_forms(policy):
    # float32 rounds .2 at the eighth digit
    np.testing.assert_allclose(policy_probabilities(make_logs(**GOOD), policy), P, rtol=1e-6)


def test_arms_without_a_column_are_never_chosen():
    np.testing.assert_array_equal(policy_probabilities(make_logs(**GOOD), {"b": 1.0}), [[0.0, 1.0]] * 3)


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (P[:2], "policy has 2 rows, but logs have 3"),
        (P[:, :1], "policy has 1 columns, but there are 2 arms"),
        (P * [1.0, 0.5], "policy has 3 rows that are not probabilities, the first at row 0"),
        ([[1.2, -0.2]] * 3, "policy has 3 rows that are not probabilities"),
        ([[np.nan, 1.0]] * 3, "policy has 3 rows that are not finite numbers"),
        ({"c": 1.0}, r"policy has the arm 'c', but logs have \('a', 'b'\): if it was never chosen"),
        ([0.2, 0.8], r"policy has shape \(2,\), but \(N, K\) is needed"),
    ],
)
def test_bad_policies_are_refused(policy, said):
    with pytest.raises(ValueError, match=said):
        policy_probabilities(make_logs(**GOOD), policy)
