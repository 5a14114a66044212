# SPDX-License-Identifier: Apache-2.0
"""Uncertainty against its formulas, and what it is worth against scikit-learn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from sklearn import metrics

from fpovi.calibration import evaluate
from fpovi.likelihoods import categorical, gaussian
from fpovi.predictive import Predictive
from fpovi.robustness import Redrawn, ood_scores, uncertainties, under_attack
from support.linear_classifiers import log_probs, rows, weights

RNG = np.random.default_rng(0)
X, Y = rows()


def ensemble(rows, spread, particles=5, seed=0):
    """Return log-probabilities (n, N, 4) of particles that differ by ``spread``."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(rows, 4)) + spread * rng.normal(size=(particles, rows, 4))
    return np.asarray(jax.nn.log_softmax(jnp.asarray(logits, jnp.float32)))


def naive(f):
    """Return the four uncertainties of log-probabilities, pair by pair."""
    p = np.exp(np.asarray(f, float))
    mean, n = p.mean(axis=0), len(p)
    entropy = stats.entropy(mean, axis=-1)
    votes = p.argmax(axis=-1)
    pairs = [votes[i] != votes[j] for i in range(n) for j in range(n) if i != j]
    return {
        "entropy": entropy,
        "mutual_information": entropy - stats.entropy(p, axis=-1).mean(axis=0),
        "disagreement": np.mean(pairs, axis=0),
        "max_probability": 1 - mean.max(axis=-1),
    }


def test_uncertainties_are_their_formulas():
    f = ensemble(30, 1.0)
    found, expected = uncertainties(f), naive(f)
    assert list(found) == list(expected)
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], atol=1e-6)  # probabilities of float32 log-probabilities
    predictive = Predictive(categorical(), jnp.asarray(f), (), jnp.zeros(()), jnp.ones(()))
    np.testing.assert_array_equal(uncertainties(predictive)["entropy"], found["entropy"])


def test_one_particle_never_disagrees():
    found = uncertainties(ensemble(6, 1.0, particles=1))
    assert found["disagreement"].tolist() == [0.0] * 6
    np.testing.assert_allclose(found["mutual_information"], 0, atol=1e-12)


def test_ood_scores_are_those_of_scikit_learn():
    inside, outside = ensemble(60, 0.2), ensemble(40, 1.5, seed=1)
    found, known, foreign = ood_scores(inside, outside), uncertainties(inside), uncertainties(outside)
    assert len(found) == 12
    for name in known:
        flags, scores = np.repeat([0, 1], [60, 40]), np.concatenate([known[name], foreign[name]])
        fpr, tpr, _ = metrics.roc_curve(flags, scores, drop_intermediate=False)
        assert found[f"auroc_{name}"] == pytest.approx(metrics.roc_auc_score(flags, scores), rel=1e-12)
        assert found[f"aupr_{name}"] == pytest.approx(metrics.average_precision_score(flags, scores), rel=1e-12)
        assert found[f"fpr95_{name}"] == pytest.approx(fpr[np.argmax(tpr >= 0.95)], rel=1e-12)


def test_a_report_has_the_scores_of_the_ensemble_and_its_mean_uncertainty():
    model = log_probs(weights())
    f = np.asarray(model(jnp.asarray(X)))
    predictive = Predictive(categorical(), jnp.asarray(f), (), jnp.zeros(()), jnp.ones(()))
    found = under_attack(model, X, Y, block=4)
    expected = {**evaluate(predictive, Y), **{name: values.mean() for name, values in naive(f).items()}}
    assert found == pytest.approx(expected, abs=1e-5)  # blocks are compiled otherwise than the whole
    drawn = Redrawn(lambda key: log_probs(weights()))
    assert under_attack(drawn, X, Y) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("predicted", "said"),
    [
        (np.zeros((3, 4)), r"shape \(particles, rows, classes\) are needed, but these have shape \(3, 4\)"),
        (np.full((1, 3, 2), np.nan), "above 0 or NaN"),
        (np.full((1, 3, 2), 0.5), "above 0 or NaN"),
        (np.zeros((1, 3, 2), int), "are needed"),
    ],
)
def test_what_is_no_log_probability_is_said(predicted, said):
    with pytest.raises(ValueError, match=said):
        uncertainties(predicted)


def test_numbers_have_other_uncertainties():
    numbers = Predictive(gaussian(), jnp.zeros((2, 3, 1)), jnp.zeros(2), jnp.zeros(()), jnp.ones(()))
    with pytest.raises(ValueError, match="uncertainties are those of classes"):
        ood_scores(numbers, numbers)
