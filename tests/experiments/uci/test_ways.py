# SPDX-License-Identifier: Apache-2.0
"""Each way learns with what it says, and answers in the target's units."""

import jax.numpy as jnp
import numpy as np
import pytest

from fpovi.experiments.uci import ways
from fpovi.inference.gauss_newton import gauss_newton
from fpovi.inference.loop import _chunk
from support.small_splits import PLAN, a_split

pytestmark = pytest.mark.usefixtures("loose_dtypes")


@pytest.mark.parametrize(
    ("y", "floor"),
    [
        (np.arange(300.0) % 3, 0.4),  # steps of 1 over √12 and a standard deviation of √(2/3): .354
        (np.arange(300) % 30 / 10, 0.03),  # .1 over √12 and .866: .033
        (np.linspace(0, 1, 10_000), 1e-3),  # never less than this
        (np.ones(10), 1e-3),
    ],
)
def test_no_peak_is_narrower_than_the_rounding_of_targets(y, floor):
    likelihood = ways.several_peaks(y)
    f = jnp.full((1, 9), -50.0, jnp.float32)  # softplus of that is nothing
    assert float(likelihood.variance((), f)[0, 0]) ** 0.5 == pytest.approx(floor, rel=1e-4)  # float32


def test_the_rate_falls_in_the_end():
    rates = [
        float(ways.rate_at(jnp.asarray(0.01), jnp.asarray(1000.0), jnp.asarray(count))) for count in (0, 700, 850, 1000)
    ]
    np.testing.assert_allclose(rates, [0.01, 0.01, 0.0051, 0.0002], rtol=1e-4)  # halfway (1 + .02)/2 of it


@pytest.mark.parametrize(
    "name",  # the others are built alike, and take as long to compile
    [n if n in ("mixture", "smooth") else pytest.param(n, marks=pytest.mark.slow) for n in ways.WAYS],
)
def test_splits_of_a_set_share_programs(name, monkeypatch):
    """One more split, with other rows, scales and seed, compiles no step; answers are in the target's units."""
    monkeypatch.setattr(ways.paper, "PARTICLES", 4)
    first = ways.learn(name, "even", 0, (5,), a_split(0), PLAN)
    programs = _chunk._cache_size()
    second = ways.learn(name, "even", 1, (5,), a_split(1), PLAN)
    assert _chunk._cache_size() == programs
    assert second.f.shape == first.f.shape
    assert np.all(np.abs(second.mean - 150) < 60)  # mean 150, standard deviation 20; 12 steps from near 0
    assert np.all((second.std > 5) & (second.std < 60))


@pytest.mark.parametrize("name", ways.WAYS)
def test_a_way_learns_with_what_it_says(name, monkeypatch):
    """From the chosen inputs, with its own activation, flow and rate; a Gauss-Newton step is worth thirty."""
    way, seen = ways.WAYS[name], []

    class StopHereError(Exception):
        pass

    def recipe(network, likelihood, flow, optimiser):
        seen.append((network.architecture.sizes[0], network.architecture.activation, flow, likelihood, optimiser))

        def build(dials):
            seen.append((float(dials.rate), float(dials.noise_rate), float(dials.steps), dials.around.x.shape))
            raise StopHereError

        return build

    monkeypatch.setattr(ways, "_recipe", recipe)
    monkeypatch.setitem(
        ways.INPUTS,
        "halved",
        lambda split: split._replace(x_train=split.x_train[:, :2], x_test=split.x_test[:, :2]),
    )
    with pytest.raises(StopHereError):
        ways.learn(name, "halved", 0, (5,), a_split(), PLAN._replace(steps=600))
    assert seen[0] == (2, way.activation, way.flow, way.likelihood(a_split().y_train), way.pace.optimiser)
    rates, steps = (way.pace.rate, way.pace.noise_rate), 20 if way.pace.optimiser is gauss_newton else 600
    assert seen[1] == (*map(pytest.approx, rates), steps, (30, 2))
