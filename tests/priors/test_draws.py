# SPDX-License-Identifier: Apache-2.0
"""Functions drawn at a few inputs: layer by layer they must be distributed as whole networks are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import ks_2samp

from fpovi.likelihoods import categorical
from fpovi.networks import fan_out_scales, mlp, resnet
from fpovi.priors import moment_matched, sampled_gp, ssge
from fpovi.priors.draws import prior_draws, values_are_fewer

SIZE = 4000
DEEP = (6, 9, 9, 5)
NETWORKS = {
    "values, then weights": mlp((6, 12, 1), scales=fan_out_scales((6, 12, 1))),
    "values all the way": mlp(DEEP, jnp.tanh),
    "unit weights, input scales": mlp(
        DEEP, scales=fan_out_scales(DEEP)._replace(input=jnp.asarray([0.1, 3, 1, 1, 0, 1])), unit_weights=True
    ),
    "weights alone": mlp((2, 9, 2)),
}


def test_which_networks_draw_what():
    """The names above say what they test."""
    assert values_are_fewer(3, 6, 12)
    assert not values_are_fewer(3, 12, 1)
    assert all(values_are_fewer(3, n_in, n_out) for n_in, n_out in ((6, 9), (9, 9), (9, 5)))
    assert not any(values_are_fewer(3, n_in, n_out) for n_in, n_out in ((2, 9), (9, 2)))


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_draws_are_those_of_whole_networks(network, key):
    """By two-sample tests of sums, products and extremes over points and outputs, two of the points being the same."""
    x = jax.random.normal(key, (3, network.architecture.sizes[0])).at[2].set(0.5).at[0].set(0.5)
    whole = jax.vmap(lambda key: network.apply(network.sample_prior(key), (), x, True)[0])
    keys = jax.random.split(jax.random.key(1))
    ours = np.asarray(jax.jit(lambda key: prior_draws(key, network, x, SIZE, None))(keys[0]))
    theirs = np.asarray(jax.jit(whole)(jax.random.split(keys[1], SIZE)))
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours[:, 0], ours[:, 2], atol=0.01 * ours.std())  # √1e-7, and 12,000 of them
    looks = [
        lambda f: f[:, 0, 0],
        lambda f: f[:, 1, -1],
        lambda f: f[:, 0, 0] * f[:, 1, 0],
        lambda f: f[:, 0, 0] * f[:, 1, -1],
        lambda f: np.abs(f).max(axis=(1, 2)),
        lambda f: (f[:, 0] - f[:, 1]).sum(axis=1),
        lambda f: np.square(f).sum(axis=(1, 2)),
    ]
    # 28 tests in this file, of which one in 1,000 fails by chance
    assert min(ks_2samp(look(ours), look(theirs)).pvalue for look in looks) > 1e-3


def test_draws_of_classes_are_canonical(key):
    x, network = jax.random.normal(key, (4, 6)), NETWORKS["values all the way"]
    draws = jax.jit(lambda key: prior_draws(key, network, x, 7, categorical()))(key)
    np.testing.assert_allclose(jnp.exp(draws).sum(axis=-1), 1, rtol=1e-5)


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16, jnp.float64])
@pytest.mark.parametrize("name", ["values all the way", "weights alone"])
def test_the_dtype_follows_the_input(name, dtype, key, x64):
    network = NETWORKS[name]
    x = jnp.arange(3 * network.architecture.sizes[0]).reshape(3, -1).astype(dtype)
    draws = prior_draws(key, network, x, 5, None)
    theta, state = network.init(key)
    assert draws.dtype == network.apply(theta, state, x, True)[0].dtype
    assert jnp.all(jnp.isfinite(draws))


@pytest.mark.parametrize("features", [1, 5])
def test_inputs_of_another_length_are_refused(features, key):
    with pytest.raises(ValueError, match=f"x has {features} features, but the network was made for 6"):
        prior_draws(key, NETWORKS["values all the way"], jnp.ones((3, features)), 5, None)


def test_a_network_without_a_description_is_asked_for_weights(key):
    """All of its weights are 1, whatever the key."""
    described = mlp((6, 9, 1))
    theta = jax.tree.map(jnp.ones_like, described.init(key)[0])
    network = described._replace(sample_prior=lambda key: theta, architecture=None)
    x = jax.random.normal(key, (3, 6))
    draws = prior_draws(key, network, x, 5, None)
    np.testing.assert_allclose(draws, jnp.broadcast_to(described.apply(theta, (), x, True)[0], (5, 3, 1)), rtol=1e-6)


def test_networks_with_batch_statistics_are_drawn_beside_a_context(key):
    """The statistics are those of the context: a point far away changes none of the others."""
    network, x = resnet(8, width=2, classes=3), jax.random.normal(key, (2, 4, 4, 3))
    context = 5 + 2 * jax.random.normal(jax.random.key(1), (6, 4, 4, 3))
    draws = jax.jit(lambda *arrays: prior_draws(key, network, *arrays[:1], 4, None, *arrays[1:]))
    beside = draws(x, context)
    assert beside.shape == (4, 2, 3)
    assert not jnp.allclose(beside, draws(x), atol=0.1)
    np.testing.assert_allclose(beside[:, :1], draws(x.at[1].multiply(100), context)[:, :1], rtol=1e-4, atol=1e-4)
    theta, state = network.sample_prior(jax.random.split(jax.random.split(key, 4)[0])[0]), network.init(key)[1]
    # as particles are normalised; the same sums in another order
    whole = network.apply(theta, state, jnp.concatenate([context, x]), len(context))[0]
    np.testing.assert_allclose(beside[0], whole[-2:], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("prior", [moment_matched, sampled_gp, ssge])
def test_priors_ask_for_a_context_where_there_are_statistics(prior, key):
    network = resnet(8, width=2, classes=3)
    assert prior(network, categorical()).takes_context
    assert not prior(mlp((2, 3)), categorical()).takes_context
    assert not prior(resnet(8, width=2, batch_norm=False), categorical()).takes_context
    x, f = jax.random.normal(key, (2, 4, 4, 3)), jax.nn.log_softmax(jax.random.normal(key, (2, 2, 3)))
    score = jax.jit(lambda context: prior(network, categorical(), draws=6).score(key, f, x, context=context))
    near, far = (score(scale * jax.random.normal(key, (5, 4, 4, 3))) for scale in (1.0, 30.0))
    assert jnp.all(jnp.isfinite(near))
    assert not jnp.allclose(near, far, rtol=0.1)
