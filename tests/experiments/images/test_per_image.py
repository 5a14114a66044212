# SPDX-License-Identifier: Apache-2.0
"""What rows keep of single images, and the paired bootstrap, beside scipy's."""

import numpy as np
import pytest
from scipy import stats

from fpovi.calibration import evaluate
from fpovi.experiments.images.per_image import as_text, compare_on_images, from_text, per_image
from fpovi.predictive import of_classes


def some_log_probs(rng, images, sharpness):
    logits = sharpness * rng.normal(size=(4, images, 10))
    return (logits - np.log(np.exp(logits).sum(axis=2, keepdims=True))).astype(np.float32)


@pytest.fixture
def runs(rng):
    y = rng.integers(10, size=400).astype(np.int32)
    return y, [some_log_probs(rng, 400, sharpness) for sharpness in (1.0, 1.5)]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_means_over_images_are_the_scores_of_evaluate(runs):
    y, fs = runs
    ours, other = (evaluate(of_classes(f), y) for f in fs)
    found = compare_on_images([per_image(fs[0], y)], [per_image(fs[1], y)], draws=10)
    assert found["error"].value == pytest.approx(other["accuracy"] - ours["accuracy"], abs=1e-12)
    # evaluate computes probabilities in float32
    assert found["nll"].value == pytest.approx(ours["nll"] - other["nll"], abs=1e-5)
    assert found["ece"].value == pytest.approx(ours["ece"] - other["ece"], abs=1e-5)


def test_text_keeps_half_precision(runs):
    y, (f, _) = runs
    found = per_image(f, y)
    back = from_text(as_text(found))
    np.testing.assert_array_equal(back.right, found.right)
    np.testing.assert_allclose(back.log_prob, found.log_prob, rtol=2**-10)
    np.testing.assert_allclose(back.confidence, found.confidence, rtol=2**-10)


def test_ranges_are_those_of_scipys_paired_bootstrap(runs):
    y, fs = runs
    a, b = (per_image(f, y) for f in fs)
    found = compare_on_images([a], [b], draws=4000)["nll"]
    theirs = stats.bootstrap(
        (b.log_prob - a.log_prob,), np.mean, n_resamples=4000, method="percentile", rng=np.random.default_rng(1)
    )
    width = found.high - found.low
    # the ends of a range of 4,000 resamples vary by some 2 % of its width
    assert found.low == pytest.approx(theirs.confidence_interval.low, abs=0.06 * width)
    assert found.high == pytest.approx(theirs.confidence_interval.high, abs=0.06 * width)


def test_runs_must_be_paired(runs):
    y, fs = runs
    with pytest.raises(ValueError, match="cannot be paired"):
        compare_on_images([per_image(fs[0], y)], [])
