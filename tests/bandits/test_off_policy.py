# SPDX-License-Identifier: Apache-2.0
"""Estimates from logs equal closed forms, and their intervals hold known values as often as they say."""

from itertools import product

import numpy as np
import pytest
from off_policy_coverage import ASKED, KINDS, LOGGED, MODELS, asked, cover, exact_value, probabilities, simulate

from fpovi.bandits import ESTIMATORS, OverlapWarning, cross_fit, estimate_value, make_logs, overlap

quiet = pytest.mark.filterwarnings("ignore::fpovi.bandits.OverlapWarning")


def naive_weights(logs, policy):
    pairs = zip(policy, logs.chosen, logs.propensities, strict=True)
    return np.array([row[arm] / propensity for row, arm, propensity in pairs])


def every_log(context, logged, reward):
    """Every log of two rows with two contexts, two arms and rewards 0 or 1, and how probable it is.

    Args:
        context: the probability of each context.
        logged: that of each arm in each context.
        reward: that of a reward of 1 for each arm in each context.
    """
    rows = []
    for x, arm, r in product(range(2), range(2), range(2)):
        p = context[x] * logged[x, arm] * (reward[x, arm] if r else 1 - reward[x, arm])
        rows.append((x, arm, r, p))
    for one, other in product(rows, repeat=2):
        x, arms, r, p = (np.array(column) for column in zip(one, other, strict=True))
        if p.all():
            yield make_logs(x[:, None], arms, r, logged[x], names=[0, 1]), float(p.prod())


CONTEXT, REWARD = np.array([0.3, 0.7]), np.array([[0.2, 0.9], [0.6, 0.1]])
POLICY = np.array([[0.1, 0.9], [0.5, 0.5]])
EXACT = float(CONTEXT @ np.sum(POLICY * REWARD, axis=1))


def by_context(logs):
    return POLICY[logs.contexts[:, 0]]


@quiet
@pytest.mark.parametrize("method", ["ips", "doubly_robust"])
def test_value_and_variance_are_unbiased_over_every_possible_log(method):
    logged = np.array([[0.5, 0.5], [0.8, 0.2]])
    wrong = np.array([[0.3, 0.4], [0.9, 0.8]])  # a model that errs
    values, variances, chances = [], [], []
    for logs, chance in every_log(CONTEXT, logged, REWARD):
        x = logs.contexts[:, 0]
        estimate = estimate_value(logs, by_context(logs), method, rewards=wrong[x])
        values.append(estimate.value)
        variances.append(estimate.standard_error**2)
        chances.append(chance)
    values, variances, chances = map(np.array, (values, variances, chances))
    np.testing.assert_allclose(chances.sum(), 1)
    np.testing.assert_allclose(chances @ values, EXACT)
    np.testing.assert_allclose(chances @ variances, chances @ (values - EXACT) ** 2)


@quiet
def test_ips_counts_zero_for_what_the_log_never_does():
    logged = np.array([[0.5, 0.5], [1.0, 0.0]])  # in the second context the second arm has no chance
    known = (logged > 0) * POLICY
    mean = 0.0
    for logs, chance in every_log(CONTEXT, logged, REWARD):
        estimate = estimate_value(logs, by_context(logs), "ips")
        mean += chance * estimate.value
        assert estimate.overlap.uncovered == 0.5 * np.mean(logs.contexts[:, 0])
        assert any("mass is on arms" in concern for concern in estimate.concerns) == logs.contexts.any()
    np.testing.assert_allclose(mean, CONTEXT @ np.sum(known * REWARD, axis=1))
    assert mean < EXACT


@quiet
def test_values_and_errors_are_those_of_naive_loops():
    logs, n = simulate(0, "explores", 40), 40
    policy, q = asked(logs.contexts), np.random.default_rng(0).normal(size=(40, 4))
    w, r = naive_weights(logs, policy), logs.rewards
    found = {method: estimate_value(logs, policy, method, rewards=q) for method in ESTIMATORS}
    model = np.array([policy[i] @ q[i] for i in range(n)])
    terms = {
        "ips": w * r,
        "direct": model,
        "doubly_robust": np.array([model[i] + w[i] * (r[i] - q[i, logs.chosen[i]]) for i in range(n)]),
    }
    for method, expected in terms.items():
        np.testing.assert_allclose(found[method].value, expected.mean())
        np.testing.assert_allclose(found[method].standard_error, expected.std(ddof=1) / np.sqrt(n))
    without = np.array([np.delete(w * r, i).sum() / np.delete(w, i).sum() for i in range(n)])
    np.testing.assert_allclose(found["snips"].value, (w * r).sum() / w.sum())
    jackknife = (n - 1) / n * np.sum((without - without.mean()) ** 2)
    np.testing.assert_allclose(found["snips"].standard_error, np.sqrt(jackknife))


