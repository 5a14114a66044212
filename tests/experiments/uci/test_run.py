# SPDX-License-Identifier: Apache-2.0
"""The settings are the paper's, splits share programs, and cells give sensible scores on real data."""

import json
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fpovi.baselines import BASELINES
from fpovi.datasets.scaling import scale_split
from fpovi.datasets.uci import UCI, Split
from fpovi.experiments.harness.experiment import Options
from fpovi.experiments.harness.store import Cell, Store
from fpovi.experiments.harness.sweep import sweep
from fpovi.experiments.registry import EXPERIMENTS
from fpovi.experiments.uci import paper_learners
from fpovi.experiments.uci import run as uci
from fpovi.experiments.uci.setups import CITED, LABELS, SETUPS, Preset
from fpovi.inference.loop import _chunk

pytestmark = pytest.mark.usefixtures("loose_dtypes")
needs_data = pytest.mark.skipif(not os.environ.get("FPOVI_DATA"), reason="FPOVI_DATA names no folder with data files")
ONE_OF_EACH = ("f-svgd", "w-svgd", "w-svgd-ka", "mc-dropout", "bbb", "sghmc")
BRIEF = Preset(("yacht",), 2, 2, epochs=(2, 2), methods=("w-svgd",), gp_rows=50)
MAIN = SETUPS["uci"]


def a_split(seed=0, rows=40, features=3):
    rng = np.random.default_rng(seed)
    x = 5 + 2 * rng.normal(size=(rows, features))
    y = 100 + 10 * (x[:, 0] + 0.1 * rng.normal(size=rows))
    return Split(x[:-10], y[:-10], x[-10:], y[-10:])


# training rows and features of the random splits; batch, epochs, steps of an epoch, and hidden units of the paper
SETTINGS = {
    "boston": (456, 13, 100, 500, 5, 50),
    "concrete": (927, 8, 1000, 3000, 1, 50),
    "energy": (691, 8, 100, 500, 7, 50),
    "kin8nm": (7372, 8, 1000, 3000, 8, 50),
    "naval": (10740, 16, 1000, 3000, 11, 50),
    "power": (8611, 4, 1000, 3000, 9, 50),
    "protein": (41157, 9, 1000, 3000, 42, 100),
    "wine-red": (1439, 11, 1000, 3000, 2, 50),
    "yacht": (277, 6, 100, 500, 3, 50),
}


@pytest.mark.parametrize("dataset", UCI)
def test_settings_are_the_papers(dataset):
    rows, features, batch_size, epochs, batches, width = SETTINGS[dataset]
    total = round(rows / 0.9)
    split = Split(
        np.zeros((rows, features)), np.zeros(rows), np.zeros((total - rows, features)), np.zeros(total - rows)
    )
    task = uci.make_task(Cell("uci", "f-svgd", dataset, preset="paper"), split)
    assert (task.batch_size, task.epochs, task.settings.steps, task.hidden) == (
        batch_size, epochs, epochs * batches, (width,),
    )  # fmt: skip


def test_constants_are_the_papers():
    """Particles, rate, extra points, prior networks × points, floor of eigenvalues, first noise."""
    ours = (paper_learners.PARTICLES, paper_learners.RATE, paper_learners.EXTRA_POINTS, paper_learners.PRIOR_DRAWS)
    assert ours == (20, 0.004, 100, 40)
    assert (paper_learners.PRIOR_POINTS, paper_learners.LEAST_EIGENVALUE) == (4, 1e-3)
    noise = paper_learners.LIKELIHOOD.noise(paper_learners.LIKELIHOOD.init())
    assert float(noise) == pytest.approx(0.5, rel=1e-6)


