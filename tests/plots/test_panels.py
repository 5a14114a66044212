# SPDX-License-Identifier: Apache-2.0
"""Panels draw the numbers they are given, on the axes they are given."""

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from scipy import stats

from fpovi import plots
from fpovi.calibration import Reliability
from fpovi.types import Info

RNG = np.random.default_rng(0)
FOUND = Reliability(
    np.linspace(0, 1, 4), np.array([np.nan, 0.5, 0.9]), np.array([np.nan, 0.6, 0.7]), np.array([0, 0.25, 0.75])
)
STEPS = 1_234
HISTORY = Info(*np.abs(RNG.normal(size=(len(Info._fields) - 1, STEPS))) + 0.1, np.ones(STEPS, bool))


@pytest.fixture
def axes():
    with mpl.rc_context(plots.STYLE):
        yield Figure().subplots()


DRAW = {
    "reliability_diagram": lambda axes: plots.reliability_diagram(axes, FOUND),
    "pit_histogram": lambda axes: plots.pit_histogram(axes, RNG.uniform(size=(100, 1))),
    "coverage_curve": lambda axes: plots.coverage_curve(axes, [0.5, 0.9], [0.4, 0.8], 50),
    "interval_fan": lambda axes: plots.interval_fan(axes, [0.0, 5.0], [[1.0], [0.0]], [0.0, -1.0], [2.0, 1.0]),
    "particle_curves": lambda axes: plots.particle_curves(axes, np.arange(5), RNG.normal(size=(3, 5)), [1.0, 2.0]),
    "ood_histogram": lambda axes: plots.ood_histogram(axes, RNG.normal(size=50), RNG.normal(1, 1, 40)),
    **{f"history of {p[0]}": lambda axes, p=p: plots.training_history(axes, HISTORY, p) for p in plots.PANELS},
}


@pytest.mark.parametrize("name", DRAW)
def test_panel_draws_and_returns_nothing(name, axes, tmp_path):
    assert DRAW[name](axes) is None
    assert axes.has_data()
    assert axes.get_xlabel() or name == "particle_curves"
    assert all(path.stat().st_size > 1_000 for path in plots.save(axes.figure, tmp_path / "panel"))


def test_reliability_leaves_empty_bins_out(axes):
    DRAW["reliability_diagram"](axes)
    (dots,) = (artist for artist in axes.collections if not isinstance(artist, LineCollection))
    np.testing.assert_allclose(dots.get_offsets(), [[0.5, 0.6], [0.9, 0.7]])
    assert [text.get_text() for text in axes.texts] == ["ECE 0.175"]  # ¼·.1 + ¾·.2


def test_histogram_has_the_binomial_band(axes):
    values = np.repeat([0.05, 0.95], [75, 25])
    plots.pit_histogram(axes, values, bins=10)
    heights = [bar.get_height() for bar in axes.patches[:10]]
    np.testing.assert_allclose(heights, [7.5, *[0] * 8, 2.5])
    band = axes.patches[10]
    low, high = stats.binom(100, 0.1).interval(0.95)
    np.testing.assert_allclose([band.get_y(), band.get_y() + band.get_height()], [low / 10, high / 10])


def test_curve_has_the_binomial_band_if_told_how_many_rows(axes):
    plots.coverage_curve(axes, [0.5], [0.4])
    assert not axes.collections
    plots.coverage_curve(axes, [0.5], [0.4], rows=50)
    edge = axes.collections[0].get_paths()[0].vertices
    at_half = edge[edge[:, 0] == 0.5, 1]
    np.testing.assert_allclose([at_half.min(), at_half.max()], np.array(stats.binom(50, 0.5).interval(0.95)) / 50)
    assert edge[:, 1].min() == 0
    assert edge[:, 1].max() == 1


def test_intervals_are_sorted_and_misses_marked(axes):
    DRAW["interval_fan"](axes)
    mean, inside, outside = axes.lines
    np.testing.assert_allclose(mean.get_ydata(), [0, 1])
    np.testing.assert_allclose(inside.get_xydata(), [[1, 0]])
    np.testing.assert_allclose(outside.get_xydata(), [[0, 5]])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["inside, 50%", "outside, 50%"]


def test_separation_is_told(axes):
    plots.ood_histogram(axes, [0.0, 1.0], [2.0, 3.0])
    assert axes.get_legend().get_title().get_text() == "AUROC 1.000"


def test_long_history_is_thinned_to_its_medians(axes):
    plots.training_history(axes, HISTORY, ("noise",))
    (line,) = axes.lines
    steps, values = line.get_data()
    assert len(steps) <= 200
    assert steps[-1] == STEPS
    np.testing.assert_allclose(values[0], np.median(HISTORY.noise[: int(steps[0])]))


@pytest.mark.parametrize(
    ("draw", "said"),
    [
        (lambda a: plots.pit_histogram(a, [0.5, 1.5]), "all between 0 and 1"),
        (lambda a: plots.pit_histogram(a, []), "at least one is needed"),
        (lambda a: plots.coverage_curve(a, [0.5], [0.4, 0.5]), "both need the same one"),
        (lambda a: plots.interval_fan(a, [0.0], [0.0], [0.0], [0.0, 1.0]), "have 1, 1, 1 and 2 entries"),
        (lambda a: plots.particle_curves(a, [0.0, 1.0], [1.0, 2.0]), r"curves has shape \(2,\), but \(n, 2\) is"),
        (lambda a: plots.training_history(a, HISTORY, ("loss",)), r"fields=\('loss',\) must be one to four of log_"),
        (lambda a: plots.training_history(a, HISTORY._replace(noise=np.zeros(())), ("noise",)), "one value per step"),
    ],
)
def test_bad_input_is_turned_away(draw, said, axes):
    with pytest.raises(ValueError, match=said):
        draw(axes)
