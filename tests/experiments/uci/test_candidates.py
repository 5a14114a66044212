# SPDX-License-Identifier: Apache-2.0
"""Each candidate is trained with its own settings, and predicts in the target's units."""

import jax.numpy as jnp
import numpy as np
import pytest

from fpovi.experiments.uci import candidates
from fpovi.inference.loop import _chunk
from support.small_splits import SHORT_RUN, a_split

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
    likelihood = candidates.mixture_for(y)
    f = jnp.full((1, 9), -50.0, jnp.float32)  # softplus of that is nothing
    assert float(likelihood.variance((), f)[0, 0]) ** 0.5 == pytest.approx(floor, rel=1e-4)  # float32


def test_the_rate_falls_in_the_end():
    rates = [
        float(candidates.rate_at(jnp.asarray(0.01), jnp.asarray(1000.0), jnp.asarray(count)))
        for count in (0, 700, 850, 1000)
    ]
    np.testing.assert_allclose(rates, [0.01, 0.01, 0.0051, 0.0002], rtol=1e-4)  # halfway (1 + .02)/2 of it


@pytest.mark.parametrize(
    "name",  # the others are built alike, and take as long to compile
    [n if n in ("mixture", "smooth") else pytest.param(n, marks=pytest.mark.slow) for n in candidates.CANDIDATES],
)
def test_splits_of_a_set_share_programs(name, monkeypatch):
    """One more split, with other rows, scales and seed, compiles no step; answers are in the target's units."""
    monkeypatch.setattr(candidates.paper, "PARTICLES", 4)
    first = candidates.fit_predict(name, "even", 0, (5,), a_split(0), SHORT_RUN)
    programs = _chunk._cache_size()
    second = candidates.fit_predict(name, "even", 1, (5,), a_split(1), SHORT_RUN)
    assert _chunk._cache_size() == programs
    assert second.f.shape == first.f.shape
    assert np.all(np.abs(second.mean - 150) < 60)  # mean 150, standard deviation 20; 12 steps from near 0
    assert np.all((second.std > 5) & (second.std < 60))


@pytest.mark.parametrize("name", candidates.CANDIDATES)
def test_a_candidate_is_trained_with_its_own_settings(name, monkeypatch):
    """From the chosen inputs, with its own activation, flow and rate; a Gauss-Newton step is worth thirty."""
    candidate, seen = candidates.CANDIDATES[name], []

    class StopHereError(Exception):
        pass

    def function_space(network, likelihood, flow, optimiser):
        seen.append((network.architecture.sizes[0], network.architecture.activation, flow, likelihood, optimiser))

        def build(traced):
            seen.append((float(traced.rate), float(traced.noise_rate), float(traced.steps), traced.centres.x.shape))
            raise StopHereError

        return build

    monkeypatch.setattr(candidates, "_function_space", function_space)
    monkeypatch.setitem(
        candidates.INPUTS,
        "halved",
        lambda split: split._replace(x_train=split.x_train[:, :2], x_test=split.x_test[:, :2]),
    )
    with pytest.raises(StopHereError):
        candidates.fit_predict(name, "halved", 0, (5,), a_split(), SHORT_RUN._replace(steps=600))
    chosen, likelihood = candidate.optimiser, candidate.likelihood(a_split().y_train)
    assert seen[0] == (2, candidate.activation, candidate.flow, likelihood, chosen.make)
    rates, steps = (chosen.rate, chosen.noise_rate), 20 if name == "smooth" else 600
    assert seen[1] == (*map(pytest.approx, rates), steps, (30, 2))
