# SPDX-License-Identifier: Apache-2.0
"""Regions lie on two sides of the first principal component, methods see only their inputs, and pairs are compared."""

import json

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.decomposition import PCA

from fpovi.baselines import regressors
from fpovi.datasets.uci import Regression, divide
from fpovi.estimators import BNNRegressor
from fpovi.experiments import adaptation
from fpovi.experiments.harness.experiment import Options
from fpovi.experiments.harness.store import Cell, Row
from fpovi.experiments.registry import EXPERIMENTS
from fpovi.experiments.uci import paper_learners
from fpovi.plots import save


def a_set(rows=100):
    """The first two features say nearly the same: the principal component is their sum."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 3))
    x[:, 1] = x[:, 0] + 0.1 * x[:, 1]
    return Regression(5 + 2 * x, 100 + 10 * x[:, 0], np.zeros((1, 1), np.int32))


def test_regions_are_complete_and_on_two_sides_of_scikit_learns_component():
    x = a_set().x
    regions = divide(x, 0)
    assert sorted(np.concatenate(regions)) == list(range(100))
    assert tuple(map(len, regions)) == (63, 7, 15, 15)
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    place = PCA(1).fit(z).transform(z)[:, 0]
    place *= np.sign(np.corrcoef(place, x[:, 0])[0, 1])
    source, target = (np.concatenate(pair) for pair in (regions[:2], regions[2:]))
    assert place[source].max() < place[target].min()


def test_divisions_differ_within_their_regions():
    first, second = (divide(a_set().x, number) for number in range(2))
    assert set(first.train) != set(second.train)
    assert {*first.unlabelled, *first.target} == {*second.unlabelled, *second.target}


@pytest.mark.usefixtures("loose_dtypes")
def test_a_cell_scores_both_regions(monkeypatch):
    """The method is right in the source and off by 30 in the target."""
    data = a_set()
    monkeypatch.setattr(adaptation, "load_uci", lambda name: data)
    asked = []

    def method(task, unlabelled, watch):
        asked.append((task, unlabelled))
        off = np.where(np.arange(len(task.split.y_test)) < 15, 30.0, 0.0)
        return regressors.predict_dist(
            lambda seed, x, y, x_new: (z(task.split.y_test + off), np.full(len(x_new), 0.01)), 0,
            task.split.x_train, task.split.y_train, task.split.x_test,
        )  # fmt: skip

    z = lambda y: (y - asked[0][0].split.y_train.mean()) / asked[0][0].split.y_train.std()  # noqa: E731
    monkeypatch.setitem(adaptation.METHODS, "gp", method)
    found = adaptation.run_cell(Cell("adaptation", "gp", "yacht", 3))
    assert found["rmse"] == pytest.approx(30, rel=1e-3)  # float32
    assert found["source_rmse"] < 0.01
    assert found["coverage_95"] == 0
    regions = divide(data.x, 3)
    np.testing.assert_array_equal(asked[0][1], data.x[regions.unlabelled])
    np.testing.assert_array_equal(asked[0][0].split.y_train, data.y[regions.train])


@pytest.mark.usefixtures("loose_dtypes")
def test_extra_points_lie_in_the_target_region(monkeypatch):
    """f-SVGD compares near the target's inputs, in the units of the training rows."""
    data, regions, seen = a_set(), divide(a_set().x, 0), []
    monkeypatch.setattr(
        adaptation, "train_networks", lambda learn, task, watch: adaptation.gaussian_process(task, watch)
    )
    monkeypatch.setattr(adaptation, "function_space_learner", lambda flow, centres: seen.append((flow, centres)))
    task = adaptation.make_task(Cell("adaptation", "f-svgd-target", "yacht"), data, regions)
    adaptation.METHODS["f-svgd-target"](task, data.x[regions.unlabelled], lambda *_: None)
    [(flow, centres)] = seen
    train = data.x[regions.train]
    expected = (data.x[regions.unlabelled] - train.mean(axis=0)) / (train.std(axis=0) * 3**0.5)
    assert flow == "svgd"
    np.testing.assert_allclose(centres.x, expected, rtol=1e-5, atol=1e-6)  # float32
    assert float(centres.bandwidth) == pytest.approx((15 * 3) ** -0.5)


