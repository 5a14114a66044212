# SPDX-License-Identifier: Apache-2.0
import equinox as eqx
import flax.linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from fpovi.inference.particles import sample_prior
from fpovi.networks import fan_in_scales, fan_out_scales, from_equinox, from_flax, mlp
from fpovi.types import Network, Scales

SIZES = (3, 40, 20, 2)
MANY = 4000


class LinenNet(flax.linen.Module):
    @flax.linen.compact
    def __call__(self, x):
        return flax.linen.Dense(1)(jnp.tanh(flax.linen.Dense(5)(x)))


class LinenBatchNorm(flax.linen.Module):
    @flax.linen.compact
    def __call__(self, x, train):
        return flax.linen.BatchNorm(use_running_average=not train)(flax.linen.Dense(2)(x))


class EquinoxBatchNorm(eqx.Module):
    linear: eqx.nn.Linear
    norm: eqx.nn.BatchNorm

    def __init__(self, key):
        self.linear = eqx.nn.Linear(3, 2, key=key)
        self.norm = eqx.nn.BatchNorm(2, axis_name="batch", mode="batch")

    def __call__(self, x, state):
        return self.norm(self.linear(x), state)


def networks() -> dict[str, Network]:
    return {
        "mlp": mlp((3, 5, 1)),
        "mlp_unit": mlp((3, 5, 1), unit_weights=True, scales=fan_out_scales((3, 5, 1))),
        "from_equinox": from_equinox(lambda key: eqx.nn.MLP(3, 1, 5, 2, key=key)),
        "from_flax": from_flax(LinenNet(), jnp.zeros((1, 3))),
    }


@pytest.mark.parametrize("name", networks())
def test_every_network_keeps_the_protocol(name, key):
    network = networks()[name]
    theta, state = jax.jit(network.init)(key)
    draw = jax.jit(network.sample_prior)(key)
    assert jax.tree.structure(theta) == jax.tree.structure(draw)
    assert [leaf.shape for leaf in jax.tree.leaves(theta)] == [leaf.shape for leaf in jax.tree.leaves(draw)]
    x = jax.random.normal(key, (7, 3))
    apply = jax.jit(network.apply, static_argnums=3)
    outputs, after = apply(theta, state, x, True)
    assert outputs.shape == (7, 1)
    assert jax.tree.structure(after) == jax.tree.structure(state)
    # rows do not see each other
    np.testing.assert_allclose(apply(theta, state, x[:2], False)[0], outputs[:2], rtol=1e-5, atol=1e-6)
    assert network.log_prior(theta).shape == ()
    assert jnp.isfinite(network.log_prior(theta))
    assert all(jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(jax.jit(jax.grad(network.log_prior))(theta)))


@pytest.mark.parametrize(
    ("scales", "weight_var", "bias_var"),
    [
        (fan_in_scales(SIZES, 2.0, 0.5), [2 / 3, 2 / 40, 2 / 20], [0.5, 0.5, 0.5]),
        (fan_out_scales(SIZES), [1 / 40, 1 / 20, 1 / 2], [1 / 40, 1 / 20, 1 / 2]),
    ],
)
def test_prior_variances_are_those_of_the_scales(scales, weight_var, bias_var, key):
    draws = jax.jit(lambda key: sample_prior(key, mlp(SIZES, scales=scales), MANY))(key)
    # a variance from 4000 draws of at least 2 weights is good to about 3 %: 5 standard errors is 11 %
    for leaf, expected in zip((*draws.weights, *draws.biases), (*weight_var, *bias_var), strict=True):
        assert float(jnp.var(leaf)) == pytest.approx(expected, rel=0.12)


def test_log_prior_is_the_density_of_its_draws(key, x64):
    scales = fan_out_scales(SIZES)
    network = mlp(SIZES, scales=scales)
    theta = network.sample_prior(key)
    std = [n**-0.5 for n in (40, 20, 2)]
    expected = sum(
        stats.norm.logpdf(np.asarray(leaf), scale=s).sum()
        for leaf, s in zip((*theta.weights, *theta.biases), (*std, *std), strict=True)
    )
    assert float(network.log_prior(theta)) == pytest.approx(expected, rel=1e-6)  # the scales are float32


