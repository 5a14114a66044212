# SPDX-License-Identifier: Apache-2.0
"""Particles as Thompson samples: one program however many rows there are, and less regret than by chance."""

import numpy as np
import pytest

from fpovi.bandits import AGENTS, Agent, draw, play, regrets, relative_regret, uniform_regrets, wheel
from fpovi.bandits import method as bandit_method
from fpovi.bandits.methods.bootstrap import in_part
from fpovi.inference import loop

RANDOM = np.random.default_rng(0)
pytestmark = pytest.mark.usefixtures("loose_dtypes")  # optax mixes whole and real numbers
TINY = {"hidden_layer_sizes": (4,), "first_steps": 1, "steps": 1, "batch_size": 4, "extra": 2, "n_particles": 3}


def test_nothing_is_compiled_anew_while_rows_become_more():
    agent = Agent(["a", "b"], 2, "function_space", every=1, **TINY)
    sizes = []
    for rows in (10, 90, 900, 9000, 40_000):
        contexts = RANDOM.normal(size=(rows, 2))
        agent.update(contexts, ["a", "b"] * (rows // 2), RANDOM.normal(size=rows))
        agent.act(contexts[:1])
        sizes.append((loop._chunk._cache_size(), bandit_method._values._cache_size()))
    assert agent.to_record()[0]["lessons"] == 5
    assert len(agent.to_record()[1]["memory.arm"]) == 50_000
    assert set(sizes) == {sizes[0]}


def test_agents_of_the_same_settings_share_their_programs():
    one, other = (Agent(["a", "b"], 2, "function_space", seed=seed, every=1, **TINY) for seed in (0, 1))
    contexts = RANDOM.normal(size=(4, 2))
    one.update(contexts, ["a", "b"] * 2, np.ones(4))
    before = loop._chunk._cache_size()
    other.update(contexts, ["a", "b"] * 2, np.zeros(4))
    assert loop._chunk._cache_size() == before
    assert not np.array_equal(one.values(contexts), other.values(contexts))


@pytest.mark.parametrize("options", [
    {"flow": "gfsf"},
    {"prior": "moment_matched", "prior_size": 4},
    {"measurement": "halo"},
    {"prior_size": None, "noise": 0.1},
    {"network": "fan_out", "standardise": False, "prior_std": 10**0.5},
], ids=lambda options: "-".join(options))  # fmt: skip
def test_parts_go_by_name(options):
    agent = Agent(["a", "b"], 2, "function_space", every=1, **{**TINY, **options})
    agent.update(RANDOM.normal(size=(4, 2)), ["a", "b"] * 2, np.arange(4.0))
    assert np.isfinite(agent.values(RANDOM.normal(size=(3, 2)))).all()


@pytest.mark.slow  # some thousand steps
@pytest.mark.usefixtures("optimised")
@pytest.mark.parametrize("name", ["function_space", "bootstrap", "weight_space"])
def test_it_loses_less_than_chance(name):
    stream = draw(wheel(0.5), 600, seed=1)
    options = {"hidden_layer_sizes": (50, 50), "first_steps": 300, "steps": 100}
    agent = Agent(stream.arms, 2, name, seed=1, **options)
    played = play(agent, stream, together=50)
    lost, chance = regrets(stream, played.columns)["pseudo"], uniform_regrets(stream)["pseudo"]
    assert relative_regret(lost, chance) < 60
    assert relative_regret(lost, chance, last=200) < 30


def test_members_of_the_bootstrap_have_the_share_of_rows_that_was_asked_for():
    found = in_part(np.arange(40_000), 5, 0.95)
    # four standard errors of a share
    np.testing.assert_allclose(found.mean(axis=0), 0.95, atol=4 * (0.95 * 0.05 / 40_000) ** 0.5)
    together = np.corrcoef(found.T.astype(float)) - np.eye(5)
    assert np.abs(together).max() < 4 / 40_000**0.5
    assert in_part(np.arange(100), 3, 1.0).all()


def test_the_bootstraps_lessons_all_begin_with_the_same_rate():
    agent = Agent(["a", "b"], 1, AGENTS["bootstrap"](hidden_layer_sizes=(4,), n_particles=2, steps=3, first_steps=3))
    x = RANDOM.normal(size=(8, 1))
    agent.update(x, ["a", "b"] * 4, x[:, 0])
    agent.learn()
    first = agent.values(x)
    agent.learn()
    # of RMSprop's first step with rate .1, every weight moves by about .1·g/√(.9 + .1 g²)
    assert 0.01 < np.abs(agent.values(x) - first).max() < 5


def test_the_bootstrap_comes_to_fit_its_rows():
    agent = Agent(["a"], 1, AGENTS["bootstrap"](hidden_layer_sizes=(20,), n_particles=3, share=1.0))
    x = np.linspace(-1, 1, 40)[:, None]
    agent.update(x, ["a"] * 40, np.abs(x[:, 0]))
    for _ in range(4):
        agent.learn()
    # rates begin anew in every lesson; four leave next to nothing of the variance, and never a quarter of it
    assert np.all(np.mean((agent.values(x)[:, :, 0] - np.abs(x[:, 0])) ** 2, axis=1) < np.var(np.abs(x)) / 4)