def test_weights_have_the_papers_prior_and_start(key):
    """N(0, 1/n_out), biases too, but starts at N(0, 1/(n_in + n_out + 1)) and 0; 3 % is 3 sigma of 5,000 weights."""
    network = paper_learners.paper_network(13, (50,))
    keys = jax.random.split(key, 100)
    drawn, (start, _) = jax.vmap(network.sample_prior)(keys), jax.vmap(network.init)(keys)
    assert float(jnp.std(drawn.weights[0])) == pytest.approx(50**-0.5, rel=0.03)
    assert float(jnp.std(drawn.biases[0])) == pytest.approx(50**-0.5, rel=0.03)
    assert float(jnp.std(drawn.weights[1])) == pytest.approx(1, rel=0.03)
    assert float(jnp.std(start.weights[0])) == pytest.approx(64**-0.5, rel=0.03)
    assert float(jnp.std(start.weights[1])) == pytest.approx(52**-0.5, rel=0.03)
    assert not any(np.any(bias) for bias in start.biases)


def test_inputs_have_unit_norm_and_prior_functions_the_known_variance(key):
    """E‖x‖² = 1 and Var f = 2 on average: 1 of the output's bias, (1 + ‖x‖²)/2 of the hidden units."""
    data = scale_split(a_split(), unit_norm=True).train
    assert float(jnp.mean(jnp.sum(data.x**2, axis=1))) == pytest.approx(1, rel=1e-5)
    network = paper_learners.paper_network(3, (50,))
    draw = lambda key: network.apply(network.sample_prior(key), (), data.x, False)[0]  # noqa: E731
    f = jax.vmap(draw)(jax.random.split(key, 2000))
    assert float(jnp.mean(f**2)) == pytest.approx(2, rel=0.1)  # 2,000 draws know a variance to 3 %


@pytest.mark.parametrize("rows", [30, 490])
def test_extra_points_are_training_rows_with_little_noise(rows, key):
    """As many as there are up to 100, each beside a row of its own, off it by 1/√(N d) in every coordinate."""
    data = scale_split(a_split(rows=rows + 10), unit_norm=True).train
    centres = paper_learners.noisy_centres(data.x)
    assert float(centres.bandwidth) == pytest.approx((rows * 3) ** -0.5)
    bare = centres._replace(bandwidth=jnp.zeros(()))
    labelled, size = data.x[:20], min(100, rows)
    seen = [np.asarray(paper_learners.near_centres(100, where)(key, labelled)) for where in (bare, centres)]
    assert all(points.shape == (20 + size, 3) for points in seen)
    np.testing.assert_array_equal(seen[1][:20], labelled)
    known = {tuple(row) for row in np.asarray(data.x)}
    chosen = {tuple(row) for row in seen[0][20:]}
    assert len(chosen) == size
    assert chosen <= known
    noise = (seen[1] - seen[0])[20:]
    # 90 or 300 draws: a standard deviation is known to 7 or 4 %
    assert noise.std() == pytest.approx(float(centres.bandwidth), rel=0.2)


def test_every_row_is_as_likely_an_extra_point_as_any_other(key):
    """Of 7 rows 3, which are of unequal parts: two parts of 2 rows and one of 3."""
    rows, repeats = 7, 7000
    centres = paper_learners.NoisyCentres(jnp.arange(rows, dtype=jnp.float32)[:, None], jnp.zeros(()))
    draw = paper_learners.near_centres(3, centres)
    drawn = jax.jit(jax.vmap(lambda key: draw(key, jnp.zeros((1, 1)))[1:, 0]))(jax.random.split(key, repeats))
    counts = np.bincount(np.asarray(drawn).astype(int).ravel(), minlength=rows)
    # 3,000 of each are expected, with a standard deviation of √(7000 · 3/7 · 4/7) = 41
    np.testing.assert_allclose(counts, 3000, atol=4 * 41)


@pytest.mark.parametrize(
    "method",  # the other flows are built alike, and take as long to compile
    [
        m if m in ONE_OF_EACH else pytest.param(m, marks=pytest.mark.slow)
        for m in uci.METHODS
        if m not in ("gp", "fpovi", "nuts")
    ],
)
def test_splits_of_a_set_share_programs(method, monkeypatch):
    """One more split, with other rows, scales and seed, compiles no step."""
    monkeypatch.setattr(paper_learners, "PARTICLES", 4)
    task = lambda seed: uci.TrainingTask(seed, a_split(seed), (5,), 10, 2)  # noqa: E731
    run = lambda seed: uci.METHODS[method](task(seed), lambda *_: None).predictive  # noqa: E731
    first = run(0)
    programs = _chunk._cache_size()
    second = run(1)
    assert _chunk._cache_size() == programs
    assert second.f.shape == first.f.shape
    assert np.all(np.isfinite(second.std))


