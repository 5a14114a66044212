# SPDX-License-Identifier: Apache-2.0
"""Cells, table and figure of ``synthetic`` on known posteriors, and the README's claims on the committed rows."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fpovi.experiments.harness.experiment import Options
from fpovi.experiments.harness.store import Store
from fpovi.experiments.harness.sweep import sweep
from fpovi.experiments.sine import posteriors, synthetic
from fpovi.experiments.sine.comparison import predictive_band, quantiles, regions, wasserstein2
from fpovi.experiments.sine.posteriors import GRID, PosteriorDraws, gp_posterior, sine_task
from fpovi.plots import save

pytestmark = pytest.mark.usefixtures("loose_dtypes")
ROOT = Path(__file__).parents[3]


def committed_rows():
    return Store(ROOT / "results" / "synthetic.jsonl").rows()


def rows_of(preset, seed=3):
    wanted = synthetic.cells(Options(preset, seed))
    return [row for row in committed_rows() if row.cell in wanted]


def by_method(preset, seed=3):
    return {row.cell.method: row.metrics for row in rows_of(preset, seed)}


def test_exact_gp_interpolates_between_prior_and_data():
    draws, _ = gp_posterior(0, sine_task(3), lambda *_: None)
    spread = draws.std(axis=0)
    assert spread[regions(GRID)["data"]].mean() < 0.5 * spread[regions(GRID)["outside"]].mean()


def test_a_cell_measures_distance_and_spread_against_the_reference(tmp_path, monkeypatch):
    """Known posteriors in place of computed ones: twice the spread is a spread ratio of 2, a shift is its own W2."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=(2000, GRID.size))
    monkeypatch.setitem(synthetic.POSTERIORS, "nuts", lambda *_: PosteriorDraws(base, {"rhat": 1.0, "ess": 1.0}))
    monkeypatch.setitem(synthetic.POSTERIORS, "w_svgd", lambda *_: PosteriorDraws(2 * base + 1, {}))
    store = Store(tmp_path / "rows.jsonl")
    cells = [cell for cell in synthetic.cells(Options()) if cell.method in ("nuts", "w_svgd")]

    limit, other = sweep(cells, lambda cell: synthetic.run_cell(cell, store=store), store)
    assert other.metrics["spread_ratio"]["all"] == pytest.approx(2, rel=1e-2)
    # N(1, 2²) against N(0, 1): W2² = 1² + 1²; fifty draws add their own error to it
    assert other.metrics["w2"]["all"] == pytest.approx(2**0.5, rel=0.05)
    assert 0.1 < limit.metrics["w2"]["all"] < 0.3


def test_the_band_of_a_new_observation_is_that_of_a_sum():
    """f ~ N(0, 1) plus noise is N(0, 1 + .2²)."""
    draws = np.random.default_rng(0).normal(size=(20_000, 2))
    # 20,000 draws know a 97.5 % quantile to about .02
    np.testing.assert_allclose(predictive_band(draws), [[-1.9988] * 2, [1.9988] * 2], atol=0.06)


def test_all_presets_share_the_reference():
    assert len({synthetic.cells(Options(preset))[0] for preset in synthetic.PRESETS}) == 1
    assert len(synthetic.cells(Options("paper"))) == 1 + 3 * 4
    assert len(synthetic.cells(Options("kernels"))) == 1 + 1 + 2 * 3


def test_particles_report_progress_and_end_with_fifty_functions(monkeypatch):
    monkeypatch.setattr(synthetic, "STEPS", 20)
    monkeypatch.setattr(posteriors, "CHUNK", 10)
    seen = []
    draws, facts = synthetic.POSTERIORS["map_ensemble"](0, sine_task(3), lambda *step: seen.append(step[:2]))
    assert draws.shape == (50, GRID.size)
    assert jnp.all(jnp.isfinite(draws))
    assert seen == [(10, 20), (20, 20)]
    assert facts["steps"] == 20


def test_released_settings_compare_near_training_inputs_only():
    """Their extra points are the training inputs with noise of .1/√20 = .022."""
    x = sine_task(3).data.x
    shown = posteriors.noisy_training_inputs(0.1 * x.size**-0.5)(jax.random.key(0), x)
    assert shown.shape == (40, 1)
    np.testing.assert_array_equal(shown[:20], x)
    assert float(jnp.max(jnp.abs(shown[20:] - x))) < 4 * 0.0224


def test_function_space_is_where_it_should_be_in_the_committed_rows():
    """The README's claims about the first draw: below the exact GP's fifty draws, near the limit, others collapsed."""
    found = by_method("quick")
    distance = {method: metrics["w2"]["all"] for method, metrics in found.items()}
    assert distance["f_svgd_nngp"] <= 1.1 * distance["gp"]
    assert distance["f_svgd"] <= 2 * distance["nuts"]
    assert distance["f_svgd"] < 0.5 * distance["w_svgd"]
    assert found["w_svgd"]["spread_ratio"]["data"] < 0.5
    assert found["nuts"]["rhat"] <= 1.01


@pytest.mark.parametrize("preset", synthetic.PRESETS)
def test_figure_and_table_come_from_rows(preset, tmp_path):
    rows = rows_of(preset)
    paths = save(synthetic.figure(rows), tmp_path / "figure")
    assert [path.suffix for path in paths] == [".png", ".svg"]
    assert all(path.stat().st_size > 10_000 for path in paths)
    lines = synthetic.table(rows)
    assert [line["method"] for line in lines] == [synthetic.LABELS[row.cell.method] for row in rows]
    json.dumps(lines)


@pytest.mark.slow
def test_f_svgd_reaches_the_goal_again():
    """The two function-space cells of another key, against the committed NUTS row: the goals of the demo hold."""
    truth = np.asarray(by_method("quick")["nuts"]["quantiles"])
    for method, limit in (("f_svgd", 2 * 0.057), ("f_svgd_nngp", 1.1 * 0.149)):
        draws, _ = synthetic.POSTERIORS[method](11, sine_task(3), lambda *_: None)
        assert wasserstein2(quantiles(draws), truth).mean() < limit
