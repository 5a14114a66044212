# SPDX-License-Identifier: Apache-2.0
"""Gauss-Newton directions: against ridge regression, the information of known likelihoods, and plain gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from sklearn.linear_model import Ridge

from fpovi import function_space, gauss_newton, make_batch, run, weight_space
from fpovi.flows import ensemble, gfsf
from fpovi.inference.gauss_newton import damped_factor, roots_of_fisher, row_gradients
from fpovi.inference.particles import ravel
from fpovi.likelihoods import bernoulli, categorical, gaussian
from fpovi.measurement import train_only
from fpovi.networks import mlp
from fpovi.priors import flat, on_weights
from fpovi.types import Network, StepContext, Support

pytestmark = pytest.mark.usefixtures("loose_dtypes")
NOISE = 0.1


def linear(features, outputs=1, prior=1.0):
    """f = xθ, with θ normal of variance ``prior`` under its prior."""
    draw = lambda key: jnp.sqrt(prior) * jax.random.normal(key, (features, outputs))  # noqa: E731
    return Network(
        init=lambda key: (draw(key), ()),
        sample_prior=draw,
        log_prior=lambda theta: -jnp.sum(theta**2) / (2 * prior),
        apply=lambda theta, state, x, train: (x @ theta, state),
    )


def copies(rows=200, features=6):
    """Inputs that are nearly copies of one another: plain gradients hardly see what tells them apart."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 1)) + 0.03 * rng.normal(size=(rows, features))
    return x, x @ rng.normal(size=features) + NOISE * rng.normal(size=rows)


def climb(network, likelihood, optimiser, x, y, steps, n=3, flow=ensemble, **options):
    algorithm = function_space(
        network,
        likelihood,
        flat(),
        flow=flow,
        measurement=train_only(),
        optimiser=optax.chain(on_weights(network), optimiser),
        noise_optimiser=optax.adam(0.1),
    )
    start = algorithm.init(jax.random.key(0), n)
    return run(jax.random.key(1), algorithm, start, make_batch(x, y), steps, **options).state


def test_a_few_whole_steps_are_ridge_regression(x64):
    x, y = copies()
    ridge = Ridge(alpha=NOISE**2, fit_intercept=False).fit(x, y)
    newton = gauss_newton(linear(6), gaussian(NOISE), 1.0, trust=1e6)
    found = climb(linear(6), gaussian(NOISE), newton, x, y, steps=12).particles[..., 0]
    # the curvature is one of drawn targets, a tenth off at the worst: twelve steps leave 1e-12 of the way
    np.testing.assert_allclose(found, np.tile(ridge.coef_, (3, 1)), atol=1e-10)
    adam = climb(linear(6), gaussian(NOISE), optax.adam(0.1), x, y, steps=12).particles[..., 0]
    assert np.abs(adam - ridge.coef_).max() > 0.1


def test_batches_find_the_same_as_the_rate_falls(x64):
    """Also where the model is wrong and inputs are skewed, so that batches pull in ways of their own."""
    rng = np.random.default_rng(2)
    x = rng.exponential(size=(200, 3))
    y = x[:, 0] ** 2 / 4 - x[:, 1] + 0.3 * rng.normal(size=200)
    noise = 0.3
    ridge = Ridge(alpha=noise**2, fit_intercept=False).fit(x, y)
    newton = gauss_newton(linear(3), gaussian(noise), optax.cosine_decay_schedule(0.5, 2000))
    found = climb(linear(3), gaussian(noise), newton, x, y, steps=2000, n=8, batch_size=50).particles[..., 0]
    sd = np.sqrt(np.diag(np.linalg.inv(x.T @ x / noise**2 + np.eye(3))))
    # in standard deviations of the posterior .003 off; 1.0, if steps were cut short however low the rate
    assert np.abs((found.mean(axis=0) - ridge.coef_) / sd).max() < 0.03


def seen(likelihood, x, y, n, weight=None):
    params = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (n, *jnp.shape(leaf))), likelihood.init())
    batch = make_batch(x, y)
    batch = batch if weight is None else batch._replace(weight=jnp.asarray(weight))
    return StepContext(jax.random.key(5), batch, params, ())


