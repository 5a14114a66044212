# SPDX-License-Identifier: Apache-2.0
"""Scores of detectors against scikit-learn, ties included."""

import numpy as np
import pytest
from sklearn import metrics

from fpovi.calibration import ood_aupr, ood_auroc, ood_fpr

RNG = np.random.default_rng(0)


@pytest.fixture(params=[1, 8], ids=["many ties", "no ties"])
def scores(request):
    """Scores of 70 inputs from inside and 40 from outside, and as scikit-learn takes them."""
    inside, outside = RNG.normal(size=70).round(request.param), RNG.normal(1, 1, size=40).round(request.param)
    return inside, outside, (np.repeat([0, 1], [70, 40]), np.concatenate([inside, outside]))


def test_auroc_equals_scikit_learns(scores):
    inside, outside, all_scores = scores
    expected = metrics.roc_auc_score(*all_scores)
    assert ood_auroc(inside, outside) == pytest.approx(expected, rel=1e-12)
    assert ood_auroc(outside, inside) == pytest.approx(1 - expected, rel=1e-12)
    assert ood_auroc(inside, inside) == 0.5
    assert ood_auroc([0.0], [np.inf]) == 1.0


def test_aupr_equals_scikit_learns(scores):
    inside, outside, all_scores = scores
    assert ood_aupr(inside, outside) == pytest.approx(metrics.average_precision_score(*all_scores), rel=1e-12)
    assert ood_aupr([0.0, -np.inf], [np.inf]) == 1.0
    assert ood_aupr([0.0, 0.0, 0.0], [0.0]) == 0.25


@pytest.mark.parametrize("tpr", [0.5, 0.9, 0.95, 1.0])
def test_fpr_is_where_scikit_learns_curve_first_reaches_the_tpr(scores, tpr):
    inside, outside, all_scores = scores
    fpr, reached, _ = metrics.roc_curve(*all_scores, drop_intermediate=False)
    assert ood_fpr(inside, outside, tpr) == pytest.approx(fpr[np.argmax(reached >= tpr)], rel=1e-12)


def test_a_share_is_reached_by_as_many_as_it_takes():
    outside = np.arange(20.0)  # 19 of 20 are .95, and the lowest may be missed
    assert ood_fpr([0.5, 1.0], outside) == 0.5
    assert ood_fpr([0.5, 1.0], outside, tpr=0.951) == 1.0
    with pytest.raises(ValueError, match=r"tpr=0 must lie between 0 and 1"):
        ood_fpr([0.5], outside, tpr=0)


@pytest.mark.parametrize("score", [ood_auroc, ood_aupr, ood_fpr])
@pytest.mark.parametrize(
    ("scores", "said"),
    [([], r"score_out has shape \(0,\)"), ([[1.0]], r"score_out has shape \(1, 1\)"), ([np.nan], "1 values that are")],
)
def test_scores_are_needed(score, scores, said):
    with pytest.raises(ValueError, match=said):
        score([1.0], scores)
