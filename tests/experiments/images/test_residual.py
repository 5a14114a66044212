# SPDX-License-Identifier: Apache-2.0
"""How residual networks learn: at which rates, under which priors, and where they are held apart."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fpovi.experiments.images import residual, training
from fpovi.experiments.images.methods import LIKELIHOOD
from fpovi.inference.batches import make_batch
from fpovi.inference.particles import init_particles
from fpovi.networks import resnet

pytestmark = pytest.mark.usefixtures("loose_dtypes")  # optax mixes whole and real numbers
RNG = np.random.default_rng(0)
NETWORK = resnet(8, width=2)
SETTING = residual.Setting(8, 2, 2, optax.cosine_decay_schedule, repulsion=10.0)


def colours(rows=60):
    """Two classes told apart by their colour."""
    y = RNG.integers(0, 2, rows).astype(np.int32)
    x = 0.1 * RNG.normal(size=(rows, 8, 8, 3)).astype(np.float32)
    x[..., 0] += 0.2 * y[:, None, None]
    return training.Images(make_batch(x, y), x[:20], y[:20], x[:30], y[:30], 0.5)


@pytest.mark.slow  # every method compiles a residual network
@pytest.mark.parametrize("name", residual.LABELS)
def test_every_method_trains(name, monkeypatch):
    monkeypatch.setattr(residual, "EXTRA_POINTS", 6)
    chosen = residual.method(name, SETTING, 60)
    found = training.train_images(training.ImageTask(0, colours(), 2, 20), chosen, lambda *told: None)
    assert np.isfinite(found.valid_nll)
    assert found.history.prior_norm.max() > 0 or name not in residual.OF_FUNCTIONS
    assert (found.history.repulsion_norm[0] > 0) == name.startswith("f-")
    assert (found.history.repulsion_norm[-1] > 0) == (name.startswith("f-") and name != "f-late")


def test_features_follow_the_logits(key):
    theta, state = NETWORK.init(key)
    x = jax.random.normal(key, (4, 8, 8, 3))
    outputs, after = residual.with_features(NETWORK).apply(theta, state, x, True)
    logits, plain = NETWORK.apply(theta, state, x, True)
    np.testing.assert_allclose(outputs[:, :10], logits, rtol=1e-5, atol=1e-6)  # float32
    np.testing.assert_allclose(outputs[:, 10:] @ theta.weight + theta.bias, logits, rtol=1e-4, atol=1e-5)
    jax.tree.map(np.testing.assert_array_equal, after, plain)


def test_features_say_nothing_of_labels(key):
    likelihood = residual.of_logits(LIKELIHOOD)
    outputs = jax.random.normal(key, (5, 13))
    f, y = likelihood.canonical(outputs), jnp.arange(5)[:, None]
    np.testing.assert_allclose(f[:, :10], LIKELIHOOD.canonical(outputs[:, :10]))
    np.testing.assert_array_equal(f[:, 10:], outputs[:, 10:])
    np.testing.assert_array_equal(likelihood.log_prob((), f, y), LIKELIHOOD.log_prob((), f[:, :10], y))
    compared = residual.only_features(f[None], make_batch(np.zeros((5, 1)), np.arange(5)))
    assert compared.tolist() == [[0.0] * 10 + [1.0] * 3] * 5


def test_what_is_learned_counts_less():
    f = jnp.log(jnp.asarray([[[0.9, 0.1], [0.5, 0.5]], [[0.9, 0.1], [0.5, 0.5]]]))
    weight = residual.by_loss(f, make_batch(np.zeros((2, 1)), [0, 0]))
    losses = -np.log([0.9, 0.5])
    np.testing.assert_allclose(weight[:, 0] ** 2, losses / losses.mean(), rtol=1e-6)


def test_the_true_class_is_not_compared():
    compared = residual.other_classes(jnp.zeros((2, 3, 3)), make_batch(np.zeros((3, 1)), [0, 2, 2]))
    assert compared.tolist() == [[0, 1, 1], [1, 1, 0], [1, 1, 0]]


def test_rates_fall_when_the_paper_s_do():
    schedule = residual.in_steps(0.1, 200)
    np.testing.assert_allclose(
        [schedule(step) for step in (0, 81, 83, 122, 124)], [0.1, 0.1, 0.01, 0.01, 0.001], rtol=1e-5
    )


def test_late_repulsion_is_constant_and_then_none():
    schedule = residual.until_late(100.0, 30)
    assert [float(schedule(step)) for step in (0, 19, 20, 29)] == [100.0, 100.0, 0.0, 0.0]


def test_learning_rates_are_per_row_and_weights_keep_their_prior(key):
    theta, _ = init_particles(key, NETWORK, 2)
    zero = jax.tree.map(jnp.zeros_like, theta)
    flat, with_prior = (residual._momentum(SETTING, 50, weights_of=network)(10) for network in (None, NETWORK))
    grads = jax.tree.map(jnp.ones_like, theta)
    moved, _ = flat.update(grads, flat.init(theta), theta)
    np.testing.assert_allclose(jax.tree.leaves(moved)[0], -0.1 / 50, rtol=1e-6)
    pulled, _ = with_prior.update(zero, with_prior.init(theta), theta)
    expected = jax.tree.map(lambda g: 0.1 / 50 * g, jax.grad(lambda t: jax.vmap(NETWORK.log_prior)(t).sum())(theta))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-9), pulled, expected)


def test_the_same_setting_finds_its_method_again():
    assert residual.method("f-late", SETTING, 60) is residual.method("f-late", SETTING._replace(), 60)
    with pytest.raises(ValueError, match="method='f-later' is not known"):
        residual.method("f-later", SETTING, 60)
