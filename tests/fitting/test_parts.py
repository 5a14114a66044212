# SPDX-License-Identifier: Apache-2.0
"""Every part by name and by object, networks of users, early stopping, and more rows later."""

from itertools import cycle, islice

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fpovi import BNNClassifier, BNNRegressor, flows, likelihoods, measurement, networks, priors
from fpovi.estimators import FitWarning
from fpovi.fitting import parts, training
from support.small_fits import SETTINGS, named_classes, plane, same_fit

NAMES = {
    **{name: parts.part_names(name) for name in ("activation", "flow", "space", "kernel", "prior", "measurement")},
    "likelihood": [name for name in parts.part_names("likelihood") if name != "categorical"],
}
OF_IMAGES = ("shifts", "shuffled_patches")  # no measurement sets for rows that are vectors
NAMES["measurement"] = [name for name in NAMES["measurement"] if name not in OF_IMAGES]
TARGETS = {"poisson": lambda y: np.round(np.exp(y)), "bernoulli": lambda y: (y > 0).astype(float)}
# programs are slow to compile: as many as the longest table has names, and every name is in one of them
MIXED = [dict(zip(NAMES, row, strict=True)) for row in islice(zip(*map(cycle, NAMES.values()), strict=False), 7)]
IN_WEIGHTS_ONLY = ("function_value", "activation")


@pytest.mark.parametrize("names", MIXED, ids=lambda names: "-".join(names.values()))
def test_every_name_of_a_regressor(names):
    X, y = plane()
    y = TARGETS.get(names["likelihood"], lambda y: y)(y)
    if names["kernel"] in IN_WEIGHTS_ONLY:
        names = {**names, "space": "weight"}
    model = BNNRegressor(**{**SETTINGS, **names, "max_epochs": 3}).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()


def test_a_prior_may_be_made_by_a_function():
    X, y = named_classes()
    made = []

    def narrow(network, likelihood):
        made.append(priors.sampled_gp(network, likelihood, std=0.01))
        return made[-1]

    settings = {**SETTINGS, "max_epochs": 200, "learning_rate": 0.02}
    with pytest.warns(FitWarning, match="no better than a model that looks at no input"):
        probs = BNNClassifier(**{**settings, "prior": narrow}).fit(X, y).predict_proba(X)
    assert made
    np.testing.assert_allclose(probs, 1 / 3, atol=0.05)  # logits of a hundredth
    with pytest.raises(ValueError, match="a function of network and likelihood that returns one"):
        BNNClassifier(**{**settings, "prior": lambda covariance: None}).fit(X, y)


def test_measurement_sets_of_images_refuse_vectors():
    for name in OF_IMAGES:
        with pytest.raises(ValueError, match=f"{name} is for rows with places and channels"):
            BNNRegressor(**{**SETTINGS, "prior": "flat", "measurement": name}).fit(*plane())


def test_all_names_are_tried():
    assert max(map(len, NAMES.values())) <= len(MIXED)


OTHER_PRIORS = [pytest.param(name, marks=pytest.mark.slow) for name in parts.part_names("prior") if name != "nngp"]


@pytest.mark.parametrize("prior", ["nngp", *OTHER_PRIORS])
def test_every_prior_of_a_classifier(prior):
    X, y = named_classes()
    model = BNNClassifier(**{**SETTINGS, "prior": prior, "max_epochs": 3}).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1, rtol=1e-15)


def test_parts_by_object_are_those_of_the_name(regressor):
    objects = {
        "activation": jax.nn.relu,
        "flow": flows.gfsf,
        "kernel": parts.wide_rbf(),
        "measurement": measurement.halo(20),
        "likelihood": likelihoods.gaussian(floor=1e-3),
    }
    model = BNNRegressor(**{**SETTINGS, **objects}).fit(*plane())
    assert same_fit(model, regressor)


