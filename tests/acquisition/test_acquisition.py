# SPDX-License-Identifier: Apache-2.0
"""Scores of single rows and of batches, against closed forms, SciPy and brute force over all labellings."""

from itertools import product
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import entr, softmax

from fpovi import acquisition
from fpovi.acquisition import ACQUISITIONS, choose
from fpovi.acquisition.labels import LABELLINGS
from fpovi.likelihoods import bernoulli, categorical, student_t
from fpovi.predictive import Predictive
from support.mixtures import MADE, mixture, predictive

X = np.zeros((3, 1))  # what Says answers does not depend on it
FLOAT32 = 1e-5  # particles are float32, and so are their means and noise


class Says(NamedTuple):
    """A model that answers with a given distribution."""

    predictive: Predictive

    def predict_dist(self, X):
        return self.predictive


def gaussian(f, noise, **units):
    """Return a model of one target with function values ``(n, N)`` and one noise scale for all particles."""
    f = np.asarray(f, float)
    return Says(predictive(MADE["gaussian"], f[..., None], np.full(len(f), np.log(np.expm1(noise))), **units))


def labels(probs):
    """Return a model with label probabilities ``(n, N, k)``."""
    return Says(predictive(categorical(), np.log(probs)))


def random_labels(particles=4, rows=6, classes=3, sharpness=2.0):
    logits = sharpness * np.random.default_rng(0).normal(size=(particles, rows, classes))
    return softmax(logits, axis=2).astype(np.float32).astype(float)


def information(probs, rows):
    """Return the mutual information of the labels of some rows and the particle, by all labellings."""
    joint = np.array([
        np.prod([probs[:, row, label] for row, label in zip(rows, labelling, strict=True)], axis=0)
        for labelling in product(range(probs.shape[2]), repeat=len(rows))
    ])  # fmt: skip
    return entr(joint.mean(axis=1)).sum() - entr(joint).sum(axis=0).mean()


@pytest.fixture
def normals():
    """A mixture of four normals at three rows in units of their own, and SciPy's normals."""
    said, twin = mixture(shift=20.0, scale=3.0)
    return Says(said), twin


def test_expected_improvement_is_the_integral(normals):
    model, twin = normals
    for best in (15.0, 20.0, 30.0):
        found = acquisition.expected_improvement(model, X, best=best)
        expected = [
            np.mean([_above(mean, scale, best)
                     for mean, scale in zip(twin.mean()[:, row, 0], twin.std()[:, row, 0], strict=True)])
            for row in range(3)
        ]  # fmt: skip
        np.testing.assert_allclose(found, expected, rtol=FLOAT32)


def _above(mean, scale, best):
    """Return the integral of P(Y > y) from ``best`` on."""
    return integrate.quad(lambda y: stats.norm.sf(y, mean, scale), best, best + max(mean - best, 0) + 12 * scale)[0]


def test_probability_of_improvement_is_the_survival_function(normals):
    model, twin = normals
    found = acquisition.probability_of_improvement(model, X, best=22.0)
    np.testing.assert_allclose(found, twin.sf(22.0).mean(axis=0)[:, 0], rtol=FLOAT32)


def test_small_targets_are_large_ones_with_another_sign(normals):
    model, _ = normals
    mirrored = Says(predictive(MADE["gaussian"], -np.asarray(model.predictive.f), model.predictive.params, -20.0, 3.0))
    for name, options in {
        "expected_improvement": {"best": 18.0}, "probability_of_improvement": {"best": 18.0},
        "upper_confidence_bound": {"beta": 1.5}, "thompson": {"random_state": 3},
    }.items():  # fmt: skip
        other = {name: -value if name == "best" else value for name, value in options.items()}
        score = getattr(acquisition, name)
        np.testing.assert_allclose(
            score(model, X, minimise=True, **options), score(mirrored, X, **other), rtol=FLOAT32, err_msg=name
        )


def test_scores_are_those_of_the_predictive_distribution(normals):
    model, _ = normals
    said = model.predictive
    epistemic, noise = np.asarray(said.epistemic_std)[:, 0], np.asarray(said.aleatoric_std)[:, 0]
    close = {"rtol": FLOAT32}
    np.testing.assert_allclose(acquisition.variance(model, X), epistemic**2, **close)
    np.testing.assert_allclose(acquisition.bald(model, X), np.log1p((epistemic / noise) ** 2) / 2, **close)
    bound = np.asarray(said.mean)[:, 0] + 3 * epistemic
    np.testing.assert_allclose(acquisition.upper_confidence_bound(model, X, beta=3), bound, **close)
    one = acquisition.thompson(model, X, random_state=0)
    assert any(np.allclose(one, means, rtol=FLOAT32) for means in np.asarray(said.particle_means)[..., 0])


