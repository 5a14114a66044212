# SPDX-License-Identifier: Apache-2.0
"""Attacks on linear classifiers, where every step is known, and what holds for attacks on any model."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fpovi.inference.particles import init_particles
from fpovi.networks import fan_in_scales, mlp
from fpovi.robustness import LOSSES, LogProbs, Redrawn, fgsm, iterated_fgsm, pgd, trajectory
from fpovi.robustness.losses import margin
from support.linear_classifiers import CLASSES, FEATURES, gradient, linear, log_probs, probs, rows, weights

WEIGHTS = weights()
ENSEMBLE = log_probs(WEIGHTS)
X, Y = rows()
UNIT = {"low": 0.0, "high": 1.0}
STEPS = {"step": 0.02, "steps": 8, **UNIT}
ROUNDING = 1e-6  # of float32 for numbers below 1


def naive_steps(x, labels, sign, loss, step, steps, radius=np.inf):
    """Take the steps in float64, row by row."""
    moved = []
    for origin, label in zip(np.asarray(x, float), labels, strict=True):
        at = origin
        for _ in range(steps):
            at = at + sign * step * np.sign(gradient(WEIGHTS, at, label, loss))
            at = np.clip(np.clip(at, origin - radius, origin + radius), 0, 1)
        moved.append(at)
    return np.array(moved)


def predicted(x):
    return np.array([probs(WEIGHTS, one).mean(axis=0).argmax() for one in x])


@pytest.mark.parametrize("loss", LOSSES)
def test_fgsm_goes_where_the_gradient_of_a_linear_ensemble_points(loss):
    options = {"epsilon": 0.1, "loss": loss, **UNIT}
    away, to = (naive_steps(X, Y, sign, loss, 0.1, 1) for sign in (1, -1))
    np.testing.assert_allclose(fgsm(ENSEMBLE, X, Y, **options), away, atol=ROUNDING)
    np.testing.assert_allclose(fgsm(ENSEMBLE, X, target=Y, **options), to, atol=ROUNDING)
    own = naive_steps(X, predicted(X), 1, loss, 0.1, 1)
    np.testing.assert_allclose(fgsm(ENSEMBLE, X, **options), own, atol=ROUNDING)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("radius", [None, 0.05])
def test_iterated_fgsm_takes_these_steps_again_and_again(loss, radius):
    found = iterated_fgsm(ENSEMBLE, X, Y, radius=radius, loss=loss, **STEPS)
    expected = naive_steps(X, Y, 1, loss, 0.02, 8, np.inf if radius is None else radius)
    np.testing.assert_allclose(found, expected, atol=10 * ROUNDING)  # of eight sums


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_are_their_formulas(loss):
    p = np.array([[probs(weight[None], x)[0] for x in X] for weight in WEIGHTS])
    mean = p.mean(axis=0)
    expected = {
        "mean_probability": [-np.log(mean[b, y]) for b, y in enumerate(Y)],
        "mean_log": [-np.mean(np.log(p[:, b, y])) for b, y in enumerate(Y)],
        "margin": [np.log(np.delete(mean[b], y).max()) - np.log(mean[b, y]) for b, y in enumerate(Y)],
    }
    found = LOSSES[loss](jnp.log(jnp.asarray(p, jnp.float32)), jnp.asarray(Y, jnp.int32))
    np.testing.assert_allclose(found, expected[loss], atol=1e-5)  # logarithms of float32


def test_a_margin_has_a_direction_where_the_ensemble_is_sure():
    """In float32 a probability above 1 − 6e-8 is 1, and the gradient of its logarithm forgets the label's weights."""
    sure = 1e-2 * weights(1)
    sure[0, :, 0] = [60.0, 60.0, 60.0, -1.0, 0.01]
    x = np.full((1, FEATURES), 0.5, np.float32)
    found = fgsm(log_probs(sure), x, [0], epsilon=0.1, loss="margin", **UNIT)
    np.testing.assert_allclose(found, x + 0.1 * np.sign(gradient(sure, x[0], 0, "margin")), atol=ROUNDING)


def test_pgd_never_leaves_the_ball_or_the_range():
    origin = np.round(X, 1)  # at some places the range is nearer than the ball, at others not
    low, high, radius = 0.25, 0.75, 0.1
    origin = np.clip(origin, low, high)
    found = pgd(ENSEMBLE, origin, Y, radius=radius, step=0.07, steps=5, restarts=3, low=low, high=high)
    assert np.abs(found - origin).max() <= radius + ROUNDING
    assert np.abs(found - origin).max() > 0.9 * radius
    assert low <= found.min() <= found.max() <= high


