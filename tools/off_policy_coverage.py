# SPDX-License-Identifier: Apache-2.0
"""How often intervals of :mod:`fpovi.bandits` hold a policy's value, on simulated logs where that is known exactly.

``python tools/off_policy_coverage.py --model bnn --kind explores`` prints a line per method.
"""

import argparse
import sys
import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from fpovi import BNNRegressor
from fpovi.bandits import ESTIMATORS, Estimate, Logs, cross_fit, estimate_value, make_logs

# The mean reward of arm a is OFFSET[a] + SLOPE[a]·x₀ + CURVE[a]·x₁², of standard normal x₀, x₁ and x₂.
OFFSET, SLOPE, CURVE = np.array([1.0, 0.5, 0.0, 2.0]), np.array([1.0, -1.0, 0.5, -0.5]), np.array([0.0, 0.5, 1.0, -0.5])
NOISE, ARMS = 1.0, 4
# Which arms the policies prefer where x₀ > 0, and elsewhere.
LOGGED, ASKED = (0, 3), (2, 1)
ASKED_EXPLORES = 0.2
KINDS = {"even": 1.0, "explores": 0.4, "seldom": 0.1}  # the share of decisions that the logged policy draws evenly
LEARNERS = {"learns": 0.05, "learns-greedily": 0.01}  # the least probability of an arm while an agent learns
MODELS = {
    "right": make_pipeline(PolynomialFeatures(3), Ridge(1.0)),
    "wrong": Ridge(1.0),  # cannot tell arms apart by context
    "bnn": BNNRegressor(random_state=0),
    "bnn-quick": BNNRegressor(n_particles=5, max_epochs=200, random_state=0),
}


def probabilities(x: np.ndarray, preferred: tuple[int, int], explores: float) -> np.ndarray:
    """Return the probabilities ``(N, 4)`` of a policy that prefers an arm by the sign of x₀."""
    favourite = np.where(x[:, 0] > 0, *preferred)
    return explores / ARMS + (1 - explores) * (favourite[:, None] == np.arange(ARMS))


def asked(x: np.ndarray) -> np.ndarray:
    """Return the probabilities of the policy whose value is asked for."""
    return probabilities(x, ASKED, ASKED_EXPLORES)


def simulate(seed: int, kind: str, rows: int = 500, whole: bool = False) -> Logs:
    """Return a log, with the propensities of all arms if ``whole`` or made by an agent that learns."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(rows, 3))
    if kind in LEARNERS:
        return learn(random, x, LEARNERS[kind])
    p = probabilities(x, LOGGED, KINDS[kind])
    arms, rewards = act(random, x, p)
    return make_logs(x, arms, rewards, p if whole else p[np.arange(rows), arms], names=range(ARMS))


def act(random: np.random.Generator, x: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Draw an arm with probabilities p in every context, and its reward."""
    arms = (random.random((len(x), 1)) > np.cumsum(p, axis=1)[:, :-1]).sum(axis=1)
    return arms, means(x)[np.arange(len(x)), arms] + NOISE * random.normal(size=len(x))


def learn(random: np.random.Generator, x: np.ndarray, floor: float, every: int = 25, particles: int = 20) -> Logs:
    """Return the log of Thompson sampling by a Bayesian linear regression per arm, whose draws change as it learns."""
    inputs = np.column_stack([np.ones(len(x)), x[:, :2]])
    precision, moment = np.tile(0.1 * np.eye(3), (ARMS, 1, 1)), np.zeros((ARMS, 3))
    p, arms, rewards = np.zeros((len(x), ARMS)), np.zeros(len(x), int), np.zeros(len(x))
    for start in range(0, len(x), every):
        now = slice(start, start + every)
        roots = np.linalg.cholesky(2 * NOISE**2 * np.linalg.inv(precision))
        draws = np.linalg.solve(precision, moment[:, :, None]) + roots @ random.normal(size=(ARMS, 3, particles))
        best = np.argmax(inputs[now] @ draws, axis=0)
        share = np.mean(best[:, :, None] == np.arange(ARMS), axis=1)
        p[now] = floor + (1 - ARMS * floor) * share
        arms[now], rewards[now] = act(random, x[now], p[now])
        taken = arms[now, None] == np.arange(ARMS)
        precision += np.einsum("na,ni,nj->aij", taken, inputs[now], inputs[now])
        moment += np.einsum("na,ni,n->ai", taken, inputs[now], rewards[now])
    return make_logs(x, arms, rewards, p, names=range(ARMS))


def means(x: np.ndarray) -> np.ndarray:
    """Return the mean reward of every arm ``(N, 4)``."""
    return OFFSET + np.outer(x[:, 0], SLOPE) + np.outer(x[:, 1] ** 2, CURVE)


def exact_value(preferred: tuple[int, int] = ASKED, explores: float = ASKED_EXPLORES) -> float:
    """Return a policy's value: E x₁² is 1, and E x₀ given its sign is ±√(2/π)."""
    above, below = probabilities(np.array([[1.0], [-1.0]]), preferred, explores)
    return float((above + below) @ (OFFSET + CURVE) / 2 + (above - below) @ SLOPE / np.sqrt(2 * np.pi))


class Coverage(NamedTuple):
    """How a method fares over many logs.

    Args:
        hits: how many intervals held the value.
        bias: mean estimate less the value.
        width: median width of the intervals.
        flagged: how many estimates had concerns.
    """

    hits: int
    bias: float
    width: float
    flagged: int


def cover(kind: str, model: Any, logs: int = 100, rows: int = 500, folds: int = 5) -> dict[str, Coverage]:
    """Return the coverage of every method over ``logs`` simulated logs."""
    found: dict[str, list[Estimate]] = {method: [] for method in ESTIMATORS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(logs):
            one = simulate(number, kind, rows)
            rewards = cross_fit(one, model, folds=folds)
            for method in ESTIMATORS:
                found[method].append(estimate_value(one, asked, method, rewards=rewards))
    return {method: _coverage(estimates) for method, estimates in found.items()}


def _coverage(estimates: list[Estimate]) -> Coverage:
    value = exact_value()
    intervals = np.array([estimate.interval for estimate in estimates])
    return Coverage(
        hits=int(np.sum((intervals[:, 0] <= value) & (value <= intervals[:, 1]))),
        bias=float(np.mean([estimate.value for estimate in estimates]) - value),
        width=float(np.median(intervals[:, 1] - intervals[:, 0])),
        flagged=sum(bool(estimate.concerns) for estimate in estimates),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=MODELS, default="right")
    parser.add_argument("--kind", choices=[*KINDS, *LEARNERS], default="explores")
    parser.add_argument("--logs", type=int, default=100)
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--folds", type=int, default=5)
    asked_for = parser.parse_args()
    model = MODELS[asked_for.model]
    table = cover(asked_for.kind, model, asked_for.logs, asked_for.rows, asked_for.folds)
    for method, line in table.items():
        sys.stdout.write(
            f"{asked_for.kind:15} {asked_for.model:9} {method:14} {line.hits:4} of {asked_for.logs}   "
            f"bias {line.bias:+.3f}   width {line.width:.3f}   flagged {line.flagged}\n"
        )
