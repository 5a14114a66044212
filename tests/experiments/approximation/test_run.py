# SPDX-License-Identifier: Apache-2.0
"""The closed form of ``approximation`` against scikit-learn's, its versions on a small scale, its table and figure."""

from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from fpovi.experiments import approximation
from fpovi.experiments.approximation import gaussian_kl, versions
from fpovi.experiments.harness.experiment import Options
from fpovi.experiments.harness.store import Row
from fpovi.inference.batches import make_batch
from fpovi.kernels import median_lengthscale
from fpovi.plots import save

pytestmark = pytest.mark.usefixtures("loose_dtypes")


@pytest.mark.parametrize("every", [1, 2])
def test_the_posterior_is_that_of_scikit_learn(every):
    y = approximation.targets(0)
    process = GaussianProcessRegressor(RBF(0.5, "fixed"), alpha=0.1**2, optimizer=None)
    mean, covariance = process.fit(versions.X[::every], y[::every]).predict(versions.X_TEST, return_cov=True)
    # float64, a Gram matrix of condition 1e3
    np.testing.assert_allclose(approximation.posterior(y, every)[0], mean, rtol=1e-9)
    np.testing.assert_allclose(approximation.posterior(y, every)[1], covariance, rtol=1e-7, atol=1e-11)


@pytest.mark.parametrize(("jitter", "least", "most"), [(versions.JITTER, 0, 5e-5), (1e-4, 1e-3, 3e-3)])
def test_the_jitter_of_the_prior_leaves_next_to_nothing(jitter, least, most):
    """The posterior under K + jitter, in closed form: ten times as much would hide how the versions differ."""
    y, (x, x_test) = approximation.targets(0), (versions.X, versions.X_TEST)
    kernel = RBF(0.5)
    gain = np.linalg.solve(kernel(x) + (0.1**2 + jitter) * np.eye(21), kernel(x, x_test)).T
    covariance = kernel(x_test) + jitter * np.eye(3) - gain @ kernel(x, x_test)
    assert least < gaussian_kl(gain @ y, covariance, *approximation.posterior(y)) < most


def test_the_sampled_lengthscale_is_near_that_of_all_particles(x64):
    f = jax.random.normal(jax.random.key(0), (1000, 24), "float64")
    sampled = versions.sampled_kernel(3.0, 1000).at(f).lengthscale
    # the median of 5,000 distances; a few per cent of their spread
    assert float(sampled) == pytest.approx(float(median_lengthscale(f, factor=3.0)), rel=0.03)


def test_draws_of_the_posterior_have_a_kl_near_zero():
    truth = approximation.posterior(approximation.targets(0))
    draws = np.random.default_rng(0).multivariate_normal(*truth, size=1000)
    # nine moments, each known from 1,000 draws: 9/2/1000 on average
    assert sum(approximation.kl_parts(draws, truth)) < 0.015


def test_the_parts_of_a_kl_are_those_of_mean_and_covariance():
    rng = np.random.default_rng(0)
    truth, values = approximation.posterior(approximation.targets(0)), 0.2 * rng.normal(size=(50, 3))
    of_mean, of_covariance = approximation.kl_parts(values, truth)
    p = multivariate_normal(*truth)
    q = multivariate_normal(values.mean(axis=0), np.cov(values.T))
    # the definition: E_q[log q - log p] by as many draws as leave a standard error of half a per cent
    draws = q.rvs(size=200_000, random_state=1)
    assert of_mean + of_covariance == pytest.approx(np.mean(q.logpdf(draws) - p.logpdf(draws)), rel=0.02)
    centred = values - values.mean(axis=0) + truth[0]
    assert approximation.kl_parts(centred, truth) == pytest.approx((0, of_covariance), abs=1e-8)


