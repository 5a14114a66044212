# SPDX-License-Identifier: Apache-2.0
"""Means, standard errors and paired tests agree with scipy's, and tables say what they should."""

import json
import math

import numpy as np
import pytest
from scipy import stats

from fpovi.experiments.harness.statistics import (
    Mean,
    best_methods,
    collect,
    mean_of,
    p_value,
    paired_difference,
    plus_minus,
)
from fpovi.experiments.harness.store import Cell, Row
from fpovi.experiments.harness.view import METRICS, Metric, compare


def splits(values):
    return {("standard", number, 0): float(value) for number, value in enumerate(values)}


def rows(method, values, dataset="yacht", metric="nll", **cell):
    return [
        Row(Cell("uci", method, dataset, split, **cell), {metric: float(value)}, 1.0, {})
        for split, value in enumerate(values)
    ]


@pytest.mark.parametrize("seed", range(3))
def test_mean_and_error_are_scipys(seed):
    values = np.random.default_rng(seed).normal(size=7).tolist()
    assert mean_of(values) == Mean(pytest.approx(np.mean(values)), pytest.approx(stats.sem(values)), 7)


def test_one_split_has_no_error():
    mean = mean_of([2.0])
    assert (mean.value, mean.splits) == (2.0, 1)
    assert math.isnan(mean.error)


def test_no_values_are_an_error():
    with pytest.raises(ValueError, match="values is empty"):
        mean_of([])


@pytest.mark.parametrize("seed", range(5))
def test_the_paired_test_is_scipys(seed):
    rng = np.random.default_rng(seed)
    hard = 5 * rng.normal(size=12)  # what both methods share
    a, b = hard + 0.1 * rng.normal(size=12), hard + 0.08 + 0.1 * rng.normal(size=12)
    difference = paired_difference(splits(a), splits(b))
    oracle = stats.ttest_rel(a, b)
    assert p_value(difference) == pytest.approx(oracle.pvalue)
    assert difference.value / difference.error == pytest.approx(oracle.statistic)
    assert difference.error < 0.2 * mean_of(a.tolist()).error


def test_only_common_splits_are_paired():
    difference = paired_difference(splits([1, 2, 3]), splits([0, 0]))
    assert (difference.value, difference.splits) == (1.5, 2)
    assert paired_difference(splits([1]), {("random", 0, 0): 1.0}) is None


def test_equal_and_constant_differences():
    assert p_value(paired_difference(splits([1, 2]), splits([1, 2]))) == 1
    assert p_value(paired_difference(splits([1, 2, 3]), splits([0, 1, 2]))) == 0
    assert p_value(paired_difference(splits([1]), splits([0]))) == 1


def test_bold_are_the_best_and_those_not_worse():
    hard = np.array([0.0, 3.0, -2.0, 5.0, 1.0, 2.0])
    noise = np.array([0.1, -0.1, 0.05, -0.05, 0.1, -0.1])
    scores = {
        "best": splits(hard),
        "tied": splits(hard + 0.01 + noise),
        "worse": splits(hard + 0.3 + noise),  # far less than the spread of either, but the same on every split
    }
    assert stats.ttest_rel(hard + 0.3 + noise, hard).pvalue < 0.05 < stats.ttest_rel(hard + 0.01 + noise, hard).pvalue
    assert best_methods(scores) == {"best", "tied"}


def test_few_easy_splits_do_not_make_a_method_the_best():
    scores = {"few": splits([0.0]), "all": splits([0.5, 9.0, 8.0])}
    assert best_methods(scores) == {"all"}
    better = {"few": splits([0.0, 8.5, 7.0]), "all": splits([0.5, 9.0, 8.0, 7.0])}
    assert best_methods(better) == {"few", "all"}


def test_five_splits_that_are_better_every_time_are_enough():
    hard = [9.0, 8.0, 7.5, 8.5, 9.5, 1.0, 1.1, 0.9]
    scores = {"five": splits([value - 1 for value in hard[:5]]), "all": splits(hard), "same": splits(hard[:5])}
    assert best_methods(scores) == {"five"}


def test_one_that_is_beaten_on_shared_splits_is_not_best_however_few_it_has():
    """Hard splits come first: the middle one looks best beside ``base`` on its own five, and loses on all of them."""
    scores = {
        "base": splits([5.0] * 20),
        "long": splits([4.0] * 5 + [5.1] * 15),
        "short": splits([4.5, 4.51, 4.52, 4.53, 4.54]),
    }
    assert "short" not in best_methods(scores)
    assert "long" in best_methods(scores)


