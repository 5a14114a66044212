# SPDX-License-Identifier: Apache-2.0
"""What every agent does: the protocol, exact propensities, files from which it goes on as if nothing had happened."""

import numpy as np
import pytest

from fpovi.bandits import AGENTS, Agent, load

ARMS = ("left", ("right", 2), None)
SMALL = {"hidden_layer_sizes": (8,), "first_steps": 4, "steps": 2, "lessons": 3, "every": 10, "batch_size": 8}
OPTIONS = {
    **dict.fromkeys(AGENTS, SMALL),
    "gaussian_process": {"most": 30, "first_steps": 3, "steps": 2, "every": 10},
    "linear": {},
    "uniform": {},
}
RANDOM = np.random.default_rng(0)
CONTEXTS = RANDOM.normal(size=(60, 2))
pytestmark = pytest.mark.usefixtures("loose_dtypes")  # optax mixes whole and real numbers


def make(name, **more):
    return Agent(ARMS, 2, name, seed=5, **more, **OPTIONS[name])


def paid(contexts, arms):
    return np.array([contexts[i, 0] if arm == "left" else 0.1 for i, arm in enumerate(arms)])


def step(agent, first, rows=10):
    contexts = CONTEXTS[first : first + rows]
    decision = agent.act(contexts)
    agent.update(contexts, decision.arms, paid(contexts, decision.arms))
    return decision


def same(one, other):
    return one.arms == other.arms and np.array_equal(one.propensities, other.propensities)


@pytest.fixture(scope="module")
def taught():
    """Each agent after three lessons, made when it is first asked for; tests leave it as it is."""
    made = {}

    def get(name):
        if name not in made:
            made[name] = make(name)
            for first in (0, 10, 20):
                step(made[name], first)
        return made[name]

    return get


def copy(agent, tmp_path):
    agent.save(tmp_path / "agent")
    return load(tmp_path / "agent")


@pytest.mark.parametrize("name", AGENTS)
def test_propensities_are_exact(name, taught, tmp_path):
    agent = copy(taught(name), tmp_path)
    one = CONTEXTS[40:41]
    probabilities = agent.probabilities(one)[0]
    assert probabilities.sum() == pytest.approx(1, abs=1e-12)
    many = agent.act(np.repeat(one, 4000, axis=0))
    counts = np.array([many.arms.count(arm) for arm in ARMS])
    # four standard errors of a share have a chance of 1e-4; the seed is fixed
    error = np.sqrt(probabilities * (1 - probabilities) / 4000)
    assert np.all(np.abs(counts / 4000 - probabilities) <= 4 * error)
    np.testing.assert_allclose(many.propensities, [probabilities[ARMS.index(arm)] for arm in many.arms], rtol=1e-12)
    if name != "uniform":  # the share of functions whose best arm it is
        best = agent.values(one)[:, 0].argmax(axis=1)
        np.testing.assert_allclose(np.bincount(best, minlength=3) / len(best), probabilities, atol=1e-12)


@pytest.mark.parametrize("name", AGENTS)
def test_it_goes_on_from_a_file_as_if_nothing_had_happened(name, tmp_path):
    unbroken, broken = make(name), make(name)
    for first in range(0, 50, 10):
        here = step(unbroken, first)
        assert same(here, step(broken, first))
        broken = copy(broken, tmp_path)
    assert (unbroken.to_record()[0], *sorted(unbroken.to_record()[1])) == (
        broken.to_record()[0],
        *sorted(broken.to_record()[1]),
    )
    for key, array in unbroken.to_record()[1].items():
        np.testing.assert_array_equal(array, broken.to_record()[1][key])


@pytest.mark.parametrize("name", AGENTS)
def test_arms_that_are_not_allowed_are_not_chosen(name, taught, tmp_path):
    agent = copy(taught(name), tmp_path)
    allowed = [("right", 2), None]
    probabilities = agent.probabilities(CONTEXTS, allowed)
    assert not probabilities[:, 0].any()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-12)
    assert set(agent.act(CONTEXTS, allowed).arms) <= set(allowed)
    each = np.eye(3, dtype=bool)[np.arange(60) % 3]
    assert agent.act(CONTEXTS, each).arms == [ARMS[i % 3] for i in range(60)]


@pytest.mark.parametrize("name", AGENTS)
def test_arms_come_and_go(name, taught, tmp_path):
    agent = copy(taught(name), tmp_path)
    before = agent.values(CONTEXTS)
    agent.add_arms(["new"])
    np.testing.assert_allclose(agent.values(CONTEXTS)[:, :, :3], before, rtol=1e-5, atol=1e-6)  # float32
    assert agent.act(CONTEXTS[:2]).arms == ["new", "new"]  # its first turns
    agent.remove_arms(["left"])
    assert agent.arms == (("right", 2), None, "new")
    assert "left" not in agent.act(CONTEXTS).arms
    agent.update(CONTEXTS, ["new", "left"] * 30, np.ones(60))  # what is told late of a removed arm counts
    agent.add_arms(["left"])
    assert agent.probabilities(CONTEXTS).shape == (60, 4)
    assert same(copy(agent, tmp_path).act(CONTEXTS), agent.act(CONTEXTS))


@pytest.mark.parametrize("name", AGENTS)
def test_a_floor_is_the_least_probability(name):
    agent = make(name, floor=0.05, first_turns=0)
    step(agent, 0)
    probabilities = agent.probabilities(CONTEXTS)
    assert probabilities.min() >= 0.05 - 1e-12
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-12)


@pytest.mark.parametrize(
    "name", [name for name in AGENTS if name not in ("linear", "neural_linear", "gaussian_process")]
)
def test_rewards_of_0_and_1(name):
    agent = make(name, rewards="bernoulli")
    contexts = CONTEXTS[:20]
    arms = agent.act(contexts).arms
    agent.update(contexts, arms, [float(arm == "left") for arm in arms])
    values = agent.values(contexts)
    assert ((values >= 0) & (values <= 1)).all()
    with pytest.raises(ValueError, match="rewards must be 0 or 1"):
        agent.update(contexts[:1], ["left"], [0.5])
