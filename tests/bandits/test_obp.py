# SPDX-License-Identifier: Apache-2.0
"""Estimates equal those of the Open Bandit Pipeline on the same logs, number by number; `make test-obp` installs it."""

import warnings

import numpy as np
import pytest
from off_policy_coverage import ARMS, KINDS, asked, means, simulate

from fpovi.bandits import estimate_value

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # obp calls on names that its libraries have moved
    ope = pytest.importorskip("obp.ope", reason="obp is not installed: `make test-obp` does it")

THEIRS = {
    "ips": ope.InverseProbabilityWeighting,
    "snips": ope.SelfNormalizedInverseProbabilityWeighting,
    "direct": ope.DirectMethod,
    "doubly_robust": ope.DoublyRobust,
}


@pytest.mark.filterwarnings("ignore::fpovi.bandits.OverlapWarning")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", THEIRS)
def test_values_are_those_of_obp(method, kind):
    logs = simulate(3, kind, 2000)
    policy = asked(logs.contexts)
    predicted = means(logs.contexts) + np.random.default_rng(0).normal(size=(2000, ARMS))  # a model that errs
    ours = estimate_value(logs, policy, method, rewards=predicted).value
    theirs = THEIRS[method]().estimate_policy_value(
        reward=logs.rewards,
        action=logs.chosen,
        pscore=logs.propensities,
        action_dist=policy[:, :, None],
        estimated_rewards_by_reg_model=predicted[:, :, None],
    )
    print(f"\n{kind}, {method}: ours {ours:.6f}, theirs {theirs:.6f}, difference {abs(ours - theirs):.1e}", end="")
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)  # sums of 2,000 float64 in another order
