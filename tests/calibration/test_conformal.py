# SPDX-License-Identifier: Apache-2.0
"""Split-conformal coverage against its exact law, for models that are wrong."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from fpovi.calibration import aps, conformal, lac
from fpovi.likelihoods import gaussian
from support.mixtures import MADE, mixture, predictive

WRONG = gaussian(2.0)
LEVEL = 0.9


@pytest.mark.parametrize("rows", [39, 50])
def test_coverage_of_intervals_follows_the_beta_law(rows):
    """y is N(0, 1), the model says N(.3, 2²). Targets are calibrated one by one, so 2000 of them are 2000 calibrations.

    Fixed seed; a right law fails at 1e-3 for one seed in 1000.
    """
    repetitions = 2_000
    y = np.random.default_rng(0).normal(size=(rows, repetitions))
    found = conformal(predictive(WRONG, np.full((1, rows, repetitions), 0.3)), y, LEVEL)
    low, high = found.interval(predictive(WRONG, np.full((1, 1, repetitions), 0.3)))
    covered = stats.norm.cdf(high[0]) - stats.norm.cdf(low[0])
    rank = int(np.ceil((rows + 1) * LEVEL))
    assert stats.kstest(covered, stats.beta(rank, rows + 1 - rank).cdf).pvalue > 1e-3
    assert covered.mean() > LEVEL - 5 * covered.std() / repetitions**0.5  # five standard errors


@pytest.mark.parametrize("score", [aps, lac])
def test_sets_cover_and_not_much_more(score):
    """Classes are drawn from probabilities that the model sharpens; mean coverage over 200 calibrations of 99 rows.

    Exact would be 90 %; including the likeliest class, and no randomisation, can only add.
    """
    rng, rows, new = np.random.default_rng(0), 99, 2_000
    covered = []
    for _ in range(200):
        logits = rng.normal(size=(rows + new, 4))
        y = (rng.uniform(size=(rows + new, 1)) > np.cumsum(special.softmax(logits, axis=1), axis=1)).sum(axis=1)
        f = special.log_softmax(3 * logits, axis=1)[None]
        sets = conformal(classes(f[:, :rows]), y[:rows], LEVEL, score).sets(classes(f[:, rows:]))
        covered.append(sets[np.arange(new), y[rows:]].mean())
    error = np.std(covered) / 200**0.5
    assert LEVEL - 5 * error < np.mean(covered) < LEVEL + 0.03


def classes(log_probs):
    return predictive(MADE["categorical"], log_probs)


@pytest.mark.parametrize(
    ("rows", "level", "rank"),
    [(9, 0.9, 9), (19, 0.9, 18), (20, 0.9, 19), (19, 0.55, 11), (99, 0.99, 99), (10, 0.01, 1)],
)
def test_threshold_is_the_finite_sample_quantile(rows, level, rank):
    """20 · .55 is 11.000000000000002 in floating point, and still 11."""
    ours = predictive(gaussian(1.0), np.zeros((1, rows, 1)))
    y = np.random.default_rng(0).permutation(np.arange(1.0, rows + 1)) * np.where(np.arange(rows) % 2, 1, -1)
    found = conformal(ours, y, level)
    assert found.threshold == pytest.approx([rank])
    low, high = found.interval(ours)
    assert np.sum((low[:, 0] <= y) & (y <= high[:, 0])) == rank


@pytest.mark.parametrize(("rows", "level", "needed"), [(8, 0.9, 9), (98, 0.99, 99), (3, 0.8, 4), (1, 0.55, 2)])
def test_too_few_rows_say_how_many_are_needed(rows, level, needed):
    ours = lambda rows: predictive(WRONG, np.zeros((1, rows, 1)))  # noqa: E731
    with pytest.raises(ValueError, match=f"{rows} calibration rows are too few for level={level}: at least {needed} "):
        conformal(ours(rows), np.zeros(rows), level)
    conformal(ours(needed), np.zeros(needed), level)  # enough


def test_intervals_are_in_the_targets_units_and_as_wide_as_the_model_is_unsure():
    ours, _ = mixture(2, np.array([100.0, -1.0]), np.array([10.0, 0.1]))
    y = np.asarray(ours.mean) + np.array([[1.0, 2.0], [2.0, -1.0], [-3.0, 3.0]]) * np.asarray(ours.std)
    found = conformal(ours, y, 0.75)
    np.testing.assert_allclose(found.threshold, [3, 3], rtol=1e-4)  # float32 near 100
    low, high = found.interval(ours)
    np.testing.assert_allclose((low + high) / 2, ours.mean, rtol=1e-6)
    np.testing.assert_allclose((high - low) / 2, 3 * ours.std, rtol=1e-4)


def test_counts_have_intervals():
    ours = predictive(MADE["poisson"], np.full((1, 9, 1), np.log(4.0)))
    low, high = conformal(ours, np.arange(9)).interval(ours)
    np.testing.assert_allclose([low[0, 0], high[0, 0]], [0, 8], atol=1e-5)  # |y − 4|/2 ≤ 2; float32 log 4


def test_class_scores_by_hand():
    probs = np.array([[0.2, 0.5, 0.3], [1.0, 0.0, 0.0]])
    np.testing.assert_allclose(aps(probs), [[1, 0.5, 0.8], [1, 1, 1]])
    np.testing.assert_allclose(lac(probs), [[0.8, 0.5, 0.7], [0, 1, 1]])


def test_sets_grow_where_the_model_is_unsure_and_are_never_empty():
    probs = np.array([[0.98, 0.01, 0.01], [0.4, 0.35, 0.25]])
    cal = classes(np.log(np.array([[0.5, 0.3, 0.2]] * 9))[None])
    found = conformal(cal, [0] * 8 + [1], 0.9, aps)  # threshold .5 + .3
    assert found.threshold == pytest.approx([0.8], rel=1e-6)
    np.testing.assert_array_equal(found.sets(classes(np.log(probs)[None])), [[1, 0, 0], [1, 1, 0]])


def test_yes_or_no_has_sets():
    ours = predictive(MADE["bernoulli"], np.array([3.0, 0.0, -3.0] * 3)[None, :, None])
    sets = conformal(ours, [1, 1, 0] * 3, 0.9).sets(ours)
    np.testing.assert_array_equal(sets[:3], [[0, 1], [1, 1], [1, 0]])
    several = predictive(MADE["bernoulli"], jnp.zeros((1, 9, 2)))
    with pytest.raises(ValueError, match="predictive has 2 targets, but sets are for one"):
        conformal(several, np.zeros((9, 2)))


def test_numbers_and_classes_do_not_mix():
    numbers, named = predictive(WRONG, np.zeros((1, 9, 1))), classes(np.log(np.full((1, 9, 2), 0.5)))
    of_numbers, of_classes = conformal(numbers, np.zeros(9)), conformal(named, np.zeros(9, int))
    for call, said in (
        (lambda: of_numbers.sets(named), "calibrated on numbers: see interval"),
        (lambda: of_classes.interval(numbers), "calibrated on classes: see sets"),
        (lambda: of_numbers.interval(named), "predictive is for classes, but these were calibrated on numbers"),
        (lambda: of_classes.sets(numbers), "predictive is for numbers, but these were calibrated on classes"),
        (lambda: of_numbers.interval(mixture(2)[0]), "predictive has 2 targets, but 1 were calibrated"),
        (lambda: conformal(numbers, np.zeros(9), 1.0), r"level=1\.0 must lie strictly between 0 and 1"),
    ):
        with pytest.raises(ValueError, match=said):
            call()
