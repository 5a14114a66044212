# SPDX-License-Identifier: Apache-2.0
"""Adapters driven by the libraries they are made for; `make test-adapters` installs these."""

import numpy as np
import pytest

from fpovi import BNNRegressor
from fpovi.acquisition import choose
from fpovi.adapters import BanditLearner, CommitteeClassifier
from support.small_fits import SETTINGS, plane

pytestmark = pytest.mark.usefixtures("loose_dtypes")
INSTALLED_BY = "is not installed: `make test-adapters` does it"
LEARNS = {**SETTINGS, "max_epochs": 100}


@pytest.mark.parametrize("policy", ["ThompsonSampling", "UpperConfidenceBound"])
def test_an_agent_of_bayesianbandits_learns_which_arm_to_pull(policy):
    bandits = pytest.importorskip("bayesianbandits", reason=f"bayesianbandits {INSTALLED_BY}")
    rng = np.random.default_rng(0)
    arms = [bandits.Arm(name, learner=BanditLearner(BNNRegressor(**LEARNS), growth=0.5)) for name in ("left", "right")]
    agent = bandits.ContextualAgent(arms, getattr(bandits, policy)(), random_seed=0)
    contexts = rng.uniform(-1, 1, (60, 1, 2))
    for x in contexts:
        (arm,) = agent.pull(x)
        agent.update(x, np.array([x[0, 0] if arm == "right" else -x[0, 0]]))
    agent.decay(bandits.StabilizedForgetting(0.99))
    clear = np.array([[0.8, 0.0], [-0.8, 0.0]])
    pulls = np.array([agent.pull(clear) for _ in range(10)])
    assert (pulls == ["right", "left"]).mean() > 0.8


@pytest.fixture(scope="module")
def labelled():
    X, y = plane(120)
    y = np.digitize(y, [-0.6, 0.6]).astype(float)
    y[30:] = np.nan
    return X, y


@pytest.mark.parametrize("source", ["estimators_", "sample_proba"])
def test_queries_of_scikit_activeml(labelled, source):
    pool = pytest.importorskip("skactiveml.pool", reason=f"scikit-activeml {INSTALLED_BY}")
    from skactiveml.classifier import SklearnClassifier

    X, y = labelled
    committee = SklearnClassifier(CommitteeClassifier(**LEARNS), classes=[0, 1, 2], random_state=0)
    asked = {} if source == "estimators_" else {"sample_predictions_method_name": "sample_proba"}
    for query in (
        pool.QueryByCommittee(random_state=0, **asked),
        pool.QueryByCommittee(method="vote_entropy", random_state=0, **asked),
    ):
        rows = query.query(X, y, committee, batch_size=3)
        assert len(set(rows.tolist())) == 3
        assert rows.min() >= 30
    rows, utilities = pool.BatchBALD(n_MC_samples=1000, random_state=0, **asked).query(
        X, y, committee, batch_size=3, return_utilities=True
    )
    ours = choose(committee.fit(X, y).estimator_, X[30:], "bald", 3)
    # theirs, too, sums over all 27 labellings, and clips probabilities at 1e-7
    np.testing.assert_allclose(np.cumsum(ours.scores), np.nanmax(utilities, axis=1), rtol=1e-4)
    assert rows.tolist() == (30 + ours.rows).tolist()


def test_scikit_optimize_takes_the_regressor_as_it_is():
    skopt = pytest.importorskip("skopt", reason=f"scikit-optimize {INSTALLED_BY}")
    optimiser = skopt.Optimizer(
        [(-1.0, 1.0), (-1.0, 1.0)], base_estimator=BNNRegressor(activation="erf", max_epochs=300, random_state=0),
        acq_func="EI", acq_optimizer="sampling", n_initial_points=8, random_state=0,
    )  # fmt: skip
    for _ in range(20):
        point = optimiser.ask()
        optimiser.tell(point, (point[0] - 0.3) ** 2 + (point[1] + 0.2) ** 2)
    assert min(optimiser.yi) < min(optimiser.yi[:8]) / 2
