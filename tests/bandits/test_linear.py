# SPDX-License-Identifier: Apache-2.0
"""The linear-Gaussian agent against a closed form and scikit-learn; the last layer of the neural-linear one too."""

import jax
import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import BayesianRidge

from fpovi.bandits import AGENTS, Agent
from fpovi.bandits.memory import Rows
from fpovi.bandits.method import as_scale
from fpovi.bandits.methods.linear import Sums, in_scale, last_variance, posterior, residual_noise, with_one
from fpovi.bandits.methods.parts import make_network
from fpovi.bandits.methods.training import Learned

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(40, 3)).astype(np.float32)
ARM = np.arange(40) % 2
REWARD = X @ np.array([1.0, -2.0, 0.5]) + 3 * ARM + 0.3 * RANDOM.normal(size=40)
ROWS = Rows(X, ARM, REWARD, np.ones(40))


def naive(x, y, weight, variance, noise):
    """Mean and covariance of the posterior, from the formula in the docstring."""
    design = np.column_stack([x, np.ones(len(x))]).astype(float)
    precision = np.diag(1 / variance)
    moment = np.zeros(len(variance))
    for row, target, w in zip(design, y, weight, strict=True):
        precision += w * np.outer(row, row) / noise**2
        moment += w * row * target / noise**2
    return np.linalg.solve(precision, moment), np.linalg.inv(precision)


def test_posterior_is_the_closed_form_however_rows_come():
    weight = RANDOM.uniform(0.5, 2, size=40)
    rows, variance = ROWS._replace(weight=weight), np.array([0.5, 0.5, 0.5, 2.0])
    sums = Sums.zeros(2, 4)
    for first in (0, 7, 30):
        part = Rows(*(a[first : {0: 7, 7: 30, 30: 40}[first]] for a in rows))
        sums = sums.add(with_one(part.x), part)
    found = posterior(sums, variance, 0.3)
    for arm in range(2):
        own = arm == ARM
        mean, covariance = naive(X[own], REWARD[own], weight[own], variance, 0.3)
        np.testing.assert_allclose(found.mean[arm], mean, rtol=1e-9)
        precision = found.factor[arm] @ found.factor[arm].T
        np.testing.assert_allclose(np.linalg.inv(precision), covariance, rtol=1e-7)
    draws = found.sample(np.random.default_rng(1), 20_000)
    far = draws[:, 0] - found.mean[0]
    distance = np.einsum("np,pq,nq->n", far, found.factor[0] @ found.factor[0].T, far)
    assert stats.kstest(distance, stats.chi2(4).cdf).pvalue > 1e-3  # squared distances of a Gaussian in 4 dimensions


def test_posterior_is_that_of_scikit_learn_at_its_precisions():
    own = ARM == 0
    design, y = with_one(X[own]).astype(float), REWARD[own]
    other = BayesianRidge(fit_intercept=False, compute_score=False).fit(design, y)
    sums = Sums.zeros(1, 4).add(with_one(X[own]), Rows(X[own], np.zeros(own.sum(), int), y, np.ones(own.sum())))
    found = posterior(sums, np.full(4, 1 / other.lambda_), other.alpha_**-0.5)
    # its last update of the precisions comes after its last posterior
    np.testing.assert_allclose(found.mean[0], other.coef_, rtol=1e-3)
    np.testing.assert_allclose(np.linalg.inv(found.factor[0] @ found.factor[0].T), other.sigma_, rtol=2e-2)


def test_sums_in_another_scale_are_those_of_scaled_rewards():
    scaled = ROWS._replace(reward=(REWARD - 2.0) / 4.0)
    found = in_scale(Sums.zeros(2, 4).add(with_one(X), ROWS), as_scale(2.0, 4.0))
    for one, other in zip(found, Sums.zeros(2, 4).add(with_one(X), scaled), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_noise_is_what_the_fit_leaves_unexplained():
    found = residual_noise(Sums.zeros(2, 4).add(with_one(X), ROWS), np.full(4, 100.0))
    left = 0.0
    for arm in range(2):
        own = arm == ARM
        design = with_one(X[own]).astype(float)
        left += np.sum((REWARD[own] - design @ np.linalg.lstsq(design, REWARD[own])[0]) ** 2)
    # a wide prior leaves least squares
    assert found == pytest.approx(np.sqrt(left / 40), rel=1e-3)


def test_the_agent_decides_by_draws_of_that_posterior():
    agent = Agent([0, 1], 3, "linear", noise=0.3, standardise=False, n_particles=4000, prior_std=2.0, first_turns=0)
    agent.update(X, ARM.tolist(), REWARD)
    at = RANDOM.normal(size=(5, 3))
    values, variance = agent.values(at), np.array([2 / 3, 2 / 3, 2 / 3, 2.0])
    design, probability = np.column_stack([at, np.ones(5)]), []
    moments = [naive(X[arm == ARM], REWARD[arm == ARM], np.ones(20), variance, 0.3) for arm in (0, 1)]
    for row in design:
        mean = [row @ m for m, _ in moments]
        var = [row @ c @ row for _, c in moments]
        probability.append(stats.norm.cdf((mean[1] - mean[0]) / np.sqrt(sum(var))))
    for arm, (mean, covariance) in enumerate(moments):
        error = np.sqrt(np.einsum("ip,pq,iq->i", design, covariance, design))
        # of 4,000 draws the mean is within 4/√4000 deviations of the true one, the deviation within 5 %
        assert np.all(np.abs(values[:, :, arm].mean(axis=0) - design @ mean) < 4 * error / 4000**0.5)
        np.testing.assert_allclose(values[:, :, arm].std(axis=0), error, rtol=0.05)
    np.testing.assert_allclose(agent.probabilities(at)[:, 1], probability, atol=4 * 0.5 / 4000**0.5)


@pytest.mark.usefixtures("loose_dtypes")
def test_the_last_layer_of_a_network_has_its_closed_form():
    agent = Agent([0, 1], 3, AGENTS["neural_linear"](
        noise=0.3, standardise=False, hidden_layer_sizes=(6,), first_steps=3, steps=3, n_particles=3000, prior_std=2.0,
    ))  # fmt: skip
    agent.update(X, ARM.tolist(), REWARD)
    agent.learn()
    model = agent._model
    assert isinstance(model, Learned)
    theta = jax.tree.map(lambda leaf: np.asarray(leaf[0]), model.state.particles)
    phi = np.maximum(X @ theta.weights[0] + theta.biases[0], 0)
    variance = last_variance(make_network("fan_in", (6,), "relu", 2.0)(3, 2))
    own = ARM == 1
    mean, covariance = naive(phi[own], REWARD[own], np.ones(20), variance, 0.3)
    last = np.column_stack(
        [np.asarray(model.functions.weights[-1])[:, :, 1], np.asarray(model.functions.biases[-1])[:, 1]]
    )
    error = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(last.mean(axis=0) - mean) < 4 * error / 3000**0.5 + 1e-3)  # and what float32 features lose
    np.testing.assert_allclose(last.std(axis=0), error, rtol=0.06)