@pytest.mark.slow
def test_the_mean_velocity_over_all_batches_vanishes_at_the_posterior():
    """The normal at which exact velocities, averaged over all batches, are 0, found from a wider one.

    A batch sees its own marginals, each row with n/size of its weight. Exact steps on batches would be off by no more
    than this.
    """
    x, n, size = np.concatenate([versions.X, versions.X_TEST]), len(versions.X), approximation.BATCH
    total = len(x)
    prior = np.exp(-((x - x.T) ** 2) / (2 * versions.BANDWIDTH**2)) + versions.JITTER * np.eye(total)
    data = np.where(np.arange(total) < n, versions.NOISE**-2, 0)
    rows = np.array([(*some, *range(n, total)) for some in combinations(range(n), size)])
    block = (rows[:, :, None], rows[:, None, :])

    def mean_precision(covariance):
        found = np.zeros((total, total))
        np.add.at(found, block, np.linalg.inv(covariance[block]))
        return found / len(rows)

    wanted = mean_precision(prior) + np.diag(data)
    exact = np.linalg.inv(np.linalg.inv(prior) + np.diag(data))
    covariance = 1.3 * exact
    for _ in range(25):
        root = np.linalg.cholesky(covariance)
        change = root.T @ (mean_precision(covariance) - wanted) @ root
        covariance = root @ (np.eye(total) + 0.7 * change) @ root.T
    assert np.abs(change).max() < 1e-3  # of the covariance: a KL is about its square
    y = np.append(approximation.targets(0), np.zeros(total - n))
    means = [np.linalg.solve(precision, data * y)[n:] for precision in (wanted, np.linalg.inv(exact))]
    # the page says so; at 1.3 times the covariance it is .06
    assert gaussian_kl(means[0], covariance[n:, n:], means[1], exact[n:, n:]) < 1e-6


def test_steps_along_a_root_are_those_of_its_coordinates():
    """f = root z, so that the gradient by z is rootᵀ that by f."""
    root = jnp.asarray([[2.0, 0.0], [1.0, 0.5]])
    z, centre = jnp.asarray([[[1.0], [1.0]]]), jnp.asarray([[[3.0], [-1.0]]])
    loss = lambda f: jnp.sum((f - centre) ** 2)  # noqa: E731
    of_z, of_f = optax.adam(0.1), versions.in_coordinates(root, optax.adam(0.1))
    f, state_of_z, state_of_f = root @ z, of_z.init(z), of_f.init(z)
    for _ in range(5):
        steps, state_of_z = of_z.update(jax.grad(lambda z: loss(root @ z))(z), state_of_z)
        z = z + steps
        steps, state_of_f = of_f.update(jax.grad(loss)(f), state_of_f)
        f = f + steps
    np.testing.assert_allclose(f, root @ z, rtol=1e-5)  # float32, five steps


def test_every_step_sees_other_rows_which_stand_for_all_equally_often(x64):
    algorithm, seen = versions.network_version(2, 10, 1e-3).algorithm, []

    def look(key, state, batch):
        seen.append(batch)
        return state, info

    data = make_batch(versions.X, approximation.targets(0))
    state = algorithm.init(jax.random.key(0), 2)
    _, info = algorithm.step(jax.random.key(0), state, data)
    step = versions.on_batches(16, algorithm._replace(step=look)).step
    for number in range(2 * 21):
        step(jax.random.key(0), state._replace(step=jnp.asarray(number)), data)
    assert {len(np.unique(batch.x)) for batch in seen} == {16}
    assert {(float(batch.weight.sum()), float(batch.num_data)) for batch in seen} == {(16.0, 21.0)}
    for of_an_order in (seen[:21], seen[21:]):
        times = np.unique(np.concatenate([batch.x for batch in of_an_order]), return_counts=True)[1]
        assert times.tolist() == [16] * 21
    assert not np.array_equal(seen[0].x, seen[21].x)


@pytest.mark.parametrize("version", approximation.VERSIONS)
def test_a_short_run_comes_closer_and_is_followed(version, monkeypatch):
    monkeypatch.setitem(approximation.PRESETS, "quick", approximation.Preset(60, 80, (0,), 5e-3))
    (cell,) = approximation.cells(Options(methods=(version,)))
    seen = []
    metrics = approximation.run_cell(cell, lambda *step: seen.append(step[:2]))
    assert metrics["steps"] == [2 * (i + 1) for i in range(40)]
    assert seen[-1] == (80, 80)
    assert metrics["curve"][-1] == metrics["kl"] < metrics["curve"][0]


def test_figure_and_table_come_from_rows(tmp_path):
    metrics = {"kl": 0.1, "baseline": 0.3, "steps": [1, 2, 3], "curve": [3.0, 1.0, 0.1]}
    rows = [Row(cell, metrics, 1.0, {}) for cell in approximation.cells(Options())]
    assert all(path.stat().st_size > 5_000 for path in save(approximation.figure(rows), tmp_path / "figure"))
    view = approximation.view(rows)
    assert [line[0] for line in view.lines] == [str(seed) for seed in approximation.PRESETS["quick"].seeds]
    assert view.lines[0][1:-1] == [".300", *len(approximation.LABELS) * [".10000"]]
