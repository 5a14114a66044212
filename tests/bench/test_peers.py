# SPDX-License-Identifier: Apache-2.0
"""Other libraries are timed on the same computation: their numbers equal ours."""

import sys
from functools import partial

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fpovi.bench.contestants import peers
from fpovi.bench.contestants.ours import PRIOR_DRAWS
from fpovi.bench.settings import SETTINGS, Setting, make_workload
from fpovi.bench.timing import UnavailableError
from fpovi.flows import ensemble, svgd
from fpovi.inference import weight_space
from fpovi.inference.particles import forward, init_particles
from fpovi.inference.score import noise_direction, weighted_log_likelihood
from fpovi.kernels import rbf
from fpovi.priors import moment_matched

pytestmark = pytest.mark.usefixtures("loose_dtypes")
TINY = Setting("tiny", (3, 8, 1), batch=12, extra=8, n=5, prior_points=6)
CLASSES = Setting("classes", (3, 8, 4), batch=12, extra=0, n=5, prior_points=2, classes=True)
both = pytest.mark.parametrize("setting", [TINY, CLASSES], ids=lambda setting: setting.name)


def moved(setting, flow, kernel):
    """One plain ascent step of the library's weight space, with rate 1e-3."""
    parts = make_workload(setting)
    algorithm = weight_space(parts.network, parts.likelihood, flow=flow, kernel=kernel, optimiser=optax.sgd(1e-3))
    state = jax.jit(algorithm.init, static_argnums=1)(jax.random.key(0), setting.n)
    state, _ = jax.jit(algorithm.step)(jax.random.key(1), state, parts.all_rows)
    return state.particles, state.params


def agree(a, b, tolerance=1e-5):
    """Float32 sums of some hundred terms, in another order."""
    return all(
        np.allclose(x, y, rtol=tolerance, atol=tolerance)
        for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    )


@both
def test_the_common_density_is_that_of_weight_space(setting):
    parts = make_workload(setting)
    start = peers.starting_particles(parts, setting.n)
    one = jax.grad(partial(peers.log_posterior, parts))
    slope = jax.jit(jax.vmap(one, in_axes=(0, None)))(start, parts.all_rows)
    climbed = jax.tree.map(lambda a, g: a + 1e-3 * g, start, slope)
    assert agree(climbed, moved(setting, ensemble, None))


@both
def test_blackjax_takes_our_step(setting):
    """With the kernel held fixed, exp(−d²/c) with c = 2ℓ²: its median leaves out the diagonal."""
    parts = make_workload(setting)
    algorithm = blackjax.svgd(jax.grad(partial(peers.log_posterior, parts)), optax.sgd(1e-3))
    state = algorithm.init(peers.starting_particles(parts, setting.n), {"length_scale": 2 * 1.5**2})
    theirs = jax.jit(lambda state, rows: algorithm.step(state, rows=rows).particles)(state, parts.all_rows)
    assert agree(theirs, moved(setting, svgd, rbf(1.5)))


def unit_noise(setting, value):
    """softplus⁻¹, where the likelihood has a noise."""
    return () if setting.classes else jnp.log(jnp.expm1(value))


def by_name(theta):
    named = {f"weight_{i}": weight for i, weight in enumerate(theta.weights)}
    return named | {f"bias_{i}": bias for i, bias in enumerate(theta.biases)}


def our_density(setting, seed):
    """Of one network with noise .7, as a density of σ itself, in which the models of the peers are written."""
    parts = make_workload(setting)
    theta, _ = parts.network.init(jax.random.key(seed))
    params = unit_noise(setting, 0.7)
    density = jax.jit(partial(peers.log_posterior, parts))((theta, params), parts.all_rows)
    return theta, density - parts.likelihood.log_jacobian(params)


@both
def test_numpyro_has_the_same_density(setting):
    numpyro = pytest.importorskip("numpyro", reason="numpyro is not installed")
    rows = make_workload(setting).all_rows
    theta, density = our_density(setting, 2)
    values = by_name(theta) | ({} if setting.classes else {"noise": jnp.asarray(0.7)})
    found, _ = numpyro.infer.util.log_density(partial(peers.numpyro_model, setting), (rows.x, rows.y), {}, values)
    assert np.isclose(found, density, rtol=1e-5)


