# SPDX-License-Identifier: Apache-2.0
"""What agents accept and refuse, and what they keep when they refuse."""

import numpy as np
import pandas as pd
import pytest

from fpovi.bandits import AGENTS, Agent, load
from fpovi.kernels import rbf
from fpovi.persistence import FileError, write_file

RANDOM = np.random.default_rng(0)
CONTEXTS = RANDOM.normal(size=(6, 2))


def agent(**options):
    found = Agent(["a", "b"], 2, "linear", **options)
    found.update(CONTEXTS, ["a", "b"] * 3, np.arange(6.0))
    return found


def record(agent):
    header, arrays = agent.to_record()
    return header, {name: array.tobytes() for name, array in arrays.items()}


REFUSED = {
    "an unknown arm": (lambda a: a.update(CONTEXTS[:1], ["c"], [1.0]), "'c' is no arm of this agent"),
    "an arm that cannot be a key": (lambda a: a.update(CONTEXTS[:1], [[1]], [1.0]), r"\[1\] is no arm"),
    "an unknown arm allowed": (lambda a: a.act(CONTEXTS, ["c"]), "'c' is no arm of this agent"),
    "no allowed arm": (lambda a: a.act(CONTEXTS, []), "allowed has no arm at row 0"),
    "no allowed arm in a row": (
        lambda a: a.act(CONTEXTS[:2], np.array([[True, False], [False, False]])),
        "allowed has no arm at row 1",
    ),
    "a mask of another shape": (lambda a: a.act(CONTEXTS, np.ones((6, 3), bool)), r"allowed has shape \(6, 3\)"),
    "text for arms": (lambda a: a.act(CONTEXTS, "ab"), "a list of names is needed"),
    "no reward": (lambda a: a.update(CONTEXTS[:1], ["a"], [np.nan]), "rewards has nan at row 0"),
    "a reward in words": (lambda a: a.update(CONTEXTS[:1], ["a"], ["much"]), "rewards cannot be read as numbers"),
    "too few rewards": (lambda a: a.update(CONTEXTS, ["a"] * 6, [1.0]), r"rewards has shape \(1,\)"),
    "too few arms": (lambda a: a.update(CONTEXTS, ["a"], np.ones(6)), "arms has 1 names, but there are 6 contexts"),
    "a negative weight": (lambda a: a.update(CONTEXTS[:1], ["a"], [1.0], [-1.0]), "none may be negative"),
    "a short context": (lambda a: a.act([[1.0]]), r"contexts have shape \(1, 1\), but rows of numbers \(N, 2\)"),
    "one context": (lambda a: a.act([1.0, 2.0]), r"contexts\[None\]"),
    "a context with NaN": (lambda a: a.act([[1.0, np.nan]]), "contexts have NaN or infinity, first at row 0"),
    "words in a context": (lambda a: a.act([["x", "y"]]), "contexts "),
    "a propensity of 0": (
        lambda a: a.warm_start(CONTEXTS[:1], ["a"], [1.0], [0.0]),
        r"propensities has 0\.0 at row 0, but an arm that was taken had",
    ),
    "an arm twice": (lambda a: a.add_arms(["a"]), "'a', which is there already"),
    "equal names": (lambda a: a.add_arms([1, True]), "1, 1.0 and True are equal"),
    "a name no file can hold": (lambda a: a.add_arms([frozenset()]), "cannot be the name of an arm"),
    "the last arms removed": (lambda a: a.remove_arms(["a", "b"]), "no arm would be left"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_it_refuses_leaves_it_as_it_was(case):
    refuse, said = REFUSED[case]
    one = agent()
    before = record(one)
    with pytest.raises(ValueError, match=said):
        refuse(one)
    assert record(one) == before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"method": "lienar"}, "method='lienar' is not known; choose one of bayes_by_backprop"),
        ({"floor": 2}, "floor=2 must be a probability"),
        ({"rewards": "counts"}, "rewards='counts' is not known"),
        ({"memory": 0}, "memory=0 must be at least 1"),
        ({"method": "linear", "rewards": "bernoulli"}, "closed form for rewards='gaussian' only"),
        ({"method": "function_space", "flow": "sgvd"}, "flow='sgvd' is not known"),
        ({"method": "function_space", "hidden_layer_sizes": ()}, "must be whole numbers"),
        ({"seed": -1}, "seed=-1 must be a whole number"),
    ],
)
def test_settings_it_cannot_use_are_named(options, said):
    with pytest.raises(ValueError, match=said):
        Agent(["a", "b"], 2, **{"method": "linear", **options})


