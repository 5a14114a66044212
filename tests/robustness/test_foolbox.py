# SPDX-License-Identifier: Apache-2.0
"""Attacks equal those of foolbox on the same models, number by number; `make test-foolbox` installs it."""

import warnings
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fpovi.inference.particles import init_particles
from fpovi.networks import fan_in_scales, mlp
from fpovi.robustness import LogProbs, fgsm, iterated_fgsm, pgd

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # foolbox imports names that SciPy has moved
    foolbox = pytest.importorskip("foolbox", reason="foolbox is not installed: `make test-foolbox` does it")

pytestmark = pytest.mark.usefixtures("x64", "loose_dtypes")  # foolbox mixes them
ROWS, LOW, HIGH = 40, 0.1, 0.9
EPSILON, STEP, STEPS = 0.1, 0.03, 12
RANGE = {"low": LOW, "high": HIGH}
# In float64: the sign of a gradient that float32 rounds to about 0 is anyone's. Foolbox clips x − x₀, and we clip x.
ROUNDING = 1e-14


def perceptrons(particles):
    """Return an ensemble of random networks of two hidden layers, images and labels."""
    sizes = (36, 30, 20, 5)
    network = mlp(sizes, scales=fan_in_scales(sizes, weight_variance=4.0))
    x = np.random.default_rng(0).uniform(LOW, HIGH, (ROWS, 36))
    return LogProbs(network, *init_particles(jax.random.key(1), network, particles)), x


def convolutions(particles):
    """Return an ensemble of random convolutional networks, images with channels last and labels."""
    keys = jax.random.split(jax.random.key(2), 2)
    kernels = jax.random.normal(keys[0], (particles, 3, 3, 2, 4))
    last = jax.random.normal(keys[1], (particles, 36, 5))
    x = np.random.default_rng(1).uniform(LOW, HIGH, (ROWS, 8, 8, 2))

    def one(kernel, weight, x):
        hidden = jax.lax.conv_general_dilated(x, kernel, (2, 2), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return jax.nn.log_softmax(jnp.tanh(hidden).reshape(x.shape[0], -1) @ weight)

    return jax.tree_util.Partial(
        lambda kernels, last, x: jax.vmap(one, (0, 0, None))(kernels, last, x), kernels, last
    ), x


MODELS = {
    "one network": lambda: perceptrons(1),
    "five networks": lambda: perceptrons(5),
    "images": lambda: convolutions(3),
}


@pytest.fixture(params=MODELS)
def models(request, x64):
    """Ours, foolbox's of the same ensemble (the logarithms of its mean probabilities are its logits), and images."""
    return of_name(request.param)


@cache
def of_name(name):
    log_probs, x = MODELS[name]()

    @jax.jit
    def logits(x):
        f = log_probs(x)
        return jax.nn.logsumexp(f, axis=0) - jnp.log(float(f.shape[0]))

    labels = np.array(jnp.argmax(logits(jnp.asarray(x)), axis=-1))
    labels[::3] = (labels[::3] + 1) % 5  # some are wrong from the start
    return log_probs, foolbox.models.JAXModel(logits, bounds=(LOW, HIGH)), x, labels


def of_foolbox(attack, model, x, criterion):
    found, _, _ = attack(model, jnp.asarray(x), criterion, epsilons=EPSILON)
    return np.asarray(found)


def away(labels):
    return foolbox.criteria.Misclassification(jnp.asarray(labels))


def to(labels):
    return foolbox.criteria.TargetedMisclassification(jnp.asarray(labels))


def assert_same(ours, theirs, x, name):
    print(f"\n{name}: largest difference {np.abs(ours - theirs).max():.1e}", end="")
    assert ours.dtype == theirs.dtype == np.float64
    assert np.abs(theirs - x).max() > 0.9 * EPSILON
    np.testing.assert_allclose(ours, theirs, atol=ROUNDING)


def test_fgsm(models):
    ours, theirs, x, labels = models
    expected = of_foolbox(foolbox.attacks.LinfFastGradientAttack(), theirs, x, away(labels))
    assert_same(fgsm(ours, x, labels, epsilon=EPSILON, **RANGE), expected, x, "fgsm")
    # foolbox has no targeted FGSM: it is one step of the iterative attack
    one_step = foolbox.attacks.LinfBasicIterativeAttack(rel_stepsize=1.0, steps=1)
    target = (labels + 2) % 5
    expected = of_foolbox(one_step, theirs, x, to(target))
    found = fgsm(ours, x, target=target, epsilon=EPSILON, **RANGE)
    assert_same(found, expected, x, "targeted fgsm")


@pytest.mark.parametrize("aim", ["away", "to"])
def test_iterated_fgsm(models, aim):
    ours, theirs, x, labels = models
    attack = foolbox.attacks.LinfBasicIterativeAttack(abs_stepsize=STEP, steps=STEPS)
    chosen, criterion = ({"y": labels}, away) if aim == "away" else ({"target": labels}, to)
    found = iterated_fgsm(ours, x, radius=EPSILON, step=STEP, steps=STEPS, **chosen, **RANGE)
    assert_same(found, of_foolbox(attack, theirs, x, criterion(labels)), x, f"iterated {aim}")


@pytest.mark.parametrize("aim", ["away", "to"])
def test_pgd_without_a_random_start(models, aim):
    ours, theirs, x, labels = models
    attack = foolbox.attacks.LinfProjectedGradientDescentAttack(rel_stepsize=0.2, steps=STEPS, random_start=False)
    chosen, criterion = ({"y": labels}, away) if aim == "away" else ({"target": labels}, to)
    found = pgd(ours, x, radius=EPSILON, step=0.2 * EPSILON, steps=STEPS, random_start=False, **chosen, **RANGE)
    assert_same(found, of_foolbox(attack, theirs, x, criterion(labels)), x, f"pgd {aim}")