@pytest.mark.parametrize(
    "likelihood", [gaussian(0.5), bernoulli(), categorical()], ids=["gaussian", "yes/no", "classes"]
)
def test_the_curvature_is_the_fisher_information(likelihood, x64):
    """Which for these three is minus the second derivative of the log-likelihood, if y is where it is expected."""
    rng, outputs = np.random.default_rng(1), 3 if likelihood.support is Support.CLASSES else 1
    x, theta = rng.normal(size=(20_000, 4)), jnp.asarray(rng.normal(size=(4, outputs)))
    y = rng.integers(0, 2, size=len(x))
    network = linear(4, outputs)
    f = likelihood.canonical(jnp.asarray(x) @ theta)
    roots = roots_of_fisher(likelihood, seen(likelihood, x, y, 1), jax.random.key(5), f[None])[0]
    value = lambda theta, x: likelihood.canonical(network.apply(theta, (), x, False)[0])  # noqa: E731
    told = row_gradients(value, theta, jnp.asarray(x), roots)

    def log_likelihood(theta):
        f = likelihood.canonical(jnp.asarray(x) @ theta)
        return jnp.sum(likelihood.log_prob((), f, make_batch(x, y).y))

    wanted = -jax.hessian(log_likelihood)(theta).reshape(told.shape[1], -1)
    # a mean of 20,000 products of draws, one each for classes
    np.testing.assert_allclose(told.T @ told, wanted, atol=0.05 * np.diag(wanted).max())


def test_the_curvature_is_the_formula(x64):
    """By loops: rows with weights, fewer than the data they stand for, and particles with noises of their own."""
    rng = np.random.default_rng(4)
    x, weight, num_data = rng.normal(size=(5, 2)), rng.uniform(0.5, 2, size=(5, 1)), 40.0
    likelihood, network = gaussian(start=0.5, floor=0.0), linear(2)
    params = jnp.asarray([-1.0, 0.5])
    given = seen(likelihood, x, np.zeros(5), 2, weight)
    given = given._replace(params=params, batch=given.batch._replace(num_data=jnp.asarray(num_data)))
    theta = jnp.asarray(rng.normal(size=(2, 2, 1)))
    newton = gauss_newton(network, likelihood, memory=0.0, every=1)
    found = newton.update(theta, newton.init(theta), theta, context=given)[1].average
    for particle, noise in enumerate(jax.vmap(likelihood.noise)(params)):
        wanted = sum(
            num_data / weight.sum() * w * np.outer(row, row) / noise**2 for row, w in zip(x, weight[:, 0], strict=True)
        )
        # a row's information is a mean of 32 squares of normals: a quarter of it off, times some three at the worst
        np.testing.assert_allclose(found[particle], wanted, atol=0.75 * np.abs(wanted).max())


def test_rows_that_weigh_nothing_are_not_seen(x64):
    x, y = copies(rows=12, features=2)
    network, likelihood, weight = linear(2), gaussian(NOISE), np.r_[np.ones(10), 0, 0][:, None]
    theta, gradient = jnp.ones((2, 2, 1)), jnp.ones((2, 2, 1))

    def step(x):
        newton = gauss_newton(network, likelihood)
        return newton.update(gradient, newton.init(theta), theta, context=seen(likelihood, x, y, 2, weight))[0]

    other = np.r_[x[:10], 1e6 * np.ones((2, 2))]
    np.testing.assert_array_equal(step(x), step(other))


@pytest.mark.parametrize("trust", [0.1, 1.0])
def test_no_particle_moves_further_than_it_is_trusted(trust, x64):
    x, y = copies()
    network, likelihood = linear(6), gaussian(NOISE)
    theta, far = jnp.zeros((2, 6, 1)), jnp.stack([1e-3 * jnp.ones((6, 1)), 1e6 * jnp.ones((6, 1))])

    def moved(trust):
        newton = gauss_newton(network, likelihood, 1.0, trust=trust)
        steps, _ = newton.update(far, newton.init(theta), theta, context=seen(likelihood, x, y, 2))
        return np.sqrt(np.mean((x @ np.asarray(steps)[..., 0].T / NOISE) ** 2, axis=0))  # in standard deviations of y

    assert moved(trust)[0] == moved(1e9)[0] < trust  # a small direction is taken whole
    assert moved(trust)[1] == pytest.approx(trust, rel=0.05)  # F is that of 32 draws at each of 200 rows


def test_several_outputs_are_not_trusted_further(x64):
    """Of three targets one draw sees one direction in a row: another has to tell how far particles move."""
    x = np.random.default_rng(6).normal(size=(64, 20))
    likelihood, network = gaussian(NOISE), linear(20, 3)
    theta, far = jnp.zeros((4, 20, 3)), 1e6 * jax.random.normal(jax.random.key(3), (4, 20, 3))
    newton = gauss_newton(network, likelihood, 1.0, trust=0.5)
    steps, _ = newton.update(far, newton.init(theta), theta, context=seen(likelihood, x, np.zeros((64, 3)), 4))
    moved = np.sqrt(np.mean(np.sum((x @ np.asarray(steps) / NOISE) ** 2, axis=-1), axis=-1))
    # 64 draws know it to about a fifth (.4 to .58 here); measured by the draws that made the factor it would be 4 to 13
    assert moved.max() < 0.8