def test_unit_weights_give_the_same_functions(key):
    plain, unit = (mlp(SIZES, scales=fan_out_scales(SIZES), unit_weights=u) for u in (False, True))
    x = jax.random.normal(key, (4, 3))
    ours, theirs = (
        plain.apply(plain.sample_prior(key), (), x, False)[0],
        unit.apply(unit.sample_prior(key), (), x, False)[0],
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    start = [
        network.apply(network.init(key)[0], (), x, False)[0]
        for network in (
            mlp(SIZES, scales=fan_out_scales(SIZES), prior_start=False),
            mlp(SIZES, scales=fan_out_scales(SIZES), prior_start=False, unit_weights=True),
        )
    ]
    np.testing.assert_allclose(*start, rtol=1e-5, atol=1e-6)


def test_input_scales_multiply_inputs(key):
    scales = fan_in_scales((2, 5, 1))._replace(input=jnp.asarray([2.0, 0.0]))
    network, plain = mlp((2, 5, 1), scales=scales), mlp((2, 5, 1))
    theta = plain.sample_prior(key)
    x = jax.random.normal(key, (4, 2))
    expected = plain.apply(theta, (), x * jnp.asarray([2.0, 0.0]), False)[0]
    np.testing.assert_allclose(network.apply(theta, (), x, False)[0], expected, rtol=1e-6)


def test_small_start_is_that_of_the_papers_experiments(key):
    network = mlp((3, 400, 1), prior_start=False)
    theta, _ = network.init(key)
    # the standard deviation of 1200 numbers is good to 2 %
    assert float(jnp.std(theta.weights[0])) == pytest.approx((3 + 400 + 1) ** -0.5, rel=0.08)
    assert all(jnp.all(b == 0) for b in theta.biases)


def test_activations_are_all_layers(key):
    network = mlp((3, 5, 4, 2))
    theta = network.sample_prior(key)
    x = jax.random.normal(key, (6, 3))
    hidden, _ = network.activations(theta, (), x, False)
    assert hidden.shape == (6, 5 + 4 + 2)
    np.testing.assert_array_equal(hidden[:, -2:], network.apply(theta, (), x, False)[0])
    first = jax.nn.relu(x @ theta.weights[0] + theta.biases[0])
    np.testing.assert_allclose(hidden[:, :5], first, rtol=1e-5, atol=1e-6)


def test_adapters_leave_the_module_unchanged(key):
    x = jax.random.normal(key, (4, 3))
    make = lambda key: eqx.nn.MLP(3, 1, 5, 2, key=key)  # noqa: E731
    network = from_equinox(make)
    np.testing.assert_allclose(network.apply(*network.init(key), x, False)[0], jax.vmap(make(key))(x), rtol=1e-6)
    module = LinenNet()
    adapted = from_flax(module, x)
    theta, state = adapted.init(key)
    np.testing.assert_allclose(adapted.apply(theta, state, x, False)[0], module.apply({"params": theta}, x), rtol=1e-6)


def test_adapter_priors_default_to_fan_in(key):
    network = from_flax(LinenNet(), jnp.zeros((1, 3)))
    draws = jax.jit(lambda key: sample_prior(key, network, MANY))(key)
    # Python makes the outer layer first, so Dense_0 is the output and Dense_1 the hidden layer
    assert float(jnp.var(draws["Dense_1"]["kernel"])) == pytest.approx(1 / 3, rel=0.05)  # 60,000 numbers: 0.6 %
    assert float(jnp.var(draws["Dense_0"]["bias"])) == pytest.approx(1, rel=0.12)
    draws = sample_prior(key, from_equinox(lambda key: eqx.nn.Linear(3, 5, key=key), prior_std=0.1), MANY)
    assert float(jnp.var(draws.weight)) == pytest.approx(0.01, rel=0.05)


@pytest.mark.parametrize(
    "network",
    [from_equinox(eqx.nn.make_with_state(EquinoxBatchNorm)), from_flax(LinenBatchNorm(), jnp.zeros((2, 3)))],
    ids=["equinox", "flax"],
)
def test_batch_statistics_are_threaded_through(network, key):
    theta, state = network.init(key)
    x = 5 + jax.random.normal(key, (64, 3))
    outputs, after = network.apply(theta, state, x, True)
    np.testing.assert_allclose(outputs.mean(0), 0, atol=1e-3)  # batch statistics in training
    changed = [not jnp.array_equal(a, b) for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(after), strict=True)]
    assert any(changed)
    _, still = network.apply(theta, after, x, False)
    assert all(jnp.array_equal(a, b) for a, b in zip(jax.tree.leaves(after), jax.tree.leaves(still), strict=True))


@pytest.mark.parametrize("sizes", [(3,), (3, 0, 1), ()])
def test_bad_sizes(sizes):
    with pytest.raises(ValueError, match="sizes="):
        mlp(sizes)


def test_scales_must_fit_the_sizes():
    one = jnp.ones(1)
    with pytest.raises(
        ValueError, match=r"scales.weight_variance has shape \(1,\), but sizes=\(3, 5, 1\) needs \(2,\)"
    ):
        mlp((3, 5, 1), scales=Scales(jnp.ones(3), one, one, jnp.asarray(0.5)))


def test_the_dtype_follows_the_input(key, x64):
    network = mlp((2, 3, 1))
    theta, _ = network.init(key)
    for dtype in (jnp.float32, jnp.float64):
        assert network.apply(theta, (), jnp.ones((4, 2), dtype), False)[0].dtype == dtype


class LinenDropout(flax.linen.Module):
    @flax.linen.compact
    def __call__(self, x, train):
        return flax.linen.Dropout(0.5, deterministic=not train)(flax.linen.Dense(1)(x))


def test_dropout_has_no_place_in_a_particle():
    with pytest.raises(ValueError, match="Dropout"):
        from_flax(LinenDropout(), jnp.zeros((1, 2)))
    with pytest.raises(ValueError, match="Dropout"):
        from_equinox(lambda key: eqx.nn.Sequential([eqx.nn.Linear(2, 1, key=key), eqx.nn.Dropout(0.5)]))
