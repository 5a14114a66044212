# SPDX-License-Identifier: Apache-2.0
"""One whole step against closed forms with explicit Jacobians, and the rules of the update."""

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fpovi.flows import FLOWS, ensemble
from fpovi.inference import exact, function_space, only_extra, weight_space
from fpovi.inference.batches import make_batch
from fpovi.inference.loop import run
from fpovi.inference.particles import ravel
from fpovi.kernels import activation, function_value, rbf
from fpovi.likelihoods import LIKELIHOODS, categorical, gaussian
from fpovi.measurement import points, train_only
from fpovi.networks import mlp
from fpovi.priors import flat, gaussian_process, moment_matched, nngp, ssge, width_aware
from fpovi.types import FunctionPrior, Support

N, B, EXTRA, RATE, NOISE, LENGTHSCALE = 4, 3, 2, 1e-2, 0.7, 1.9
NETWORK = mlp((2, 4, 1), activation=jnp.tanh)


def covariance(a, b):
    return jnp.exp(-jnp.sum((a[:, None] - b) ** 2, -1) / 2)


PRIOR = gaussian_process(covariance, jitter=0.1)
EXTRA_POINTS = np.random.default_rng(5).normal(size=(EXTRA, 2))


def a_batch(rows=B, num_data=30.0):
    rng = np.random.default_rng(1)
    batch = make_batch(rng.normal(size=(rows, 2)), rng.normal(size=rows))
    return batch._replace(num_data=jnp.asarray(num_data, batch.x.dtype))


def jacobians(rows, unravel, x):
    """f ``(n, B)`` and ∂f/∂θ ``(n, B, p)``, written out."""

    def values(row):
        return NETWORK.apply(unravel(row), (), x, False)[0][:, 0]

    return jax.jit(lambda rows: (jax.vmap(values)(rows), jax.vmap(jax.jacobian(values))(rows)))(rows)


def start(algorithm, key):
    return jax.jit(algorithm.init, static_argnums=1)(key, N)


def one_step(algorithm, batch, key):
    """The states before and after a step, and its info."""
    state = start(algorithm, key)
    return state, *jax.jit(algorithm.step)(key, state, batch)


def moved(algorithm, batch, key):
    """The change of the ravelled weights in one step of plain gradient ascent, and where it began."""
    state, after, _ = one_step(algorithm, batch, key)
    rows, unravel = ravel(state.particles)
    return (ravel(after.particles)[0] - rows) / RATE, rows, unravel


def f_svgd():
    return function_space(
        NETWORK, gaussian(NOISE), PRIOR, kernel=rbf(LENGTHSCALE), measurement=points(EXTRA_POINTS),
        optimiser=optax.sgd(RATE),
    )  # fmt: skip


def test_f_svgd_step_is_the_closed_form_of_the_appendix(key, x64):
    batch = a_batch()
    change, rows, unravel = moved(f_svgd(), batch, key)

    x = jnp.concatenate([batch.x, jnp.asarray(EXTRA_POINTS)])
    f, jacobian = (np.asarray(a) for a in jacobians(rows, unravel, x))
    prior_precision = np.linalg.inv(covariance(x, x) + 0.1 * np.eye(B + EXTRA))
    y, expected = np.asarray(batch.y[:, 0]), np.zeros(rows.shape)
    for i in range(N):
        for j in range(N):
            k_ij = np.exp(-np.sum((f[i] - f[j]) ** 2) / (2 * LENGTHSCALE**2))
            score = -prior_precision @ f[j]
            score[:B] += 30 / (B * NOISE**2) * (y - f[j, :B])
            expected[i] += jacobian[i].T @ (k_ij * score + k_ij / LENGTHSCALE**2 * (f[i] - f[j])) / N
    np.testing.assert_allclose(change, expected, rtol=1e-8)


def weight_score(rows, unravel, batch):
    """∂/∂θ of N/B Σ log p(y | f) and of log p(θ), apart, with explicit Jacobians."""
    f, jacobian = jacobians(rows, unravel, batch.x)
    likelihood = 30 / (B * NOISE**2) * jnp.einsum("nb,nbp->np", batch.y[:, 0] - f, jacobian)
    prior = jax.jit(jax.vmap(jax.grad(lambda row: NETWORK.log_prior(unravel(row)))))(rows)
    return likelihood + prior


