# SPDX-License-Identifier: Apache-2.0
"""Particles as members of a committee, without the library that asks for them."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from fpovi.adapters import CommitteeClassifier
from support.small_fits import SETTINGS, named_classes

X, Y = named_classes()


@pytest.fixture(scope="module")
def committee():
    import jax

    with jax.numpy_dtype_promotion("standard"):
        return CommitteeClassifier(**SETTINGS).fit(X, Y)


def test_members_are_the_particles(committee):
    probs = np.asarray(committee.predict_dist(X).particle_means)
    members = committee.estimators_
    assert len(members) == SETTINGS["n_particles"]
    for member, expected in zip(members, probs, strict=True):
        np.testing.assert_allclose(member.predict_proba(X), expected, rtol=1e-5)  # normalised, from float32
        assert member.predict(X).tolist() == committee.classes_[expected.argmax(axis=1)].tolist()
    mean = np.mean([member.predict_proba(X) for member in members], axis=0)
    np.testing.assert_allclose(committee.predict_proba(X), mean, rtol=1e-5)


def test_all_particles_or_a_sample_of_them(committee):
    every = committee.sample_proba(X)
    np.testing.assert_allclose(every.sum(axis=2), 1)
    drawn = committee.sample_proba(X, n_samples=30, random_state=0)
    assert drawn.shape == (30, len(X), 3)
    assert all(any(np.array_equal(one, other) for other in every) for one in drawn)


def test_members_need_a_fit():
    with pytest.raises(NotFittedError):
        _ = CommitteeClassifier().estimators_