@quiet
def test_the_direct_methods_error_is_the_jackknife_over_folds():
    logs = simulate(1, "explores", 60)
    policy, predicted = asked(logs.contexts), cross_fit(logs, MODELS["right"], folds=4)
    without = [
        np.mean([policy[i] @ predicted.per_fold[fold, i] for i in range(60) if predicted.fold[i] != fold])
        for fold in range(4)
    ]
    estimate = estimate_value(logs, policy, "direct", rewards=predicted)
    np.testing.assert_allclose(estimate.value, np.mean(without))
    np.testing.assert_allclose(estimate.standard_error, np.sqrt(3 / 4 * np.sum((without - np.mean(without)) ** 2)))


@pytest.mark.parametrize("kind", ["even", "explores", "learns"])
def test_intervals_hold_the_value_in_ninety_of_a_hundred_logs(kind):
    for model in ("right", "wrong"):
        found = cover(kind, MODELS[model])
        # at a true coverage of .95 fewer than 90 have a probability of 1 %
        sound = ["ips", "snips", "doubly_robust", *(["direct"] if model == "right" else [])]
        assert {method: found[method].hits for method in sound if found[method].hits < 90} == {}
        assert max(found[method].flagged for method in sound) <= 2
    assert found["direct"].hits < 90  # the wrong model


def test_where_intervals_fail_estimates_have_concerns():
    found = cover("seldom", MODELS["right"])
    assert found["doubly_robust"].hits < 90
    assert all(coverage.flagged == 100 for coverage in found.values())


@quiet
@pytest.mark.parametrize("method", ["ips", "snips"])
def test_differences_to_the_policy_that_acted_are_held(method):
    value, hits = exact_value() - exact_value(LOGGED, KINDS["explores"]), 0
    for seed in range(100):
        logs = simulate(seed, "explores")
        lower, upper = estimate_value(logs, asked, method, against="logged").interval
        hits += lower <= value <= upper
    assert hits >= 90


@quiet
@pytest.mark.parametrize("method", ESTIMATORS)
def test_differences_are_paired(method):
    logs = simulate(0, "explores", 200)
    rewards = cross_fit(logs, MODELS["right"])
    near = probabilities(logs.contexts, ASKED, 0.3)
    ours, theirs, difference = (
        estimate_value(logs, policy, method, against=against, rewards=rewards)
        for policy, against in ((asked, None), (near, None), (asked, near))
    )
    np.testing.assert_allclose(difference.value, ours.value - theirs.value, atol=1e-12)
    assert difference.standard_error < 0.5 * ours.standard_error  # one policy is nearly the other
    same = estimate_value(logs, asked, method, against=asked, rewards=rewards)
    assert (same.value, same.standard_error) == (0, 0)
    logged = estimate_value(logs, asked, method, against="logged", rewards=rewards)
    # folds differ in size by one row, and so do the means without them
    np.testing.assert_allclose(logged.value, ours.value - logs.rewards.mean(), atol=1e-12)
    acted = probabilities(logs.contexts, LOGGED, KINDS["explores"])
    itself = estimate_value(logs, acted, method, against="logged", rewards=rewards)
    assert abs(itself.value) < 3 * itself.standard_error + 1e-12


def test_overlap_is_that_of_naive_sums():
    logs = simulate(0, "explores", 300, whole=True)
    policy, known = asked(logs.contexts), logs.all_propensities
    w, found = naive_weights(logs, policy), overlap(logs, policy)
    np.testing.assert_allclose(found.effective_sample_size, w.sum() ** 2 / (w**2).sum())
    assert found.largest_weight == w.max()
    np.testing.assert_allclose(found.largest_share, w.max() / w.sum())
    np.testing.assert_allclose(found.mean_weight, w.mean())
    assert (found.uncovered, found.heavy, found.clipped, found.concerns()) == (0, 0, 0, ())
    few = overlap(simulate(0, "seldom", 300, whole=True), policy)
    rare = policy > 15 * probabilities(logs.contexts, LOGGED, KINDS["seldom"])  # weights above N/20
    np.testing.assert_allclose(few.heavy, np.sum(policy * rare) / 300)
    assert known.min() > 0