def test_nuts_answers_with_draws_of_the_posterior(monkeypatch):
    """Targets are 10 x plus noise of 1, on a scale of 20; a few short chains of a small network know that roughly."""
    monkeypatch.setattr(uci, "CHAINS", {"chains": 2, "warmup": 100, "draws": 50})
    monkeypatch.setattr(uci, "KEPT_DRAWS", 25)
    task = uci.TrainingTask(0, a_split(rows=70), (4,), 10, 1)
    answer = uci.METHODS["nuts"](task, lambda *_: None)
    assert answer.predictive.f.shape == (25, 10, 1)
    assert answer.predictive.params.shape == (25,)
    assert answer.metrics.keys() == {"rhat_median", "rhat_most", "divergent"}
    assert 0.9 < answer.metrics["rhat_median"] < answer.metrics["rhat_most"] < 3
    off = np.asarray(answer.predictive.mean[:, 0]) - task.split.y_test
    assert np.sqrt(np.mean(off**2)) < 5
    assert 0.3 < float(np.median(answer.predictive.aleatoric_std)) < 4


def test_held_out_rows_choose_the_epoch(monkeypatch):
    """Reports after 20, 40 and 60 epochs; predictions are those of the networks that found the rows most probable."""
    monkeypatch.setattr(paper_learners, "PARTICLES", 4)
    x, y, *_ = a_split(1)
    valid = x, 300 - y  # mirrored at the mean: the better the training rows are known, the less probable
    task, states = uci.TrainingTask(0, a_split(), (5,), 10, 60, valid=valid), []
    assert task.settings == paper_learners.TrainingLength(steps=180, batch_size=10, report_every=60)

    def learn(*given):
        *given, report = given
        return paper_learners.LEARNERS["ensemble"](
            *given, lambda state, history: (states.append(state), report(state, history))[1]
        )

    answer, model = uci.train_networks(learn, task, lambda *_: None), uci.scaled_model(task)
    probable = [float(jnp.sum(model.predict(state, valid[0]).log_prob(valid[1][:, None]))) for state in states]
    assert [int(state.step) for state in states] == [60, 120, 180]
    assert np.argmax(probable) < 2  # else the last would do too
    best = states[int(np.argmax(probable))]
    np.testing.assert_array_equal(answer.f, model.predict(best, task.split.x_test).f)


def test_cells_cover_the_tables_and_choices_are_checked():
    whole = uci.cells(MAIN, Options("paper"))
    assert len(whole) == len(set(whole)) == 13 * (8 * 20 + 5) + 4 * 20  # and NUTS on the sets with few rows
    assert {cell.split_kind for cell in uci.cells(MAIN, Options(split_kind="random"))} == {"random"}
    some = EXPERIMENTS["uci"].cells(Options("paper", 7, ("yacht",), 3, ("gp", "f-svgd"), "random"))
    assert {(cell.split, cell.seed, cell.method) for cell in some} == {
        (split, 7, method) for split in range(3) for method in ("gp", "f-svgd")
    }
    for choice in ({"preset": "fast"}, {"datasets": ("iris",)}, {"methods": ("vi",)}, {"split_kind": "lucky"}):
        with pytest.raises(ValueError, match="is not known"):
            uci.cells(MAIN, Options(**choice))
    with pytest.raises(ValueError, match="nuts' is too slow for protein: only for boston, concrete, energy, yacht"):
        uci.cells(MAIN, Options("paper", datasets=("protein",), methods=("nuts",)))


def test_best_shows_the_papers_rows_beside_its_own():
    """On the same splits, and not run again."""
    cells = uci.cells(MAIN, Options("best", splits=2, datasets=("yacht",)))
    assert [(cell.split, cell.method, cell.preset) for cell in cells] == [
        (0, "fpovi", "best"), (0, "f-svgd", "paper"), (1, "fpovi", "best"), (1, "f-svgd", "paper"),
    ]  # fmt: skip
    assert {cell for cell in cells if cell.method == "f-svgd"} <= set(uci.cells(MAIN, Options("paper")))