def test_one_without_a_rival_is_not_best():
    assert best_methods({"alone": splits([1.0, 2.0, 3.0])}) == set()


def test_what_is_not_finite_is_never_best():
    assert best_methods({"lost": splits([math.nan, 0.0]), "found": splits([5.0, 6.0])}) == {"found"}
    assert best_methods({"lost": splits([math.inf])}) == set()


def test_coverage_should_reach_its_target():
    scores = {"low": splits([0.8, 0.81, 0.79]), "right": splits([0.94, 0.95, 0.96]), "high": splits([1.0, 1.0, 0.99])}
    assert best_methods(scores, target=0.95) == {"right"}


@pytest.mark.parametrize(
    ("mean", "options", "text"),
    [
        (Mean(2.5371, 0.1123, 20), {}, "2.54 ± 0.11"),
        (Mean(2.5371, 0.1123, 5), {"expected": 20}, "2.54 ± 0.11 (5)"),
        (Mean(0.000412, 0.0000031, 20), {}, "0.0004120 ± 0.0000031"),
        (Mean(-1.24491, 0.0036, 20), {}, "-1.245 ± 0.004"),
        (Mean(-3.35801, 0.00029, 20), {}, "-3.3580 ± 0.0003"),
        (Mean(12345.6, 0.31, 20), {}, "12345.6 ± 0.3"),
        (Mean(5.2, 31.0, 20), {}, "5 ± 31"),
        (Mean(1234.5, 31.0, 20), {}, "1234 ± 31"),
        (Mean(2.5371, math.nan, 1), {"expected": 3}, "2.54 (1)"),
        (Mean(0.25, 0.0, 3), {}, "0.25"),
        (Mean(0.25, 0.02, 3), {"signed": True}, "+0.250 ± 0.020"),
    ],
)
def test_text_of_a_mean(mean, options, text):
    assert plus_minus(mean, **options) == text


def test_rows_are_told_apart_by_split_its_kind_and_seed():
    both = [*rows("a", [1.0]), *rows("a", [2.0], split_kind="random"), *rows("a", [3.0], seed=1)]
    assert sorted(collect(both, "nll")["yacht"]["a"].values()) == [1, 2, 3]
    assert collect(both, "rmse") == {}


def test_a_table_of_methods():
    given = [
        *rows("ours", [1.0, 2.0, 3.0, 4.0]), *rows("theirs", [1.5, 2.6, 3.4, 4.5]), *rows("few", [1.6, 2.5]),
        *rows("ours", [0.5, 0.6], dataset="boston"),
    ]  # fmt: skip
    labels = {"ours": "f-SVGD", "theirs": "SVGD", "few": "MAP", "absent": "nobody"}
    view = compare(given, labels, "A table", {"nll": Metric("NLL")}, reference="ours")
    assert view.columns == ("set", "score", "f-SVGD", "SVGD", "MAP")
    assert view.lines == [
        ["yacht", "NLL", "**2.50 ± 0.65**", "3.00 ± 0.63", "**2.05 ± 0.45 (2)**"],  # two splits prove little
        ["boston", "NLL", "0.550 ± 0.050", "", ""],
    ]
    theirs = next(record for record in view.records if record["method"] == "theirs")
    oracle = stats.ttest_rel([1.5, 2.6, 3.4, 4.5], [1, 2, 3, 4])
    assert theirs["difference"]["p"] == pytest.approx(oracle.pvalue)
    assert theirs["difference"]["mean"] == pytest.approx(0.5)
    few = next(record for record in view.records if record["method"] == "few")
    assert (few["difference"]["mean"], few["difference"]["splits"]) == (pytest.approx(0.55), 2)
    assert few["difference"]["standard_error"] == pytest.approx(0.05)
    assert not any("difference" in record for record in view.records if record["method"] == "ours")
    assert (theirs["splits"], theirs["best"]) == (4, False)
    json.dumps(view.records, allow_nan=False)


def test_tables_refuse_to_mix():
    mixed = [*rows("a", [1.0]), *rows("a", [1.0], preset="paper")]
    with pytest.raises(ValueError, match="are mixed, but a table is of one experiment and preset"):
        compare(mixed, {"a": "A"}, "")
    with pytest.raises(ValueError, match="reference='b' is not among the methods a"):
        compare(rows("a", [1.0]), {"a": "A"}, "", METRICS, reference="b")
