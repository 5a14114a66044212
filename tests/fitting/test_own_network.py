# SPDX-License-Identifier: Apache-2.0
"""Networks of a user's own: those that cannot be used are refused in one line, before a fit begins."""

import equinox as eqx
import flax.linen as nn
import jax.numpy as jnp
import numpy as np
import pytest

from fpovi import BNNClassifier, BNNRegressor
from fpovi.fitting.own_network import choose_network
from support.own_networks import EquinoxConvNet, FlaxConvNet

SHAPE = (8, 8, 1)


def equinox(outputs=10):
    return lambda key: EquinoxConvNet(key, outputs)


class Unhashable:
    """Compares by value, as a list does."""

    __hash__ = None

    def __call__(self, key):
        return EquinoxConvNet(key)


class Listed(nn.Module):
    """Has an attribute without a hash."""

    sizes: list

    @nn.compact
    def __call__(self, x):
        return nn.Dense(10)(x.reshape(x.shape[0], -1))


@pytest.mark.parametrize("network", [Unhashable(), Listed([3]), EquinoxConvNet], ids=["equinox", "flax", "a class"])
def test_anything_that_makes_a_module_will_do(network):
    X, y = np.random.default_rng(0).normal(size=(8, *SHAPE)), np.arange(8) % 2
    chosen = choose_network(network, SHAPE, 10, True)
    assert chosen.architecture is None
    if isinstance(network, Listed):
        model = BNNRegressor(network=Listed([3]), n_particles=2, max_epochs=1, random_state=0)
        assert model.fit(X, np.eye(10)[y] + X[:, 0, :1, 0]).predict(X).shape == (8, 10)


@pytest.mark.parametrize("make", [equinox, FlaxConvNet])
@pytest.mark.parametrize(
    ("outputs", "needed", "classes", "said"),
    [
        (7, 10, True, "7 for a row, not 10, one for each class"),
        (1, 3, True, "1 for a row, not 3, one for each class"),
        (2, 1, False, "2 for a row, not 1, as many as y and the likelihood ask for"),
    ],
)
def test_another_number_of_outputs(make, outputs, needed, classes, said):
    with pytest.raises(ValueError, match=said):
        choose_network(make(outputs), SHAPE, needed, classes)


class Merging(nn.Module):
    """Puts rows and columns together, and so gives several rows for one image."""

    @nn.compact
    def __call__(self, x):
        return nn.Dense(10)(x.reshape(-1, 8))


def shapeless(key):
    return eqx.nn.MLP(64, "scalar", 8, 1, key=key)


REFUSED = {
    "wrong shape": (equinox(), (5, 5, 1), r"network fails on rows of shape \(5, 5, 1\), .*: TypeError: "),
    "no channels": (equinox(), (8, 8), r"network fails on rows of shape \(8, 8\), .*: ValueError: .*rank 3"),
    "channels first": (equinox(), (1, 8, 8), r"network fails on rows of shape \(1, 8, 8\)"),
    "flat": (FlaxConvNet(), (64,), r"network fails on rows of shape \(64,\)"),
    "several rows for one": (Merging(), SHAPE, r"\(16, 10\) for 2 rows, not 10"),
    "a scalar": (shapeless, (64,), r"\(2,\) for 2 rows, not 10"),
    "no key": (lambda: EquinoxConvNet(None), SHAPE, "TypeError: .* takes 0 positional arguments"),
    "a Flax class": (FlaxConvNet, SHAPE, r"is the class FlaxConvNet, but an object of it is needed"),
    "a function of rows": (lambda key: lambda x: x, (64,), "no weights to learn"),
    "nothing": (lambda key: None, (64,), "network fails on rows"),
    "a word": ("resnet", SHAPE, "network is a str, but a Flax module"),
    "no network": (None, SHAPE, "give a network= that takes them"),
}


@pytest.mark.parametrize(("network", "shape", "said"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_used(network, shape, said):
    with pytest.raises(ValueError, match=said) as caught:
        choose_network(network, shape, 10, True)
    assert "\n" not in str(caught.value)


def test_a_module_that_was_made_already(key):
    with pytest.raises(ValueError, match=r"give the function that makes it, such as lambda key: EquinoxConvNet\("):
        choose_network(EquinoxConvNet(key), SHAPE, 10, True)


def test_a_fit_that_cannot_begin_leaves_the_model_as_it_was():
    model = BNNClassifier(network=equinox(7))
    with pytest.raises(ValueError, match="7 for a row"):
        model.fit(jnp.zeros((4, *SHAPE)), [0, 1, 0, 1])
    assert not hasattr(model, "fitted_")