def test_scores_of_classes():
    probs = random_labels()
    model, said = labels(probs), labels(probs).predictive
    np.testing.assert_allclose(acquisition.bald(model, X), said.mutual_information, atol=1e-6)  # float32 near 0
    np.testing.assert_allclose(acquisition.entropy(model, X), said.entropy, rtol=FLOAT32)
    np.testing.assert_allclose(acquisition.variance(model, X), probs.var(axis=0).sum(axis=1), rtol=1e-4)
    ordered = np.sort(probs.mean(axis=0), axis=1)
    np.testing.assert_allclose(acquisition.margin(model, X), 1 - ordered[:, -1] + ordered[:, -2], rtol=1e-4)


def test_yes_or_no_is_two_classes():
    f = np.random.default_rng(1).normal(size=(4, 5, 1))
    yes = 1 / (1 + np.exp(-f))
    two = labels(np.concatenate([1 - yes, yes], axis=2))
    model = Says(predictive(bernoulli(), f))
    np.testing.assert_allclose(acquisition.bald(model, X), acquisition.bald(two, X), atol=1e-6)
    np.testing.assert_allclose(acquisition.entropy(model, X), acquisition.entropy(two, X), rtol=FLOAT32)


@pytest.mark.parametrize("n", [1, 2, 4, 5])
def test_a_batch_by_bald_has_the_joint_information_of_its_labels(n):
    probs = random_labels()
    chosen = choose(labels(probs), X, "bald", n, random_state=0)
    assert 3**n <= LABELLINGS
    np.testing.assert_allclose(chosen.scores.sum(), information(probs, chosen.rows), rtol=1e-4)  # float32
    before = chosen.rows[:-1].tolist()
    others = [row for row in range(6) if row not in before]
    assert max(others, key=lambda row: information(probs, [*before, row])) == chosen.rows[-1]


def test_more_labellings_than_are_kept_are_sampled():
    probs = random_labels(particles=8, rows=10, classes=2, sharpness=1.0)
    chosen = choose(labels(probs), X, "bald", 10, random_state=0)
    # 1024 labellings, a quarter of them kept from the ninth row on: rows that add little add it nearly right
    np.testing.assert_allclose(chosen.scores.sum(), information(probs, chosen.rows), rtol=0.02)


def test_bald_goes_on_when_all_particles_are_told_apart():
    sure = np.where(np.arange(2) == np.arange(2)[:, None], 0.999999, 0.000001)[:, None]
    probs = np.repeat(sure, 5, axis=1)  # one label tells everything
    chosen = choose(labels(probs), X, "bald", 4)
    assert len(set(chosen.rows.tolist())) == 4
    np.testing.assert_allclose(chosen.scores, np.log(2), rtol=1e-4)  # each a batch of its own


def test_a_twin_of_a_chosen_row_is_not_asked_for():
    probs = random_labels(rows=3, sharpness=20.0)  # without noise, asking twice tells nothing new
    twins = np.concatenate([probs, probs], axis=1)
    assert len({row % 3 for row in choose(labels(twins), X, "bald", 2).rows.tolist()}) == 2
    f = np.random.default_rng(0).normal(size=(8, 3))
    model = gaussian(np.concatenate([f, f], axis=1), 0.1)
    for what in ("bald", "variance", "expected_improvement"):
        options = {"best": 0.0} if what == "expected_improvement" else {}
        assert len({row % 3 for row in choose(model, X, what, 2, **options).rows.tolist()}) == 2, what


def test_a_batch_of_numbers_has_the_information_of_a_gaussian_process():
    f, noise = np.random.default_rng(2).normal(size=(6, 8)), 0.5
    covariance = np.cov(f, rowvar=False, bias=True)
    chosen = choose(gaussian(f, noise), X, "bald", 4)
    block = covariance[np.ix_(chosen.rows, chosen.rows)]
    expected = np.linalg.slogdet(np.eye(4) + block / noise**2)[1] / 2
    np.testing.assert_allclose(chosen.scores.sum(), expected, rtol=FLOAT32)
    assert np.all(np.diff(chosen.scores) <= 0)


@pytest.mark.parametrize("what", ["variance", "upper_confidence_bound"])
def test_what_is_left_once_rows_are_known(what):
    f, noise = np.random.default_rng(2).normal(size=(6, 8)), 0.5
    covariance = np.cov(f, rowvar=False, bias=True)
    chosen = choose(gaussian(f, noise), X, what, 3)
    known, last = chosen.rows[:2], chosen.rows[2]
    solved = np.linalg.solve(covariance[np.ix_(known, known)] + noise**2 * np.eye(2), covariance[known, last])
    left = covariance[last, last] - covariance[known, last] @ solved
    expected = left if what == "variance" else f.mean(axis=0)[last] + 2 * np.sqrt(left)
    np.testing.assert_allclose(chosen.scores[2], expected, rtol=1e-4)  # float32, after a difference


def test_several_targets_have_information_together_and_alone():
    f = np.random.default_rng(3).normal(size=(5, 4, 2))
    rho = np.full((5, 2), np.log(np.expm1(0.5)))
    both = Says(predictive(MADE["gaussian"], f, rho[:, 0]))
    covariance = [np.cov(f[:, row], rowvar=False, bias=True) for row in range(4)]
    expected = [np.linalg.slogdet(np.eye(2) + block / 0.25)[1] / 2 for block in covariance]
    np.testing.assert_allclose(acquisition.bald(both, X), expected, rtol=1e-4)