def test_data_frames_go_through_the_encoder_of_the_estimators(tmp_path):
    frame = pd.DataFrame({"town": ["x", "y", "x", "y"], "age": [20.0, 30.0, 40.0, 50.0]})
    one = Agent(["a", "b"], frame, "linear")
    one.update(frame, ["a", "b", "a", "b"], np.ones(4))
    with pytest.raises(ValueError, match="'z'"):
        one.act(pd.DataFrame({"town": ["z"], "age": [1.0]}))
    with pytest.raises(ValueError, match="X lacks 1 of the columns"):
        one.act(frame[["age"]])
    lenient = Agent(["a", "b"], frame, "linear", unknown="missing")
    assert len(lenient.act(pd.DataFrame({"town": ["z"], "age": [1.0]})).arms) == 1
    one.save(tmp_path / "agent")
    assert load(tmp_path / "agent").act(frame).arms == one.act(frame).arms


def test_arrays_of_examples_are_standardised(tmp_path):
    examples = RANDOM.normal(5, 3, size=(100, 2))
    one = Agent(["a"], examples, "linear")
    x = one._encode(examples)
    np.testing.assert_allclose([x.mean(axis=0), x.std(axis=0)], [[0, 0], [1, 1]], atol=1e-5)  # float32
    one.save(tmp_path / "agent")
    np.testing.assert_array_equal(load(tmp_path / "agent")._encode(examples), x)


def test_rewards_may_come_late_in_any_order_and_of_decisions_never_made():
    one, other = agent(every=0), agent(every=0)
    order = RANDOM.permutation(6)
    one.update(CONTEXTS, ["a", "b"] * 3, np.arange(6.0))
    for row in order:
        other.update(CONTEXTS[row : row + 1], [["a", "b"][row % 2]], [float(row)])
    one.learn(), other.learn()
    # sums in another order
    np.testing.assert_allclose(one.values(CONTEXTS), other.values(CONTEXTS), rtol=1e-4, atol=1e-4)


def test_memory_is_bounded():
    one = Agent(["a", "b"], 2, "uniform", memory=5)
    for reward in range(37):
        one.update(CONTEXTS[:1], ["a"], [float(reward)])
    header, arrays = one.to_record()
    assert arrays["memory.reward"].tolist() == [32, 33, 34, 35, 36]
    assert header["seen"] == 37
    one.update(CONTEXTS, ["a", "b"] * 3, np.arange(6.0))
    assert one.to_record()[1]["memory.reward"].tolist() == [1, 2, 3, 4, 5]


def test_a_log_with_propensities_counts_rare_arms_as_much(tmp_path):
    propensities = np.array([0.5, 0.05])
    one = Agent(["a", "b"], 2, "linear", noise=0.5)
    one.warm_start(CONTEXTS[:2], ["a", "b"], [1.0, 2.0], propensities)
    np.testing.assert_allclose(one.to_record()[1]["memory.weight"], np.array([2, 10]) / 6)
    before = one.values(CONTEXTS).std(axis=0)
    none = Agent(["a", "b"], 2, "linear", noise=0.5).values(CONTEXTS).std(axis=0)
    assert before.mean() < none.mean()
    assert one.act(CONTEXTS[:2]).arms == ["a", "b"]  # what a log has counts as a turn of each


def test_files_of_others_are_refused(tmp_path):
    path = tmp_path / "agent"
    write_file(path, {"flow": "svgd"}, {}, kind="agent")
    with pytest.raises(FileError, match="agent is not of an agent"):
        load(path)
    write_file(path, {}, {}, kind="model")
    with pytest.raises(FileError, match="is a model, not a agent"):
        load(path)
    agent().save(path)
    with pytest.raises(FileError, match="is of the method 'linear', and needs no other"):
        load(path, method=AGENTS["uniform"]())
    with pytest.raises(ValueError, match=r"rows of numbers \(N, 2\)"):
        load(path).act(np.zeros((1, 117)))


def test_a_method_of_ones_own_is_given_again(tmp_path):
    method = AGENTS["linear"](noise=0.3)
    one = Agent(["a", "b"], 2, method)
    one.save(tmp_path / "agent")
    assert load(tmp_path / "agent", method=method).act(CONTEXTS).arms == one.act(CONTEXTS).arms
    with pytest.raises(FileError, match="give it, as in load"):
        load(tmp_path / "agent")
    with pytest.raises(ValueError, match="cannot be saved"):
        Agent(["a"], 2, "function_space", kernel=rbf(1.0), hidden_layer_sizes=(4,)).save(tmp_path / "x")


def test_first_turns_go_round():
    one = Agent(["a", "b", "c"], 2, "uniform", first_turns=2)
    assert one.act(CONTEXTS).arms == ["a", "b", "c"] * 2
    assert one.act(CONTEXTS[:3]).propensities.tolist() == pytest.approx([1 / 3] * 3)