class Small(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(1)(nn.tanh(nn.Dense(8)(x)))


def small(key):
    return eqx.nn.MLP(2, 1, 8, 1, key=key)


OURS = networks.mlp((2, 8, 1), jax.nn.relu, networks.fan_in_scales((2, 8, 1)))


@pytest.mark.parametrize("network", [Small(), small, OURS], ids=["flax", "equinox", "ours"])
def test_a_users_network(network):
    X, y = plane()
    settings = {**SETTINGS, "network": network}
    model = BNNRegressor(**settings).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    assert same_fit(model, BNNRegressor(**settings).fit(X, y))


def test_a_network_with_too_few_outputs_is_told():
    X, y = named_classes()
    with pytest.raises(ValueError, match=r"outputs|classes"):
        BNNClassifier(**{**SETTINGS, "network": small}).fit(X, y)


def test_a_prior_as_an_object():
    X, y = plane()
    prior = priors.gaussian_process(lambda a, b: jnp.exp(-jnp.sum((a[:, None] - b) ** 2, axis=-1) / 2))
    assert np.isfinite(BNNRegressor(**{**SETTINGS, "prior": prior}).fit(X, y).predict(X)).all()


def test_early_stopping_keeps_the_best(monkeypatch):
    monkeypatch.setattr("fpovi.fitting.training.CHUNK", 10)
    X, _ = plane(32)
    noise = np.random.default_rng(0).normal(size=32)  # nothing to learn: it has to stop early
    settings = {
        **SETTINGS,
        "early_stopping": True,
        "max_epochs": 2000,
        "learning_rate": 0.1,
        "validation_fraction": 0.3,
    }
    model = BNNRegressor(**settings).fit(X, noise)
    scores = model.validation_scores_
    assert len(scores) < 200
    assert int(model.fitted_.state.step) == 10 * (int(np.argmin(scores)) + 1)
    assert len(model.fitted_.history.noise) == 10 * len(scores)
    assert len(scores) - 1 - int(np.argmin(scores)) == training.PATIENCE
    assert same_fit(model, BNNRegressor(**settings).fit(X[::-1], noise[::-1]))


def test_verbose_says_nothing_where_no_terminal_is(capfd):
    BNNRegressor(**SETTINGS, verbose=True).fit(*plane())
    assert capfd.readouterr() == ("", "")


def test_partial_fit_goes_on_from_what_was_learned(regressor):
    (X, y), (more, y_more) = plane(), plane(6, seed=1)
    model = BNNRegressor(**SETTINGS).partial_fit(X, y)
    assert same_fit(model, regressor)
    before, encoder, scales = model.predict(X), model.fitted_.encoder, model.fitted_.scales
    model.partial_fit(more * 100, y_more)
    assert model.fitted_.encoder is encoder
    assert model.fitted_.scales is scales or all(map(np.array_equal, model.fitted_.scales, scales))
    assert len(model.rows_[0]) == 30
    assert not np.array_equal(model.predict(X), before)
    again = BNNRegressor(**SETTINGS).partial_fit(X, y).partial_fit(more[::-1] * 100, y_more[::-1])
    assert same_fit(model, again)
    model.partial_fit(more[:1], y_more[:1])  # a single row is enough


def test_partial_fit_takes_classes_that_were_announced_and_no_others():
    X, y = named_classes()
    few = y != "low"
    model = BNNClassifier(**SETTINGS).partial_fit(X[few], y[few], classes=["low", "middle", "high"])
    assert model.classes_.tolist() == ["high", "low", "middle"]
    model.partial_fit(X[~few], y[~few])
    assert len(model.rows_[0]) == 24
    state = model.fitted_.state
    with pytest.raises(ValueError, match=r"'huge', which is none of .*classes="):
        model.partial_fit(X[:1], ["huge"])
    assert model.fitted_.state is state
    assert not hasattr(model, "_announced")


def test_partial_fit_of_the_first_rows_in_one_class():
    X, _ = named_classes()
    model = BNNClassifier(**SETTINGS).partial_fit(X[:2], ["low", "low"], classes=["low", "middle", "high"])
    assert model.predict(X[:1]).shape == (1,)