def test_a_curvature_without_a_factor_is_damped_until_it_has_one():
    flat_directions = jnp.asarray([[1.0, 1.0], [1.0, 1.0 - 1e-3]])
    factor = damped_factor(flat_directions, jnp.zeros(2), 1e-6)
    assert jnp.all(jnp.isfinite(factor))
    np.testing.assert_allclose(factor @ factor.T, flat_directions + 1e-3 * jnp.eye(2), atol=1e-4)  # 1e-6 · 10³


def test_weights_that_no_row_has_seen_are_damped_too():
    factor = damped_factor(jnp.diag(jnp.asarray([1.0, 0.0])), jnp.zeros(2), 1e-3)
    assert jnp.all(jnp.isfinite(factor))
    assert jnp.all(jnp.diagonal(factor) > 0)


def test_the_key_is_not_one_that_the_step_uses(key):
    """What the optimiser draws has nothing to do with where functions are compared."""
    keys = []

    def measurement(key, x):
        keys.append(key)
        return x

    def update(updates, state, params=None, *, context=None):
        keys.append(context.key)
        return updates, state

    optimiser = optax.GradientTransformationExtraArgs(lambda params: (), update)
    algorithm = function_space(
        linear(2), gaussian(NOISE), flat(), measurement=measurement, optimiser=optimiser, outputs=None
    )
    x, y = copies(rows=10, features=2)
    algorithm.step(key, algorithm.init(key, 2), make_batch(x, y))
    first, second = (jax.random.key_data(key).tolist() for key in keys)
    assert first != second


def test_a_network_with_a_state_is_refused():
    network = linear(2)
    stateful = network._replace(init=lambda key: (network.init(key)[0], jnp.zeros(3)))
    algorithm = function_space(stateful, gaussian(NOISE), flat(), optimiser=gauss_newton(stateful, gaussian(NOISE)))
    x, y = copies(rows=10, features=2)
    with pytest.raises(ValueError, match="without a state"):
        run(jax.random.key(1), algorithm, algorithm.init(jax.random.key(0), 2), make_batch(x, y), 1)


def test_networks_learn_in_a_tenth_of_the_steps():
    """Tanh networks under GFSF, on a smooth function of inputs that are nearly copies."""
    x, _ = copies(rows=300, features=3)
    y = np.sin(x[:, 0]) + 10 * (x[:, 1] - x[:, 0])
    network, likelihood = mlp((3, 10, 1), jnp.tanh), gaussian(floor=0.0)
    newton = gauss_newton(network, likelihood)

    def error(optimiser, steps):
        state = climb(network, likelihood, optimiser, x, y, steps, flow=gfsf, batch_size=100)
        f = jax.vmap(lambda theta: network.apply(theta, (), jnp.asarray(x, jnp.float32), False)[0])(state.particles)
        return float(np.sqrt(np.mean((np.asarray(f)[..., 0] - y) ** 2)))

    few, many = error(newton, 200), error(optax.adam(4e-3), 2000)
    assert few < 0.5 * many


def test_a_run_cut_in_two_ends_where_the_whole_does():
    x, y = copies(rows=40, features=2)
    network, likelihood = mlp((2, 4, 1), jnp.tanh), gaussian(NOISE)
    newton = gauss_newton(network, likelihood, every=3)
    whole = climb(network, likelihood, newton, x, y, 40, batch_size=16)
    parts = climb(network, likelihood, newton, x, y, 40, batch_size=16, chunk_size=7)
    np.testing.assert_array_equal(ravel(whole.particles)[0], ravel(parts.particles)[0])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"memory": 1.0}, "memory=1.0 must be at least 0 and less than 1"),
        ({"every": 0}, "every=0 must be a whole number, at least 1"),
        ({"damping": 0.0}, "damping=0.0 and trust=0.25 must be positive"),
        ({"trust": float("nan")}, "trust=nan must be positive"),
    ],
)
def test_numbers_no_run_could_use(options, words):
    with pytest.raises(ValueError, match=words):
        gauss_newton(linear(2), gaussian(NOISE), **options)


def test_weight_space_is_told_that_it_is_not_for_it():
    x, y = copies(rows=10, features=2)
    algorithm = weight_space(linear(2), gaussian(NOISE), optimiser=gauss_newton(linear(2), gaussian(NOISE)))
    with pytest.raises(ValueError, match="gauss_newton is an optimiser for function_space"):
        run(jax.random.key(1), algorithm, algorithm.init(jax.random.key(0), 2), make_batch(x, y), 1)
