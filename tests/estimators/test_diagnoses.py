# SPDX-License-Identifier: Apache-2.0
"""Real fits, sound and not, are told apart."""

import numpy as np
import pytest

from fpovi import BNNRegressor
from fpovi.estimators.base import FitWarning

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