@pytest.mark.usefixtures("loose_dtypes")
def test_the_estimator_compares_at_the_targets_inputs_too(monkeypatch, key):
    """20 points around the training rows and 20 of the target's inputs."""
    data, regions, seen = a_set(), divide(a_set().x, 0), []

    def remembered(**settings):
        assert settings == {"hidden_layer_sizes": (50,), "n_particles": 20, "random_state": 0}
        seen.append(BNNRegressor(hidden_layer_sizes=(5,), n_particles=4, max_epochs=1, prior="nngp", random_state=0))
        return seen[-1]

    monkeypatch.setattr(adaptation, "BNNRegressor", remembered)
    task = adaptation.make_task(Cell("adaptation", "fpovi-target", "yacht"), data, regions)
    answer = adaptation.METHODS["fpovi-target"](task, data.x[regions.unlabelled], lambda *_: None)
    assert answer.f.shape == (4, 22, 1)
    [model] = seen
    labelled = jnp.asarray(model.fitted_.encoder(task.split.x_train), jnp.float32)
    points = np.asarray(model.measurement(key, labelled))
    np.testing.assert_array_equal(points[: len(labelled)], labelled)
    assert len(points) == len(labelled) + 40
    known = model.fitted_.encoder(data.x[regions.unlabelled])
    nearest = np.abs(points[-20:, None] - known).max(axis=2).min(axis=1)
    np.testing.assert_allclose(nearest, 0, atol=1e-6)  # float32
    assert adaptation.EXTRA_POINTS == 20
    assert paper_learners.EXTRA_POINTS == 100


def rows(method, nll, dataset="boston"):
    other = {"crps": 1.0, "coverage_95": 0.9, "rmse": 1.0, "source_nll": 2.0}
    return [
        Row(Cell("adaptation", method, dataset, split), {"nll": value, **other}, 1.0, {})
        for split, value in enumerate(nll)
    ]


ROWS = [*rows("f-svgd", [3.0, 4.0, 5.0]), *rows("f-svgd-target", [2.0, 3.1, 3.9]), *rows("ensemble", [6.0, 7.0, 8.0])]


def test_methods_are_paired_with_themselves():
    view = EXPERIMENTS["adaptation"].view(ROWS)
    ours, ensemble = view.lines
    assert ours[2:5] == ["4.00 ± 0.58", "3.00 ± 0.55", "**-1.000 ± 0.058**"]  # −1, −.9, −1.1
    assert ensemble[2:5] == ["7.00 ± 0.58", "", ""]
    assert view.notes == ("f-SVGD: the inputs lower the NLL on 1 of 1 sets, raise it on 0",)
    json.dumps(view.records, allow_nan=False)


def test_the_figure_has_a_panel_per_set_and_score(tmp_path):
    drawing = EXPERIMENTS["adaptation"].figure([*ROWS, *rows("f-svgd", [1.0], "yacht")])
    assert [axes.get_title(loc="left") for axes in drawing.axes] == ["boston", "yacht", "", ""]
    assert all(path.stat().st_size > 5_000 for path in save(drawing, tmp_path / "adaptation"))


def test_cells_and_choices():
    cells = EXPERIMENTS["adaptation"].cells(Options("full"))
    assert len(cells) == 6 * 10 * len(adaptation.METHODS)
    assert list(adaptation.METHODS) == list(adaptation.LABELS)
    for choice in ({"preset": "paper"}, {"datasets": ("iris",)}, {"methods": ("bbb",)}):
        with pytest.raises(ValueError, match="is not known"):
            adaptation.cells(Options(**choice))
