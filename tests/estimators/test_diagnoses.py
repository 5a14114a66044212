# SPDX-License-Identifier: Apache-2.0
"""Real fits, sound and not, are told apart."""

import numpy as np
import pytest

from fpovi import BNNClassifier, BNNRegressor
from fpovi.estimators import FitWarning

SETTINGS = {"hidden_layer_sizes": (16,), "n_particles": 8, "learning_rate": 0.03, "random_state": 0}


def sine(rows=30):
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, rows)
    return x[:, None], np.sin(2 * x) + 0.1 * rng.normal(size=rows)


def test_a_good_fit_of_a_sine_is_fine(recwarn):
    model = BNNRegressor(**SETTINGS, prior="nngp", max_epochs=2000).fit(*sine())
    found = model.diagnose()
    assert found.fine, str(found)
    assert len(recwarn) == 0


def test_networks_that_all_found_the_same_weights_have_collapsed():
    # in weight space without repulsion, under a prior narrow enough to leave one mode
    model = BNNRegressor(**SETTINGS, prior="flat", space="weight", flow="ensemble", max_epochs=2000)
    with pytest.warns(FitWarning, match="no better than a model that looks at no input"):
        model.fit(*sine())
    with pytest.warns(FitWarning) as caught:
        found = model.diagnose()
    told = "collapse: off the data all particles say the same (try space="
    assert any(str(warning.message).startswith(told) for warning in caught)
    assert "collapse" in {one.name for one in found.complaints}


@pytest.mark.parametrize("epochs", [1, 5, 9])
def test_a_fit_too_short_to_judge_says_so_and_can_be_saved(tmp_path, epochs):
    model = BNNRegressor(**SETTINGS, prior="flat", space="weight", flow="ensemble", max_epochs=epochs).fit(*sine())
    assert "convergence" in {one.name for one in model.fitted_.diagnostics.complaints}
    model.save(tmp_path / "model.fpovi")


def rare(rows=4000):
    """One row in a hundred is of the second class, most of these where a column is 1: worth .016 nats of .053."""
    rng = np.random.default_rng(0)
    x = rng.random(rows) < 0.2
    X = np.column_stack([x, rng.normal(size=rows)])
    return X, (rng.random(rows) < np.where(x, 0.04, 0.002)).astype(int)


@pytest.mark.filterwarnings("error")
def test_a_fit_that_tells_rare_classes_apart_does_not_warn():
    x, y = rare()
    settings = {**SETTINGS, "prior": "flat", "measurement": "train_only", "max_epochs": 20}
    model = BNNClassifier(**settings).fit(x, y)
    skill = model.fitted_.diagnostics.findings[0]
    probs = model.predict_proba(x)[np.arange(len(y)), y]
    share = np.bincount(y) / len(y)
    # all 40 rows of the rare class are looked at, and 216 of the others, whose log-probabilities vary little
    assert skill.value == pytest.approx(np.mean(np.log(probs)) - share @ np.log(share), rel=0.2)
    assert skill.fine
    with pytest.warns(FitWarning, match="no better than a model that looks at no input"):
        BNNClassifier(**settings).fit(np.random.default_rng(1).permutation(x), y)


def test_of_one_class_there_is_nothing_to_learn(recwarn):
    model = BNNClassifier(**{**SETTINGS, "prior": "flat", "max_epochs": 100})
    model.partial_fit(np.arange(32.0)[:, None], np.ones(32, int), classes=[0, 1])
    assert len(recwarn) == 0