def test_the_improvements_of_a_batch_add_up():
    f = np.random.default_rng(4).normal(size=(6, 8))
    best = 1.0
    nearly_exact = gaussian(f, 1e-4)
    chosen = choose(nearly_exact, X, "expected_improvement", 3, best=best)
    gain = np.maximum(f[:, chosen.rows].max(axis=1) - best, 0).mean()
    np.testing.assert_allclose(chosen.scores.sum(), gain, rtol=1e-3)  # noise of 1e-4
    noisy, noise = gaussian(f, 0.5), 0.5
    chosen = choose(noisy, X, "probability_of_improvement", 3, best=best)
    missed = np.prod(stats.norm.cdf(best, f[:, chosen.rows], noise), axis=1).mean()
    np.testing.assert_allclose(chosen.scores.sum(), 1 - missed, rtol=FLOAT32)


def test_thompson_lets_every_particle_choose_once_before_any_chooses_twice():
    f = np.random.default_rng(5).normal(size=(4, 20))
    chosen = choose(gaussian(f, 0.1), X, "thompson", 8, random_state=0)
    free, turns = np.ones(20, bool), []
    for row, score in zip(chosen.rows, chosen.scores, strict=True):
        particle = int(np.argmin(np.abs(f[:, row] - score)))
        assert row == np.argmax(np.where(free, f[particle], -np.inf))
        free[row] = False
        turns.append(particle)
    assert sorted(turns[:4]) == [0, 1, 2, 3]
    assert turns[4:] == turns[:4]


def test_a_likelihood_that_is_no_mixture_of_normals_counts_as_one_with_its_moments():
    f = np.random.default_rng(6).normal(size=(3, 4, 1))
    model = Says(predictive(student_t(df=6.0, noise_scale=0.4), f))
    twin = stats.norm(f[..., 0], 0.4 * np.sqrt(6 / 4))
    found = acquisition.probability_of_improvement(model, X, best=0.5)
    np.testing.assert_allclose(found, twin.sf(0.5).mean(axis=0), rtol=FLOAT32)


def test_large_targets_keep_their_digits(regressor):
    X = np.random.default_rng(0).normal(size=(40, 2))
    mean, _ = regressor.predict(X, return_std=True)
    bound = acquisition.upper_confidence_bound(regressor, X, beta=0.0)
    np.testing.assert_allclose(bound, mean, rtol=1e-5, atol=1e-5)  # float32 in standardised units


def test_pools_of_any_length_give_the_same_scores(classifier):
    X = np.random.default_rng(0).normal(size=(1500, 2))
    whole = acquisition.bald(classifier, X)
    np.testing.assert_array_equal(acquisition.bald(classifier, X[:7]), whole[:7])
    np.testing.assert_array_equal(np.argsort(-whole)[:1], choose(classifier, X, "bald").rows)


def test_every_acquisition_is_a_function_of_its_name():
    assert {name for name in acquisition.__all__ if name.islower()} - {"choose"} == set(ACQUISITIONS)
    with pytest.raises(
        ValueError, match=f"what='entrpy' is not known; choose one of {', '.join(sorted(ACQUISITIONS))}"
    ):
        choose(labels(random_labels()), X, "entrpy")


@pytest.mark.parametrize(
    ("what", "options", "said"),
    [
        ("bald", {"n": 0}, "n=0 must be a whole number from 1 to 3"),
        ("bald", {"n": 4}, "from 1 to 3, the rows of the pool"),
        ("bald", {"n": 1.5}, "whole number"),
        ("bald", {"best": 1.0}, "best is no option of bald, which takes random_state"),
        ("entropy", {}, "entropy is for classes, but these targets are numbers"),
        ("margin", {}, "margin is for classes"),
        ("expected_improvement", {}, "needs best, the largest target seen so far"),
        ("expected_improvement", {"minimise": True}, "needs best, the smallest target"),
        ("probability_of_improvement", {"best": np.nan}, "best=nan must be one finite number"),
        ("probability_of_improvement", {"best": [1.0, 2.0]}, "must be one finite number"),
        ("upper_confidence_bound", {"beta": -1.0}, "beta=-1.0 must be finite and not negative"),
    ],
)
def test_options_that_make_no_sense(normals, what, options, said):
    with pytest.raises(ValueError, match=said):
        choose(normals[0], X, what, **options)


def test_targets_that_cannot_be_ranked(of_two_targets):
    with pytest.raises(ValueError, match="thompson is for numbers, but these targets are classes"):
        acquisition.thompson(labels(random_labels()), X)
    with pytest.raises(ValueError, match="variance is for one target, but there are 2"):
        acquisition.variance(of_two_targets, np.zeros((2, 2)))
    with pytest.raises(ValueError, match="model is a list, but a fitted estimator with predict_dist is needed"):
        acquisition.bald([], X)
    broken = Says(predictive(MADE["gaussian"], np.full((2, 3, 1), jnp.nan), np.zeros(2)))
    with pytest.raises(ValueError, match="not finite"):
        acquisition.bald(broken, X)
