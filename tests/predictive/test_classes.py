# SPDX-License-Identifier: Apache-2.0
"""Class probabilities, entropies and samples of the mixture."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from fpovi.likelihoods import categorical
from fpovi.predictive import predict
from support.mixtures import MADE, ROWS, fitted, mixture, predictive, sample, values


def classes(*probs):
    """Particles that give the classes these probabilities, at one input."""
    with np.errstate(divide="ignore"):
        return predictive(MADE["categorical"], np.log(np.array(probs))[:, None, :])


def test_class_probabilities_are_averaged():
    ours = classes([0.5, 0.3, 0.2], [0.1, 0.1, 0.8])
    np.testing.assert_allclose(ours.probs, [[0.3, 0.2, 0.5]], rtol=1e-6)  # float32, here and below
    for label, p in enumerate([0.3, 0.2, 0.5]):
        np.testing.assert_allclose(ours.log_prob(jnp.asarray([[label]])), [np.log(p)], rtol=1e-6)
        np.testing.assert_array_equal(ours.log_prob([label]), ours.log_prob(np.array([[label]], np.uint8)))


def test_entropy_and_mutual_information_by_hand():
    p, r = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.1, 0.8])
    ours = classes(p, r)
    total, within = stats.entropy((p + r) / 2), (stats.entropy(p) + stats.entropy(r)) / 2
    np.testing.assert_allclose(ours.entropy, [total], rtol=1e-6)  # float32
    np.testing.assert_allclose(ours.mutual_information, [total - within], rtol=1e-5)


def test_particles_that_agree_share_no_information():
    ours = classes(*[[0.7, 0.2, 0.1]] * 3)
    assert 0 <= float(ours.mutual_information[0]) < 1e-6  # float32, never below 0
    np.testing.assert_allclose(ours.entropy, [stats.entropy([0.7, 0.2, 0.1])], rtol=1e-6)


def test_two_particles_certain_of_different_classes_disagree_by_log_two():
    ours = classes([1.0, 0.0], [0.0, 1.0])
    np.testing.assert_allclose(ours.mutual_information, [np.log(2)], rtol=1e-6)  # float32
    np.testing.assert_allclose(ours.entropy, [np.log(2)], rtol=1e-6)


def test_class_samples_have_the_probabilities(key):
    samples = sample(classes([0.5, 0.3, 0.2], [0.1, 0.1, 0.8]), key, 10_000)
    frequency = np.bincount(np.asarray(samples).ravel(), minlength=3) / 10_000
    np.testing.assert_allclose(frequency, [0.3, 0.2, 0.5], atol=5 * (0.25 / 10_000) ** 0.5)  # five standard errors


def test_predict_normalises_classes(key):
    network, state = fitted(key, categorical(), outputs=3)
    probs = predict(network, categorical(), state, jnp.ones((ROWS, 2))).particle_means
    np.testing.assert_allclose(probs.sum(axis=-1), 1, rtol=1e-6)  # float32


def test_classes_must_be_whole_numbers():
    with pytest.raises(ValueError, match=r"y has dtype float32, but classes are integers 0…2"):
        classes([0.5, 0.3, 0.2]).log_prob([[1.0]])


def test_classes_have_no_quantiles_and_numbers_no_entropy():
    with pytest.raises(ValueError, match="classes have no order and so no quantiles"):
        classes([0.5, 0.5]).quantile(0.5)
    for ask in ("probs", "entropy", "mutual_information"):
        for numbers in (mixture()[0], predictive(MADE["bernoulli"], values())):
            with pytest.raises(ValueError, match="are for classes"):
                getattr(numbers, ask)