@pytest.mark.parametrize("aim", [{"y": Y}, {"target": Y}], ids=["away", "to"])
def test_restarts_keep_the_worst_of_each_row(aim):
    options = {"radius": 0.3, "step": 0.01, "steps": 2, **UNIT, **aim}  # too few steps to end at one place
    label, sign = jnp.asarray(Y, jnp.int32), 1 if "y" in aim else -1
    harms = []
    for restarts in (1, 2, 6):
        x = pgd(ENSEMBLE, X, restarts=restarts, **options)
        harms.append(sign * np.asarray(margin(ENSEMBLE(jnp.asarray(x)), label)))
    assert np.all(np.diff(harms, axis=0) >= -ROUNDING)  # the first starts are the same
    assert np.sum(harms[2] > harms[0] + ROUNDING) > len(X) / 2


def test_pgd_from_where_it_is_equals_iterated_fgsm():
    options = {"radius": 0.05, **STEPS}
    np.testing.assert_array_equal(
        pgd(ENSEMBLE, X, Y, random_start=False, **options), iterated_fgsm(ENSEMBLE, X, Y, **options)
    )


def test_a_target_gets_likelier_step_by_step():
    """The mean log-probability of linear classifiers is concave, so a small step against its slope raises it."""
    for loss in ("mean_log", "mean_probability"):
        path = list(trajectory(ENSEMBLE, X, target=2, loss=loss, **STEPS))
        target = np.array([np.exp(f[..., 2]).mean(axis=0) for _, f in path])
        assert np.all(np.diff(target, axis=0) > 0)


def test_a_trajectory_starts_at_x_and_ends_where_the_attack_does():
    path = list(trajectory(ENSEMBLE, X, Y, **STEPS))
    assert len(path) == STEPS["steps"] + 1
    np.testing.assert_array_equal(path[0][0], X)
    np.testing.assert_array_equal(path[-1][0], iterated_fgsm(ENSEMBLE, X, Y, **STEPS))
    for x, f in path:
        np.testing.assert_allclose(f, ENSEMBLE(jnp.asarray(x)), atol=1e-5)  # compiled otherwise
    assert all(np.abs(b - a).max() <= 0.02 + ROUNDING for (a, _), (b, _) in pairwise(path))


@pytest.mark.parametrize("attack", [iterated_fgsm, pgd])
def test_blocks_do_not_change_an_attack(attack):
    options = {"radius": 0.1, **STEPS}
    whole, parts = (attack(ENSEMBLE, X, Y, block=block, **options) for block in (256, 3))
    np.testing.assert_allclose(parts, whole, atol=ROUNDING)


def test_a_key_repeats_an_attack():
    options = {"radius": 0.3, "step": 0.01, "steps": 1, **UNIT}
    first, again, other = (pgd(ENSEMBLE, X, Y, key=jax.random.key(seed), **options) for seed in (5, 5, 6))
    np.testing.assert_array_equal(again, first)
    assert np.abs(other - first).max() > 0.1
    starts = pgd(ENSEMBLE, np.repeat(X[:1], 10, axis=0), Y, **options)
    assert np.ptp(starts, axis=0).min() > 0.1  # each row has its own


def test_one_particle_is_that_network_and_so_are_its_copies():
    network = mlp((FEATURES, 8, CLASSES), scales=fan_in_scales((FEATURES, 8, CLASSES)))
    one, state = init_particles(jax.random.key(0), network, 1)
    theta = jax.tree.map(lambda leaf: leaf[0], one)
    alone = lambda x: jax.nn.log_softmax(network.apply(theta, (), x, False)[0])[None]  # noqa: E731
    copies = LogProbs(network, jax.tree.map(lambda leaf: jnp.repeat(leaf, 4, axis=0), one), state)
    options = {"radius": 0.2, "restarts": 2, **STEPS}
    expected = pgd(alone, X, Y, **options)
    np.testing.assert_allclose(pgd(LogProbs(network, one, state), X, Y, **options), expected, atol=ROUNDING)
    np.testing.assert_allclose(pgd(copies, X, Y, **options), expected, atol=ROUNDING)


def test_ensembles_of_one_shape_share_a_program():
    traced = []

    def counted(weight, x):
        traced.append(x.shape)
        return linear(weight, x)

    models = [jax.tree_util.Partial(counted, jnp.asarray(weights(seed=seed), jnp.float32)) for seed in (0, 1)]
    fgsm(models[0], X, Y, epsilon=0.1, **UNIT)
    iterated_fgsm(models[1], X, target=1, radius=0.1, step=0.01, steps=4, low=-1, high=2)
    assert traced.count(X.shape) == 1  # besides, one row is traced for its shape


def test_drawn_networks_are_drawn_anew_for_every_gradient():
    """Two networks that pull in opposite directions: one draw never turns back, fresh ones do."""
    strong = jnp.zeros((1, FEATURES, CLASSES)).at[:, :, 0].set(1.0)

    def draw(key):
        return log_probs(jnp.where(jax.random.bernoulli(key), strong, -strong))

    options = {"step": 0.01, "steps": 30, "low": 0.0, "high": 1.0}
    moved = [x[0, 0] for x, _ in trajectory(Redrawn(draw), X, target=0, **options)]
    signs = np.sign(np.diff(moved))
    assert {-1.0, 1.0} == set(signs.tolist())
    again = [x[0, 0] for x, _ in trajectory(Redrawn(draw), X, target=0, **options)]
    np.testing.assert_array_equal(again, moved)
    other = trajectory(Redrawn(draw), X, target=0, key=jax.random.key(1), **options)
    assert [x[0, 0] for x, _ in other] != moved