@pytest.mark.parametrize(("part", "of"), [("kernels", "uci"), ("uci-narrow", "uci-vip")])
def test_tables_that_share_cells_share_their_settings(part, of):
    """A row that one table has made is found by the other."""
    ours, theirs = SETUPS[part], SETUPS[of]
    assert ours.rows_in == of
    assert (ours.hidden, ours.protein_hidden, ours.held_out) == (theirs.hidden, theirs.protein_hidden, False)
    for name, preset in ours.presets.items():
        assert (preset.epochs, preset.splits) == (theirs.presets[name].epochs, theirs.presets[name].splits)
        assert set(preset.datasets) <= set(UCI)
    same = Options("paper", methods=("f-svgd",))
    assert set(uci.cells(ours, same)) <= set(uci.cells(theirs, same))


# hidden units (of protein), epochs of few and many rows, splits (of protein), and sets of the paper's appendix
VARIANTS = {
    "kernels": ((50,), (100,), (500, 3000), (20, 5), 3),
    "uci-deep": ((50, 50), (100, 100), (1000, 1000), (20, 5), 7),
    "uci-vip": ((10, 10), (10, 10), (500, 3000), (10, 5), 9),
    "uci-narrow": ((10, 10), (10, 10), (500, 3000), (10, 5), 4),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_settings_of_the_variants_are_the_papers(name):
    setup, preset = SETUPS[name], SETUPS[name].presets["paper"]
    ours = setup.hidden, setup.protein_hidden, preset.epochs, (preset.splits, preset.protein_splits)
    assert (*ours, len(preset.datasets)) == VARIANTS[name]
    assert set(preset.datasets) == {dataset for dataset, _, _ in setup.published}


@pytest.mark.parametrize("name", SETUPS)
def test_every_method_of_a_setup_is_known(name):
    setup = SETUPS[name]
    for preset in setup.presets.values():
        assert {*preset.methods, *preset.from_paper_preset} <= set(setup.methods)
    assert set(setup.methods) <= set(uci.METHODS)
    assert {method for _, _, method in setup.published} <= {*setup.methods, *CITED}
    if setup.held_out:
        assert set(setup.methods) <= set(paper_learners.LEARNERS)  # whose reports have networks that can be chosen


def test_every_method_has_a_name_and_every_baseline_a_method():
    assert set(LABELS) == set(uci.METHODS)
    assert len(BASELINES) == 4  # one of them, the ensemble, is a flow of weight space here


@needs_data
@pytest.mark.parametrize("split_kind", ["standard", "random"])
def test_a_cell_on_real_data(split_kind, tmp_path, monkeypatch):
    """Few epochs, but the target's own units: yacht has a standard deviation of 15."""
    monkeypatch.setitem(MAIN.presets, "quick", BRIEF)
    cells, steps = uci.cells(MAIN, Options(splits=1, split_kind=split_kind)), []
    [row] = sweep(
        cells, lambda cell: uci.run_cell(cell, lambda *step: steps.append(step[:2])), Store(tmp_path / "rows")
    )
    assert json.loads(json.dumps(row.metrics)).keys() == {"rmse", "nll", "crps", "coverage_95"}
    assert 5 < row.metrics["rmse"] < 20
    assert 3 < row.metrics["nll"] < 5
    assert steps[-1] == (6, 6)


@needs_data
def test_a_cell_with_rows_held_out(monkeypatch):
    monkeypatch.setitem(SETUPS["uci-deep"].presets, "quick", BRIEF)
    task = uci.load_task(Cell("uci-deep", "w-svgd", "yacht"))
    assert (len(task.split.y_train), len(task.valid[1]), len(task.split.y_test)) == (246, 31, 31)
    assert (task.hidden, task.settings) == (
        (50, 50),
        paper_learners.TrainingLength(steps=6, batch_size=100, report_every=60),
    )
    assert uci.run_cell(Cell("uci-deep", "w-svgd", "yacht")).keys() == {"rmse", "nll", "crps", "coverage_95"}