@both
def test_pyro_has_the_same_density(setting):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    pyro = pytest.importorskip("pyro", reason="pyro-ppl is not installed")
    theta, density = our_density(setting, 3)
    rows = make_workload(setting).all_rows
    x, y = (torch.from_numpy(np.array(a)) for a in (rows.x, rows.y))
    values = {name: torch.from_numpy(np.array(value)) for name, value in by_name(theta).items()}
    values |= {} if setting.classes else {"noise": torch.tensor(0.7)}
    conditioned = pyro.poutine.condition(partial(peers.pyro_model, setting), values)
    found = pyro.poutine.trace(conditioned).get_trace(x, y).log_prob_sum()
    assert np.isclose(float(found), density, rtol=1e-5)


def test_torch_moves_functions_and_noises_as_we_do():
    """One velocity on the same values, points and prior draws, to float32 and an eigenvalue floor of 1e-3."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from fpovi.bench.contestants import torch_step

    parts, key = make_workload(TINY), jax.random.key(5)
    likelihood, rows = parts.likelihood, parts.labelled
    f, x = 0.3 * jax.random.normal(key, (TINY.n, TINY.points, 1)), parts.all_rows.x
    params = jnp.log(jnp.expm1(jnp.full(TINY.n, 0.5)))
    chosen = np.asarray([0, 5, 7, 13, 15, 19])

    @jax.jit
    def move(f, params):
        by = jax.grad(weighted_log_likelihood, argnums=(1, 2), has_aux=True)
        (noise_score, score), _ = by(likelihood, params, f, rows)
        whole = parts.network._replace(architecture=None)  # whose draws are whole networks, as those of PyTorch
        felt = moment_matched(whole, draws=PRIOR_DRAWS).score(key, f[:, chosen], x[chosen])
        velocity = svgd(f[..., 0], score.at[:, chosen].add(felt)[..., 0], rbf())
        return velocity, noise_direction(likelihood, noise_score, params)

    ours, our_noise_velocity = move(f, params)

    draws = jax.vmap(lambda key: parts.network.sample_prior(jax.random.split(key)[0]))(
        jax.random.split(key, PRIOR_DRAWS)
    )
    tensor = lambda array: torch.from_numpy(np.array(array))  # noqa: E731
    layers = [(tensor(w), tensor(b)) for w, b in zip(draws.weights, draws.biases, strict=True)]
    theirs = torch_step.TorchFunctionSVGD(TINY, rows)
    velocity, noise_velocity = torch.no_grad()(theirs.velocities)(tensor(f), tensor(x), tensor(chosen), layers)
    scale = np.abs(ours).max()
    assert np.allclose(velocity[..., 0].numpy() / scale, ours / scale, atol=1e-4)
    assert np.allclose(noise_velocity.numpy(), our_noise_velocity, rtol=1e-4)


def test_torch_draws_networks_from_our_prior_and_evaluates_them_as_we_do():
    """Moments of 4,000 draws to three standard errors; outputs to float32."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from fpovi.bench.contestants import torch_step

    torch.manual_seed(0)
    drawn = torch_step.prior_networks(TINY.sizes, 4000)
    for (weight, bias), n_in in zip(drawn, TINY.sizes[:-1], strict=True):
        assert float(weight.std()) == pytest.approx(n_in**-0.5, rel=3 / (2 * weight.numel()) ** 0.5)
        assert float(bias.std()) == pytest.approx(1, rel=3 / (2 * bias.numel()) ** 0.5)
    parts = make_workload(TINY)
    theta, _ = peers.starting_particles(parts, 2)
    ours = jax.vmap(lambda theta: parts.network.apply(theta, (), parts.labelled.x, True)[0])(theta)
    tensor = lambda array: torch.from_numpy(np.array(array))  # noqa: E731
    layers = [(tensor(w), tensor(b)) for w, b in zip(theta.weights, theta.biases, strict=True)]
    for outputs in (torch_step.outputs, torch_step.outputs_to_compile):
        assert np.allclose(outputs(layers, tensor(parts.labelled.x)), ours, atol=1e-5)


