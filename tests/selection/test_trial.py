# SPDX-License-Identifier: Apache-2.0
"""The trial before a fit: held-out rows choose the scales and the noise."""

import jax
import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from fpovi import BNNRegressor
from fpovi.fitting.fit import Keys
from fpovi.fitting.model_file import PARTS
from fpovi.fitting.parts import make_spec
from fpovi.networks import fan_in_scales
from fpovi.selection.schedule import make_schedule
from fpovi.selection.trial import LEAST_ROWS, NOISES, TRUST, _best_noise, _log_density, tried_scales

pytestmark = pytest.mark.usefixtures("loose_dtypes")  # fits: optax mixes whole and real numbers
SIZES = (2, 16, 1)
MODEL = BNNRegressor((16,), n_particles=4, max_epochs=400)
KEYS = Keys(*jax.random.split(jax.random.key(0), 3))


def spec_of(model):
    return make_spec(SIZES, {name: model.get_params()[name] for name in PARTS})


def tried(model, candidates, rows):
    schedule = make_schedule(model.learning_rate, model.batch_size, model.max_epochs, len(rows[0]))
    return tried_scales(model._run_settings(), schedule, KEYS, spec_of(model), candidates, rows)


def waves(rows):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 2))
    y = np.sin(2 * x[:, :1]) + 0.1 * rng.normal(size=(rows, 1))
    return x, y, np.ones(rows)


def with_inputs(scale, noise=0.1):
    scales = fan_in_scales(SIZES)._replace(noise=np.asarray(noise, np.float32))
    return jax.tree.map(np.asarray, scales._replace(input=scale * scales.input))


@pytest.mark.parametrize("weight", [np.ones(300), np.linspace(0, 2, 300)], ids=["alike", "weighted"])
def test_the_best_noise_against_scipy(weight):
    rng = np.random.default_rng(1)
    f = 0.2 * rng.normal(size=(5, 300, 1))
    y = 0.3 * rng.normal(size=(300, 1))

    def loss(log_noise):
        densities = norm.pdf(y, f, np.exp(log_noise))[..., 0].mean(axis=0)
        return -np.sum(weight * np.log(densities)) + (log_noise - np.log(0.5)) ** 2 / (2 * TRUST**2)

    exact = minimize_scalar(loss, bounds=(-4, 0), method="bounded")
    value, noise = _best_noise(_log_density(f, y, weight), expected=0.5)
    step = np.log(NOISES[1] / NOISES[0])
    assert abs(np.log(noise) - exact.x) <= 0.6 * step  # a grid: no closer than half its spacing
    assert -exact.fun >= value > -exact.fun - 0.5 * 600 * (0.6 * step) ** 2  # curvature 2 per row in log σ


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_scales_that_predict_held_out_rows_win(order):
    flat, good = with_inputs(1e-3), with_inputs(3.0)
    candidates = [[flat, good][i] for i in order]
    found = tried(MODEL, candidates, waves(120))
    np.testing.assert_array_equal(found.input, good.input)
    assert 0.05 < found.noise < 0.25  # .1 in truth; all rows held out once, and what 16 units have not learned


def test_overfitting_is_seen():
    """On few rows without signal, the noise that training leaves is far too small; new rows tell the truth."""
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(60, 2)), rng.normal(size=(60, 1)), np.ones(60)
    found = tried(MODEL, [with_inputs(5.0, noise=0.05)], rows)
    assert found.noise > 0.5  # 1 in truth; the prior around .05 pulls it down


@pytest.mark.parametrize(
    ("model", "rows"),
    [(MODEL, LEAST_ROWS - 1), (BNNRegressor(prior="nngp"), 100), (BNNRegressor(likelihood="student_t"), 100)],
    ids=["few rows", "fixed scales", "another likelihood"],
)
def test_else_the_first_candidate_stays_as_it_is(model, rows):
    first, second = with_inputs(1.0), with_inputs(3.0)
    assert tried(model, [first, second], waves(rows)) is first