def test_ensemble_step_is_map_ascent(key, x64):
    batch = a_batch()
    algorithm = weight_space(NETWORK, gaussian(NOISE), flow=ensemble, optimiser=optax.sgd(RATE))
    change, rows, unravel = moved(algorithm, batch, key)
    np.testing.assert_allclose(change, weight_score(rows, unravel, batch), rtol=1e-6)  # the prior's scales are float32


def test_members_of_an_ensemble_step_as_under_a_flow_that_returns_the_score(key, x64, loose_dtypes):
    """They are stepped leaf by leaf and never compared; with a learned noise, a temperature, and what is reported."""
    batch, options = a_batch(), {"optimiser": optax.adam(RATE), "temperature": 2.0}
    _, alone, info = one_step(weight_space(NETWORK, gaussian(), flow=ensemble, **options), batch, key)
    _, in_rows, expected = one_step(
        weight_space(NETWORK, gaussian(), flow=lambda f, score, kernel: score, **options), batch, key
    )
    for a, b in zip(*map(jax.tree.leaves, (alone, in_rows)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)  # sums in another order, and a prior whose scales are float32
    for name in ("log_likelihood", "likelihood_norm", "prior_norm", "repulsion_norm", "velocity_norm", "noise"):
        np.testing.assert_allclose(getattr(info, name), getattr(expected, name), rtol=1e-6)
    assert np.isnan([info.similarity, info.lengthscale]).all()
    assert bool(info.finite)


def test_svgd_with_the_function_value_kernel_mixes_gradients(key, x64):
    """The Jacobian that moves particle i is particle j's: the appendix on the relation to ensembles."""
    batch = a_batch()
    algorithm = weight_space(
        NETWORK, gaussian(NOISE), kernel=function_value(rbf(LENGTHSCALE)), measurement=points(EXTRA_POINTS),
        optimiser=optax.sgd(RATE),
    )  # fmt: skip
    change, rows, unravel = moved(algorithm, batch, key)

    x = jnp.concatenate([batch.x, jnp.asarray(EXTRA_POINTS)])
    f, jacobian = (np.asarray(a) for a in jacobians(rows, unravel, x))
    score = np.asarray(weight_score(rows, unravel, batch))
    expected = np.zeros(rows.shape)
    for i in range(N):
        for j in range(N):
            k_ij = np.exp(-np.sum((f[i] - f[j]) ** 2) / (2 * LENGTHSCALE**2))
            expected[i] += (k_ij * score[j] + k_ij / LENGTHSCALE**2 * jacobian[j].T @ (f[i] - f[j])) / N
    np.testing.assert_allclose(change, expected, rtol=1e-6)


def test_pull_back_is_gradient_descent_to_the_exact_update(key, x64):
    """Remark 3.1: the step is the gradient of ½‖f(θ) − (f + εφ)‖², the target held fixed."""
    batch, epsilon = a_batch(), 1e-3
    change, rows, unravel = moved(f_svgd(), batch, key)
    x = jnp.concatenate([batch.x, jnp.asarray(EXTRA_POINTS)])
    f, _ = jacobians(rows, unravel, x)

    @jax.jit
    def exact_update(f):
        score = PRIOR.score(key, f[..., None], x)[..., 0]
        score = score.at[:, :B].add(30 / (B * NOISE**2) * (batch.y[:, 0] - f[:, :B]))
        return f + epsilon * FLOWS["svgd"](f, score, rbf(LENGTHSCALE))

    target = exact_update(f)

    def loss(rows):
        return jnp.sum((jacobians(rows, unravel, x)[0] - target) ** 2) / 2

    np.testing.assert_allclose(change, -jax.jit(jax.grad(loss))(rows) / epsilon, rtol=1e-8)


def test_weight_space_svgd_is_blackjaxs(key, x64, loose_dtypes):
    """Five steps with the same bandwidth: blackjax's kernel is exp(−d²/h), ours exp(−d²/2ℓ²)."""
    batch = a_batch(num_data=3.0)
    algorithm = weight_space(NETWORK, gaussian(NOISE), kernel=rbf(LENGTHSCALE), optimiser=optax.adam(RATE))
    state = start(algorithm, key)

    def log_density(theta):
        f = NETWORK.apply(theta, (), batch.x, False)[0]
        return jnp.sum(gaussian(NOISE).log_prob((), f, batch.y)) + NETWORK.log_prior(theta)

    peer = blackjax.svgd(
        jax.grad(log_density),
        optax.adam(RATE),
        blackjax.vi.svgd.rbf_kernel,
        update_kernel_parameters=lambda state: state,
    )
    theirs = peer.init(state.particles, {"length_scale": 2 * LENGTHSCALE**2})
    ours_step, theirs_step = jax.jit(algorithm.step), jax.jit(peer.step)
    for _ in range(5):
        state, _ = ours_step(key, state, batch)
        theirs = theirs_step(theirs)
    for ours, other in zip(jax.tree.leaves(state.particles), jax.tree.leaves(theirs.particles), strict=True):
        np.testing.assert_allclose(ours, other, rtol=1e-9, atol=1e-9)


def remembering_prior(size):
    """A prior that carries the points it was shown last, and pulls by one at each."""
    return FunctionPrior(
        score=lambda key, f, x: jnp.ones_like(f),
        init=lambda key, particles: jnp.zeros((size, 2)),
        advance=lambda key, carry, f, x: (jnp.ones_like(f), x),
    )


def test_half_of_the_prior_points_are_labelled(key):
    batch = a_batch(rows=10)
    extra = 100 + np.arange(10.0)[:, None] * np.ones((1, 2))
    algorithm = function_space(
        NETWORK, gaussian(NOISE), remembering_prior(6), measurement=points(extra), prior_size=6,
        optimiser=optax.sgd(RATE),
    )  # fmt: skip
    step, state = jax.jit(algorithm.step), start(algorithm, key)
    (after, info), (later, _) = step(key, state, batch), step(jax.random.key(1), state, batch)
    seen = [np.asarray(after.prior), np.asarray(later.prior)]
    assert [np.sum(x[:, 0] < 50) for x in seen] == [3, 3]
    assert all(len(np.unique(x, axis=0)) == 6 for x in seen)
    assert not np.array_equal(seen[0], seen[1])
    # zeros elsewhere: 6 of 20 points feel a score of one
    assert float(info.prior_norm) == pytest.approx((6 / 20) ** 0.5)


def test_without_extra_points_the_prior_feels_labelled_ones(key):
    batch = a_batch()
    algorithm = function_space(
        NETWORK,
        gaussian(NOISE),
        remembering_prior(2),
        measurement=train_only(),
        prior_size=2,
        optimiser=optax.sgd(RATE),
    )
    _, after, _ = one_step(algorithm, batch, key)
    labelled = {tuple(row) for row in np.asarray(batch.x)}
    seen = {tuple(row) for row in np.asarray(after.prior)}
    assert len(seen) == 2
    assert seen < labelled


def test_padding_rows_weigh_nothing(key):
    batch = a_batch()
    padded = batch._replace(
        x=jnp.concatenate([batch.x, batch.x[:1]]),
        y=jnp.concatenate([batch.y, batch.y[:1] + 100]),
        weight=jnp.concatenate([batch.weight, jnp.zeros((1, 1))]),
    )
    algorithm = weight_space(NETWORK, gaussian(NOISE), optimiser=optax.sgd(RATE))
    # the same sums with an exact zero in them
    np.testing.assert_allclose(moved(algorithm, padded, key)[0], moved(algorithm, batch, key)[0], rtol=1e-4, atol=1e-5)


def test_weights_equal_repetition(key):
    batch = a_batch()
    twice = batch._replace(weight=jnp.asarray([[2.0], [1.0], [1.0]]), num_data=jnp.asarray(4.0))
    repeated = make_batch(np.concatenate([batch.x, batch.x[:1]]), np.concatenate([batch.y, batch.y[:1]]))
    algorithm = weight_space(NETWORK, gaussian(NOISE), optimiser=optax.sgd(RATE))
    np.testing.assert_allclose(
        moved(algorithm, twice, key)[0], moved(algorithm, repeated, key)[0], rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("space", ["function", "weight"])
def test_noise_moves_by_map_and_is_shared_only_on_request(space, shared, key):
    likelihood = gaussian(shared=shared, floor=0.0)
    algorithm = (
        function_space(NETWORK, likelihood, flat(), optimiser=optax.sgd(RATE), noise_optimiser=optax.sgd(RATE))
        if space == "function"
        else weight_space(NETWORK, likelihood, optimiser=optax.sgd(RATE))
    )
    state, after, _ = one_step(algorithm, a_batch(), key)
    np.testing.assert_allclose(jax.nn.softplus(state.params), 0.5, rtol=1e-5)
    same = jnp.allclose(after.params, after.params[0])
    assert not jnp.allclose(after.params, state.params)
    assert bool(same) == shared


@pytest.mark.parametrize("space", ["function", "weight"])
def test_the_floor_of_a_noise_stays_whatever_the_optimiser_does(space, key, loose_dtypes):
    """Weight decay pulls at all it sees, whether or not it has a gradient."""
    likelihood, decaying = gaussian(floor=0.3), optax.adamw(RATE, weight_decay=1.0)
    algorithm = (
        function_space(NETWORK, likelihood, flat(), noise_optimiser=decaying)
        if space == "function"
        else weight_space(NETWORK, likelihood, optimiser=decaying)
    )
    state, after, _ = one_step(algorithm, a_batch(), key)
    assert (after.params.floor == state.params.floor).all()
    assert not jnp.allclose(after.params.rho, state.params.rho)


def test_noise_ascent_is_the_gradient_of_the_map_objective(key, x64):
    """N/B Σ log N(y; f, σ²) + log inverse-gamma(σ; 1, .1), σ = softplus(ρ), no Jacobian term."""
    batch = a_batch()
    algorithm = function_space(
        NETWORK, gaussian(floor=0.0), flat(), optimiser=optax.sgd(RATE), noise_optimiser=optax.sgd(RATE)
    )
    state, after, _ = one_step(algorithm, batch, key)
    rows, unravel = ravel(state.particles)
    f, _ = jacobians(rows, unravel, batch.x)

    def objective(rho, f):
        sigma = jnp.log1p(jnp.exp(rho))
        fit = jnp.sum(-((batch.y[:, 0] - f) ** 2) / (2 * sigma**2) - jnp.log(sigma))
        return 30 / B * fit - 2 * jnp.log(sigma) - 0.1 / sigma

    expected = jax.jit(jax.vmap(jax.grad(objective)))(state.params, f)
    np.testing.assert_allclose((after.params - state.params) / RATE, expected, rtol=1e-8)


def test_knobs_may_be_schedules(key):
    """Temperature 2 halves the score; repulsion 0 with svgd and one particle alone changes nothing."""
    batch = a_batch()
    make = lambda **knobs: function_space(  # noqa: E731
        NETWORK, gaussian(NOISE), PRIOR, flow=ensemble, optimiser=optax.sgd(RATE), **knobs
    )
    cold = moved(make(), batch, key)[0]
    warm = moved(make(temperature=lambda step: 2.0 + step.astype(float)), batch, key)[0]
    np.testing.assert_allclose(warm, cold / 2, rtol=1e-3, atol=1e-4)
    no_prior = moved(
        function_space(NETWORK, gaussian(NOISE), flat(), flow=ensemble, optimiser=optax.sgd(RATE)), batch, key
    )
    np.testing.assert_allclose(moved(make(prior_weight=0.0), batch, key)[0], no_prior[0], rtol=1e-3, atol=1e-4)


def test_repulsion_knob_scales_only_the_repulsion(key, x64):
    batch = a_batch()
    make = lambda **knobs: function_space(  # noqa: E731
        NETWORK, gaussian(NOISE), PRIOR, kernel=rbf(LENGTHSCALE), optimiser=optax.sgd(RATE), **knobs
    )
    none, one, two = (moved(make(repulsion=r), batch, key)[0] for r in (0.0, 1.0, 2.0))
    np.testing.assert_allclose(two - one, one - none, rtol=1e-6, atol=1e-9)
    assert float(jnp.max(jnp.abs(one - none))) > 1e-3


def test_exact_moves_values_by_the_flow(key, x64):
    x = jnp.asarray(np.random.default_rng(0).normal(size=(5, 2)))
    batch = make_batch(np.asarray(x[:B]), np.zeros(B))
    algorithm = exact(
        x, gaussian(NOISE), PRIOR, start=lambda key: jax.random.normal(key, (5, 1)), kernel=rbf(LENGTHSCALE),
        optimiser=optax.sgd(RATE),
    )  # fmt: skip
    state, after, _ = one_step(algorithm, batch, key)
    f = state.particles[..., 0]
    score = PRIOR.score(key, state.particles, x)[..., 0].at[:, :B].add(-f[:, :B] / NOISE**2)
    expected = FLOWS["svgd"](f, score, rbf(LENGTHSCALE))
    np.testing.assert_allclose((after.particles[..., 0] - f) / RATE, expected, rtol=1e-8)


ENGINES = {
    "function_space": lambda flow: function_space(NETWORK, gaussian(floor=0.0), PRIOR, flow=flow),
    "weight_space": lambda flow: weight_space(NETWORK, gaussian(floor=0.0), flow=flow),
    "activation_kernel": lambda flow: weight_space(NETWORK, gaussian(floor=0.0), flow=flow, kernel=activation()),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", FLOWS)
def test_every_flow_takes_a_step_in_both_spaces(name, engine, key, loose_dtypes):
    before, after, info = one_step(ENGINES[engine](FLOWS[name]), a_batch(), key)
    rows = ravel(after.particles)[0]
    assert bool(info.finite)
    assert int(after.step) == 1
    assert jnp.all(jnp.isfinite(rows))
    assert not jnp.array_equal(rows, ravel(before.particles)[0])


def test_particles_may_be_given(key):
    algorithm = function_space(NETWORK, gaussian(floor=0.0), PRIOR)
    state = start(algorithm, key)
    again = jax.jit(algorithm.init, static_argnums=1)(jax.random.key(9), N, particles=state.particles)
    np.testing.assert_array_equal(ravel(again.particles)[0], ravel(state.particles)[0])
    with pytest.raises(ValueError, match="particles has 4 members, but n=3"):
        algorithm.init(key, 3, particles=state.particles)


def test_prior_size_must_be_positive():
    with pytest.raises(ValueError, match="prior_size=0"):
        function_space(NETWORK, gaussian(floor=0.0), PRIOR, prior_size=0)


TARGETS = {
    "gaussian": np.zeros((B, 1)),
    "heteroscedastic": np.zeros((B, 1)),
    "student_t": np.zeros((B, 1)),
    "mixture": np.zeros((B, 1)),
    "categorical": np.arange(B)[:, None],
    "bernoulli": np.ones((B, 1)),
    "poisson": np.ones((B, 1)),
}


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_every_likelihood_takes_a_step(name, key):
    likelihood = LIKELIHOODS[name]()
    network = mlp((2, 4, 3 if likelihood.support is Support.CLASSES else likelihood.width(1)))
    algorithm = function_space(
        network, likelihood, nngp(network, likelihood), optimiser=optax.sgd(RATE),
        noise_optimiser=optax.sgd(RATE),
    )  # fmt: skip
    batch = make_batch(np.asarray(a_batch().x), TARGETS[name])
    _, info = jax.jit(algorithm.step)(key, algorithm.init(key, N), batch)
    assert bool(info.finite)
    assert jnp.isfinite(info.log_likelihood)


@pytest.mark.parametrize("make", [nngp, moment_matched, ssge, width_aware])
def test_a_prior_over_raw_outputs_is_refused_for_classes(make):
    network = mlp((2, 4, 3))
    with pytest.raises(ValueError, match=r"prior is over raw outputs.*nngp\(network, likelihood\)"):
        function_space(network, categorical(), make(network))


@pytest.mark.parametrize(
    ("likelihood", "y", "said"),
    [
        (gaussian(floor=0.0), np.zeros((B, 2)), "y has 2 targets per row, but the network's 3 outputs predict 3"),
        (categorical(), np.arange(1, B + 1), "values 1…3, but 3 classes are integers 0…2"),
        (categorical(), np.array([0, 1, -1]), "values -1…1"),
        (categorical(), np.zeros(B), "dtype float32"),
        (LIKELIHOODS["bernoulli"](), np.full((B, 3), 5.0), "0 or 1"),
        (LIKELIHOODS["poisson"](), np.full((B, 3), -3.0), "whole numbers from 0"),
    ],
)
def test_targets_must_suit_the_likelihood(likelihood, y, said, key):
    algorithm = weight_space(mlp((2, 4, 3)), likelihood, optimiser=optax.sgd(RATE))
    with pytest.raises(ValueError, match=said):
        run(key, algorithm, algorithm.init(key, N), make_batch(np.zeros((B, 2)), y), 1)


def test_any_function_is_a_kernel(key, x64):
    """A plain ``kernel(a, b)`` moves the particles as the kernel of the library with the same formula does."""
    ours = rbf(LENGTHSCALE)
    make = lambda kernel: function_space(  # noqa: E731
        NETWORK, gaussian(NOISE), PRIOR, kernel=kernel, measurement=train_only(), optimiser=optax.sgd(RATE)
    )
    plain = moved(make(lambda a, b: ours(a, b)), a_batch(), key)[0]
    np.testing.assert_allclose(plain, moved(make(ours), a_batch(), key)[0], rtol=1e-9)
    with pytest.raises(ValueError, match="kernel=function_value and activation are for weight_space"):
        make(function_value())


def test_kernel_and_prior_look_at_the_chosen_outputs_only(key, x64):
    """As if the other outputs did not exist, but for the likelihood."""
    network, likelihood = mlp((2, 4, 3)), gaussian(NOISE)
    batch = make_batch(np.asarray(a_batch().x), np.zeros((B, 3)))
    f = jax.random.normal(key, (N, B, 3))
    algorithm = exact(
        batch.x, likelihood, nngp(network), start=lambda key: jnp.zeros((B, 3)), kernel=rbf(LENGTHSCALE),
        optimiser=optax.sgd(RATE), outputs=lambda key, batch, rows: jnp.asarray([2, 0]),
    )  # fmt: skip
    state = algorithm.init(key, N, particles=f)
    after, _ = jax.jit(algorithm.step)(key, state, batch)
    velocity = (after.particles - f) / RATE

    score = -f / NOISE**2
    score = score.at[..., [0, 2]].add(nngp(network).score(key, f[..., [0, 2]], batch.x))
    seen = f[..., [0, 2]].reshape(N, -1)
    gram = rbf(LENGTHSCALE)(seen, seen)
    push = rbf(LENGTHSCALE).repulsion(seen, jnp.ones(N)).reshape(N, B, 2)
    expected = (jnp.einsum("ij,jbk->ibk", gram, score) + jnp.zeros_like(f).at[..., [0, 2]].set(push)) / N
    np.testing.assert_allclose(velocity, expected, rtol=1e-8)


def test_the_prior_may_look_at_other_outputs_than_the_kernel(key, x64):
    """The kernel sees all outputs, and the prior those that are chosen for the points that feel it."""
    network, likelihood = mlp((2, 4, 3)), gaussian(NOISE)
    batch = make_batch(np.asarray(a_batch().x), np.zeros((B, 3)))
    f, rows_seen = jax.random.normal(key, (N, B, 3)), []

    def choose(key, batch, rows):
        rows_seen.append(rows.shape)
        return jnp.asarray([2, 0])

    algorithm = exact(
        batch.x, likelihood, nngp(network), start=lambda key: jnp.zeros((B, 3)), kernel=rbf(LENGTHSCALE),
        optimiser=optax.sgd(RATE), prior_outputs=choose,
    )  # fmt: skip
    after, info = jax.jit(algorithm.step)(key, algorithm.init(key, N, particles=f), batch)
    score = -f / NOISE**2
    score = score.at[..., [0, 2]].add(nngp(network).score(key, f[..., [0, 2]], batch.x))
    seen = f.reshape(N, -1)
    push = rbf(LENGTHSCALE).repulsion(seen, jnp.ones(N)).reshape(f.shape)
    expected = (jnp.einsum("ij,jbk->ibk", rbf(LENGTHSCALE)(seen, seen), score) + push) / N
    np.testing.assert_allclose((after.particles - f) / RATE, expected, rtol=1e-8)
    np.testing.assert_allclose(info.repulsion_norm, jnp.sqrt(jnp.mean((push / N) ** 2)), rtol=1e-8)
    assert set(rows_seen) == {(B,)}


def test_points_with_outputs_of_their_own_are_compared_there(key, x64):
    """An ensemble of many classes: repulsion is nonzero at the chosen values alone."""
    batch = make_batch(np.asarray(a_batch().x), np.arange(B) % 3)
    own = jnp.stack([jnp.arange(B) % 3, (jnp.arange(B) + 1) % 3], axis=1)
    f = jax.random.normal(key, (N, B, 3))
    network, likelihood = mlp((2, 4, 3)), categorical()
    algorithm = exact(
        batch.x, likelihood, nngp(network, likelihood), start=lambda key: jnp.zeros((B, 3)), kernel=rbf(LENGTHSCALE),
        optimiser=optax.sgd(RATE), outputs=lambda key, batch, rows: own,
    )  # fmt: skip
    after, _ = jax.jit(algorithm.step)(key, algorithm.init(key, N, f), batch)

    def moves(f):
        values = likelihood.canonical(f)
        score = jax.grad(lambda v: likelihood.log_prob((), v, batch.y).sum())
        total = jax.vmap(score)(values) + nngp(network, likelihood).score(key, values, batch.x, own)
        kept = jnp.zeros((B, 3)).at[jnp.arange(B)[:, None], own].set(1)
        seen = (values * kept).reshape(N, -1)
        push = rbf(LENGTHSCALE).repulsion(seen, jnp.ones(N)).reshape(f.shape)
        return (jnp.einsum("ij,jbk->ibk", rbf(LENGTHSCALE)(seen, seen), total) + push) / N

    (expected,) = jax.vjp(likelihood.canonical, f)[1](moves(f))
    np.testing.assert_allclose((after.particles - f) / RATE, expected, rtol=1e-6)


def test_values_count_as_much_as_is_asked(key, x64):
    """The flow sees f times the factors, and a velocity of that is one of f by the chain rule."""
    likelihood, rows = gaussian(NOISE), B
    x = np.random.default_rng(0).normal(size=(B + EXTRA, 2))
    batch = make_batch(x[:rows], np.zeros(rows))
    f = jax.random.normal(key, (N, len(x), 1))
    weight = jnp.linspace(0.0, 2.0, len(x))[:, None]

    def velocity(compare):
        algorithm = exact(
            jnp.asarray(x), likelihood, flat(), start=lambda key: jnp.zeros((len(x), 1)), kernel=rbf(LENGTHSCALE),
            optimiser=optax.sgd(RATE), compare=compare,
        )  # fmt: skip
        after, _ = jax.jit(algorithm.step)(key, algorithm.init(key, N, f), batch)
        return (after.particles - f) / RATE

    score = jnp.zeros_like(f).at[:, :rows].set(-f[:, :rows] / NOISE**2)
    for compare, factor in (
        (lambda f, batch: weight, weight),
        (only_extra, (jnp.arange(len(x)) >= rows)[:, None].astype(float)),
    ):
        seen = (f * factor).reshape(N, -1)
        push = rbf(LENGTHSCALE).repulsion(seen, jnp.ones(N)).reshape(f.shape) * factor
        expected = (jnp.einsum("ij,jbk->ibk", rbf(LENGTHSCALE)(seen, seen), score) + push) / N
        np.testing.assert_allclose(velocity(compare), expected, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("knob", [{"temperature": 0.0}, {"repulsion": -1.0}, {"prior_weight": float("nan")}])
def test_useless_knobs_are_refused(knob):
    with pytest.raises(ValueError, match=next(iter(knob))):
        function_space(NETWORK, gaussian(NOISE), PRIOR, **knob)


def test_exact_looks_values_up_by_input(key, x64):
    """Rows in another order carry their own labels along."""
    x = jnp.asarray(np.random.default_rng(0).normal(size=(5, 2)))
    batch = make_batch(np.asarray(x), np.arange(5.0))
    algorithm = exact(
        x, gaussian(NOISE), flat(), start=lambda key: jnp.zeros((5, 1)), flow=ensemble, optimiser=optax.sgd(RATE)
    )
    order = np.array([3, 0, 4, 1, 2])
    shuffled = batch._replace(x=batch.x[order], y=batch.y[order])
    state = algorithm.init(key, 2)
    unrolled, mixed = (algorithm.step(key, state, rows)[0].particles for rows in (batch, shuffled))
    np.testing.assert_allclose(unrolled, mixed, rtol=1e-12)