def test_gradients_of_many_draws_are_averaged():
    """With "mean_log" the gradient is the mean over draws: of noise about a network, that of the network."""
    centre = jnp.asarray(WEIGHTS[:1], jnp.float32)
    noisy = lambda key: log_probs(centre + 0.5 * jax.random.normal(key, (400, FEATURES, CLASSES)))  # noqa: E731
    found = fgsm(Redrawn(noisy), X, Y, epsilon=0.1, loss="mean_log", **UNIT)
    slope = np.array([gradient(WEIGHTS[:1], x, y, "mean_log") for x, y in zip(X, Y, strict=True)])
    clear = np.abs(slope) > 0.2  # several standard errors of a mean of 400
    assert clear.mean() > 0.6
    np.testing.assert_array_equal(np.sign(found - X)[clear], np.sign(slope)[clear])


def test_steps_and_ranges_may_differ_from_entry_to_entry():
    step = 0.01 * np.arange(1, FEATURES + 1)
    low, high = np.full(FEATURES, -np.inf), np.full(FEATURES, np.inf)
    low[0], high[0] = X[:, 0].min(), X[:, 0].max()
    found = fgsm(ENSEMBLE, X, Y, epsilon=step, low=low, high=high)
    np.testing.assert_allclose(np.abs(found - X)[:, 1:], np.broadcast_to(step[1:], (len(X), 4)), atol=ROUNDING)
    assert found[:, 0].min() >= X[:, 0].min()
    assert found[:, 0].max() <= X[:, 0].max()


def test_whole_numbers_are_attacked_as_real_ones():
    pixels = np.arange(2 * FEATURES, dtype=np.uint8).reshape(2, FEATURES)
    found = fgsm(ENSEMBLE, pixels, [0, 1], epsilon=0.5, low=0, high=255)
    assert found.dtype == np.float32
    assert np.abs(found - pixels).max() == 0.5


BAD = {
    "no model": ({"model": 3}, "model is a int, but a fitted BNNClassifier is needed"),
    "two axes": ({"model": lambda x: x}, r"model returns shape \(1, 5\) for one row, but log-probabilities"),
    "no array": ({"model": lambda x: (x, x)}, "model returns no array"),
    "NaN in X": ({"X": np.where(X.min() == X, np.nan, X)}, "X has 1 rows with NaN or infinity, the first at row"),
    "words": ({"X": [["a", "b"]]}, "rows of numbers are needed"),
    "one axis": ({"X": X[0]}, r"X has shape \(5,\)"),
    "short y": ({"y": Y[:3]}, r"y has shape \(3,\), but one label for each of 10 rows"),
    "unknown y": ({"y": Y + 4}, r"y has the class \d, which is none of \[0, 1, 2, 3\]"),
    "unknown target": ({"y": None, "target": 9}, "target has the class 9"),
    "y and target": ({"target": 1}, "y and target are both given"),
    "loss": ({"loss": "hinge"}, "loss='hinge' is not known; choose one of margin, mean_log, mean_probability"),
    "range": ({"high": 0.5}, r"X has values from 0\.2.* to 0\.7.*, but low=0.0 and high=0.5: give the valid range"),
    "empty range": ({"low": 1.0, "high": 0.0}, r"low=1\.0 must lie below high=0\.0"),
    "no step": ({"step": 0.0}, "the step is 0.0, but it must be positive"),
    "step for others": ({"step": np.ones(3)}, r"step is array.*one for each entry of rows of shape \(5,\)"),
    "no steps": ({"steps": 0}, "steps=0 must be a whole number, at least 1"),
    "radius": ({"radius": -1.0}, "radius=-1.0 must be positive"),
    "no ball": ({"radius": np.inf}, "radius=inf must be finite"),
    "block": ({"block": 0}, "block=0 must be a whole number"),
    "restarts": ({"restarts": 3, "random_start": False}, "restarts=3 from one point are all the same"),
}


@pytest.mark.parametrize(("change", "said"), BAD.values(), ids=BAD)
def test_what_cannot_be_attacked_is_said(change, said):
    settings = {"model": ENSEMBLE, "X": X, "y": Y, "radius": 0.1, **STEPS, **change}
    with pytest.raises(ValueError, match=said):
        pgd(**settings)


def test_a_gradient_that_is_no_number_is_told():
    broken = lambda x: jnp.where(x[:, :1] > 0.5, jnp.nan, jax.nn.log_softmax(x))[None]  # noqa: E731
    count = np.sum(X[:, 0] > 0.5)
    with pytest.raises(ArithmeticError, match=f"not finite at {count} rows, the first at row .*before step 1"):
        fgsm(broken, X, Y, epsilon=0.1, **UNIT)
