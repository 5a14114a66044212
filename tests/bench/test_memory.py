# SPDX-License-Identifier: Apache-2.0
"""The model of memory, and that it is measured in a process of its own."""

import pytest

from fpovi.bench import memory
from fpovi.bench.settings import Setting
from fpovi.experiments.harness.store import Cell, Row

COEFFICIENTS = (6.0, 3.0, 2.0, 1e5)


def row(setting):
    floats = sum(c * t for c, t in zip(COEFFICIENTS, memory.terms(setting), strict=True))
    metrics = {
        "growth": 4 * floats,
        "planned": 0,
        "peak": 0,
        "setting": setting._asdict() | {"sizes": [*setting.sizes]},
    }
    return Row(Cell("bench-memory", "function:svgd:nngp", setting.name), metrics, 0.0, {})


def test_fit_finds_the_coefficients_that_made_the_numbers():
    rows = [row(setting) for setting in memory.settings()]
    found = memory.fit(rows)
    assert tuple(found.values()) == pytest.approx(COEFFICIENTS, rel=1e-6)
    assert memory.predicted(rows[0], found) == pytest.approx(rows[0].metrics["growth"])
    assert "floats = 6 weights (n·p) + 3 activations (m·B·w) + 2 pairs (n²)" in memory.view(rows).notes[0]


def test_settings_have_what_is_promised():
    largest = memory.settings()[-1]
    assert largest.num_weights > 5_000_000
    assert largest.n == 20
    assert any(setting.n == 1000 and setting.sizes == (13, 50, 1) for setting in memory.settings())


@pytest.mark.slow
def test_footprint_of_some_large_arrays():
    """A million weights in 20 networks: at least they, Adam's two memories and a gradient, at most ten copies."""
    setting = Setting("broad", (100, 10_000, 1), batch=10, extra=10)
    found = memory.footprint(setting)
    copies = found["growth"] / (4 * setting.n * setting.num_weights)
    assert 4 <= copies <= 10
    assert found["peak"] > found["growth"]