RESNET = SETTINGS["resnet"]._replace(batch=8, n=2, prior_points=3, draws=5)


@pytest.mark.parametrize("over", ["one_by_one", "vectorised"])
def test_residual_networks_of_torch_are_ours(over):
    """Outputs and statistics of leading rows, to float32 in another order of summation."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from fpovi.bench.contestants import torch_resnet

    parts, key = make_workload(RESNET), jax.random.key(3)
    theta, state = init_particles(key, parts.network, RESNET.n)
    x = parts.labelled.x
    ours, after = forward(parts.network, theta, state, x, 6)
    found, seen = getattr(torch_resnet, over)(
        torch_resnet.weights_of(theta), torch.from_numpy(np.array(x)).movedim(-1, 1), 6
    )
    np.testing.assert_allclose(found, ours, rtol=1e-3, atol=1e-3)
    for (mean, variance), their_mean, their_variance in zip(after, seen[::2], seen[1::2], strict=True):
        np.testing.assert_allclose(0.1 * their_mean, mean, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(0.9 + 0.1 * their_variance, variance, rtol=1e-3, atol=1e-4)


def test_a_step_of_residual_networks_of_torch_is_ours():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from fpovi.bench.contestants import torch_resnet

    parts, key = make_workload(RESNET), jax.random.key(5)
    theirs = torch_resnet.TorchResNetSVGD(RESNET, parts.labelled, torch_resnet.one_by_one)
    f, x = jax.nn.log_softmax(jax.random.normal(key, (RESNET.n, RESNET.batch, 10))), parts.labelled.x
    chosen = np.asarray([0, 5, 7])

    @jax.jit
    def move(f):
        by = jax.grad(weighted_log_likelihood, argnums=2, has_aux=True)
        score, _ = by(parts.likelihood, (), f, parts.labelled)
        prior = moment_matched(parts.network, parts.likelihood, draws=5)
        score = score.at[:, chosen].add(prior.score(key, f[:, chosen], x[chosen], context=x[:2]))
        return svgd(f.reshape(2, -1), score.reshape(2, -1), rbf())

    draws = jax.vmap(lambda key: parts.network.sample_prior(jax.random.split(key)[0]))(jax.random.split(key, 5))
    tensor = lambda array: torch.from_numpy(np.array(array))  # noqa: E731
    velocity = theirs.velocity(tensor(f), tensor(chosen), torch_resnet.weights_of(draws))
    ours = np.asarray(move(f)).reshape(f.shape)
    # eigenvalues at the floor are the rounding errors of 36 directions in which five draws have no variance
    assert np.allclose(velocity.numpy() / np.abs(ours).max(), ours / np.abs(ours).max(), atol=1e-3)
    before = [leaf.detach().clone() for leaf in theirs.theta]
    theirs.runner()(2)
    assert all(not torch.equal(old, new) for old, new in zip(before, theirs.theta, strict=True))
    drawn = theirs.prior_networks(4000)
    for leaf, std in zip(drawn, [0.27, *[(2 / 72) ** 0.5] * 3], strict=False):
        assert float(leaf.std()) == pytest.approx(std, rel=0.03)  # √(2/fan in), to three standard errors and more


@pytest.mark.parametrize(
    ("name", "prepare", "install"),
    [
        ("numpyro", peers.numpyro_stein_vi, "numpyro"),
        ("pyro", peers.pyro_svgd, "pyro-ppl"),
        ("torch", partial(peers.torch_f_svgd, compiled=False), "torch==2.13.0"),
    ],
)
def test_a_missing_library_says_how_to_get_it(name, prepare, install, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    if name == "pyro":
        monkeypatch.setitem(sys.modules, "torch", sys)  # PyTorch, which is asked for first, is there
    with pytest.raises(UnavailableError, match=f"not installed: pip install {install}"):
        prepare(TINY)


def test_peers_need_two_particles():
    with pytest.raises(UnavailableError, match="two particles"):
        peers.blackjax_svgd(TINY._replace(n=1))