def test_heavy_decisions_are_estimated_where_propensities_of_other_arms_are_unknown():
    policy = asked(simulate(0, "seldom", 20_000).contexts)
    seldom = KINDS["seldom"] / 4
    logs = make_logs(np.zeros((300, 1)), [0, 1] * 150, [0.0] * 300, [1 - seldom, seldom] * 150, names=range(4))
    w = naive_weights(logs, policy[:300])
    expected = np.mean([weight if weight > 15 else 0 for weight in w])
    np.testing.assert_allclose(overlap(logs, policy[:300]).heavy, expected)


def test_arms_that_were_never_chosen_are_uncovered():
    logs = make_logs(np.zeros((80, 1)), ["a", "b"] * 40, [1.0, 0.0] * 40, [0.5] * 80, names=["a", "b", "c"])
    with pytest.warns(
        OverlapWarning, match="30.0% of the policy's mass is on arms that had no chance in the log: it c"
    ):
        estimate = estimate_value(logs, {"a": 0.7, "c": 0.3}, "ips")
    np.testing.assert_allclose(estimate.value, 0.7)
    np.testing.assert_allclose(estimate.overlap.uncovered, 0.3)
    assert estimate.overlap.mean_weight_p > 0.9  # .7 is what is expected
    assert "not to be trusted: 30.0%" in str(estimate)


def test_a_wrong_order_of_arms_shows_in_the_mean_weight():
    logs = simulate(0, "explores")
    with pytest.warns(OverlapWarning, match="the mean weight is .* where 1.00 is expected"):
        estimate_value(make_logs(logs.contexts, logs.chosen, logs.rewards, np.full(500, 0.25)), asked, "ips")


def test_clipping_is_biased_and_says_so():
    logs = simulate(0, "explores", 400)
    w = np.minimum(naive_weights(logs, asked(logs.contexts)), 2.0)
    with pytest.warns(OverlapWarning, match=r"clipping took away \d+.\d% of the weight, so the estimate is biased"):
        estimate = estimate_value(logs, asked, "ips", max_weight=2)
    np.testing.assert_allclose(estimate.value, np.mean(w * logs.rewards))
    assert estimate.overlap.largest_weight == 2
    assert estimate.standard_error < estimate_value(logs, asked, "ips").standard_error


def test_levels_widen_intervals():
    logs = simulate(0, "explores", 200)
    widths = [np.ptp(estimate_value(logs, asked, "ips", level=level).interval) for level in (0.5, 0.8, 0.95)]
    assert widths == sorted(widths)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"method": "dr"}, "method='dr' is not known; choose one of direct, doubly_robust, ips, snips"),
        ({"level": 95}, "level=95 must lie strictly between 0 and 1"),
        ({"method": "ips", "max_weight": 0}, "max_weight=0 must be above 0"),
        ({"policy": {0: 1.0, 7: 0.0}}, "policy has the arm 7"),
        ({"rewards": np.zeros((5, 4))}, r"rewards are predicted for \(5, 4\) rows and arms, but logs have \(50, 4\)"),
        ({"rewards": np.full((50, 4), np.nan)}, "rewards are predicted to be NaN or infinite"),
        ({"against": "logs"}, "against"),
    ],
)
def test_bad_arguments_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        estimate_value(simulate(0, "even", 50), **({"policy": asked} | options))


def test_logs_that_say_nothing_are_refused():
    logs = make_logs(np.zeros((4, 1)), [0, 0, 0, 1], [1.0] * 4, [0.5] * 4, names=[0, 1, 2])
    with pytest.raises(ValueError, match="the policy never chooses what the log has"):
        estimate_value(logs, {2: 1.0}, "ips")
    with pytest.raises(ValueError, match="a single row has all the weight"):
        estimate_value(logs, {1: 1.0}, "snips")
    one = make_logs(np.zeros((1, 1)), [0], [1.0], [0.5])
    with pytest.raises(ValueError, match="an interval needs at least 2 rows, but there is 1"):
        estimate_value(one, {0: 1.0}, "ips")
