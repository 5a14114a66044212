# SPDX-License-Identifier: Apache-2.0
"""The table and figure of ``uci`` from made-up rows, and the paper's numbers beside them."""

import json
import math

import pytest

from fpovi.experiments.harness.statistics import Mean
from fpovi.experiments.harness.store import Cell, Row
from fpovi.experiments.harness.view import markdown
from fpovi.experiments.registry import EXPERIMENTS
from fpovi.experiments.uci.published import Published, errors_apart
from fpovi.experiments.uci.setups import LABELS, SETUPS
from fpovi.experiments.uci.view import best_beside_paper
from fpovi.plots import save


def rows(method, nll, dataset="boston", preset="paper", experiment="uci"):
    other = {"crps": 1.0, "coverage_95": 0.9}
    metrics = [{"rmse": 2.6 + 0.1 * split, "nll": value, **other} for split, value in enumerate(nll)]
    return [
        Row(Cell(experiment, method, dataset, split, preset=preset), found, float(split + 1), {})
        for split, found in enumerate(metrics)
    ]


ROWS = [*rows("gp", [2.0, 2.1, 2.2]), *rows("f-svgd", [2.4, 2.5, 2.7]), *rows("w-svgd", [3.1, 3.2]),
        *rows("f-svgd", [0.6], "energy")]  # fmt: skip


@pytest.mark.parametrize(
    ("setup", "place", "numbers"),
    [
        ("uci", ("boston", "rmse", "f-svgd"), (2.54, 0.11)),
        ("uci", ("yacht", "rmse", "f-pi-sgld"), (0.58, 0.06)),
        ("uci", ("protein", "rmse", "w-svgd"), (4.61, 0.01)),
        ("uci", ("concrete", "nll", "f-svgd"), (2.84, 0.06)),
        ("uci", ("naval", "nll", "w-pi-sgld"), (-6.39, 0.02)),
        ("uci", ("kin8nm", "nll", "f-w-sgld-b"), (-1.26, 0.00)),
        ("uci-deep", ("yacht", "rmse", "mcbn"), (1.23, 0.05)),
        ("uci-deep", ("protein", "nll", "f-svgd"), (2.60, 0.01)),
        ("uci-deep", ("wine-red", "nll", "mnf"), (0.93, 0.00)),
        ("uci-vip", ("energy", "nll", "f-svgd"), (0.69, 0.03)),
        ("uci-vip", ("yacht", "rmse", "vip"), (0.32, 0.06)),
        ("uci-narrow", ("power", "nll", "w-svgd"), (2.79, 0.01)),
        ("uci-narrow", ("protein", "rmse", "alpha-dropout"), (4.46, 0.00)),
        ("kernels", ("concrete", "nll", "f-svgd"), (2.96, 0.04)),
        ("kernels", ("yacht", "nll", "w-svgd-ka"), (1.35, 0.06)),
    ],
)
def test_published_numbers(setup, place, numbers):
    assert SETUPS[setup].published[place] == Published(*numbers)


def test_published_tables_are_whole():
    cells = {name: len(setup.published) for name, setup in SETUPS.items()}
    assert cells == {
        "uci": 8 * 2 * 6, "kernels": 3 * 4, "uci-deep": 7 * 2 * 3, "uci-vip": 9 * 2 * 2, "uci-narrow": 4 * 2 * 4,
    }  # fmt: skip
    assert not any(dataset == "energy" for dataset, _, _ in SETUPS["uci"].published)


def test_rounding_hides_no_difference():
    assert errors_apart(Mean(0.074, 0.001, 20), Published(0.07, 0.0)) == 0
    assert errors_apart(Mean(0.078, 0.001, 20), Published(0.07, 0.0)) == pytest.approx(3)


def test_a_line_per_set_and_method():
    view = EXPERIMENTS["uci"].view(ROWS)
    assert view.columns[:6] == ("set", "method", "RMSE", "published RMSE", "NLL", "published NLL")
    assert [line[:2] for line in view.lines] == [
        ["boston", "f-SVGD"], ["", "SVGD"], ["", "Gaussian process"], ["energy", "f-SVGD"],
    ]  # fmt: skip
    ours, weights, gp, energy = view.lines
    assert ours[3] == "2.54 ± 0.11"
    assert ours[5] == "2.47 ± 0.07"
    assert ours[4] == "2.533 ± 0.088"  # mean of 2.4, 2.5, 2.7 and their unbiased deviation .1528 over √3
    assert gp[4] == "**2.100 ± 0.058**"
    assert gp[3] == gp[5] == ""
    assert gp[8] == "-0.433 ± 0.033"  # −.4, −.4, −.5
    assert weights[4] == "**3.150 ± 0.050 (2)**"  # two shared splits prove nothing
    assert energy[3] == ""
    assert [line[-1] for line in view.lines] == ["2", "2", "2", "1"]
    assert len(markdown(view).splitlines()) == 2 + 4


def test_records_say_how_far_from_the_paper_we_are():
    view = EXPERIMENTS["uci"].view(ROWS)
    records = json.loads(json.dumps(view.records))
    [nll] = [r for r in records if (r["dataset"], r["method"], r["metric"]) == ("boston", "f-svgd", "nll")]
    # (|2.533 − 2.47| − .005)/hypot(.0882, .07)
    assert nll["published"]["errors_apart"] == pytest.approx(0.518, abs=1e-3)
    assert view.notes == (
        "function space: 2 of 2 published means within two standard errors of ours",
        "weight space: 0 of 2 published means within two standard errors of ours",
    )


def test_one_split_or_fewer_epochs_claim_nothing():
    assert EXPERIMENTS["uci"].view(rows("f-svgd", [2.4])).notes == ()
    quick = EXPERIMENTS["uci"].view(rows("f-svgd", [2.4, 2.5], preset="quick"))
    assert quick.notes == ()
    assert "200 epochs, above 1,000 rows 800 (published: 500 epochs, above 1,000 rows 3,000)" in quick.explanation[1]


def test_the_figure_has_a_panel_per_set_and_score(tmp_path):
    drawing = EXPERIMENTS["uci"].figure(ROWS)
    assert [axes.get_title(loc="left") for axes in drawing.axes] == ["boston", "energy", "", ""]
    assert [label.get_text() for label in drawing.axes[0].get_yticklabels()] == ["f-SVGD", "SVGD", "Gaussian process"]
    assert all(path.stat().st_size > 5_000 for path in save(drawing, tmp_path / "uci"))


def test_cited_methods_have_lines_without_numbers_of_ours(tmp_path):
    given = rows("f-svgd", [2.4, 2.5], experiment="uci-deep")
    view = EXPERIMENTS["uci-deep"].view(given)
    assert [line[1:6] for line in view.lines[1:]] == [
        ["MCBN, cited", "", "2.75 ± 0.05", "", "2.38 ± 0.02"], ["MNF, cited", "", "2.98 ± 0.06", "", "2.51 ± 0.06"],
    ]  # fmt: skip
    assert view.lines[0][0] == "boston"
    assert "1,000 epochs, of which held-out rows choose the best" in view.explanation[1]
    json.dumps(view.records, allow_nan=False)
    drawing = EXPERIMENTS["uci-deep"].figure(given)
    assert [label.get_text() for label in drawing.axes[0].get_yticklabels()] == ["f-SVGD", "MCBN, cited", "MNF, cited"]


def test_rows_of_the_paper_stand_beside_the_best():
    beside = rows("f-svgd", [2.4, 2.5, 2.7])
    view = EXPERIMENTS["uci"].view([*rows("fpovi", [2.3, 2.4, 2.5], preset="best"), *beside])
    ours, theirs = view.lines
    assert ours[1] == LABELS["fpovi"]
    assert ours[8] == "-0.133 ± 0.033"  # −.1, −.1, −.2
    assert theirs[5] == "2.47 ± 0.07"
    with pytest.raises(ValueError, match="are mixed"):
        EXPERIMENTS["uci"].view([*rows("f-svgd", [2.4], preset="quick"), *beside])


def test_one_cell_in_two_tables_has_the_numbers_of_each():
    given = rows("f-svgd", [2.4, 2.5], "concrete")
    assert [EXPERIMENTS[name].view(given).lines[0][5] for name in ("uci", "kernels")] == ["2.84 ± 0.06", "2.96 ± 0.04"]


def test_chosen_candidates_are_counted():
    ours = rows("fpovi", [1.0, 1.1, 1.2], preset="best")
    for row, candidate in zip(ours, ("mixture", "gaussian", "mixture"), strict=True):
        row.metrics["way"], row.metrics["inputs"] = candidate, "white" if candidate == "gaussian" else "plain"
        row.metrics["stretch"] = 1.5 if candidate == "gaussian" else 1.0
    notes = EXPERIMENTS["uci"].view([*ours, *ROWS[3:6]]).notes
    assert notes[-2:] == (
        "candidates chosen (and inputs): boston mixture (plain) 2, gaussian (white) 1",
        "spread multiplied by 1.00 to 1.50",
    )  # fmt: skip


@pytest.mark.parametrize("far", [102.0, -102.0])
def test_a_rival_far_off_is_an_arrow_with_its_number(far):
    """One dot a hundred away would make all others one dot."""
    given = [*rows("f-svgd", [2.4, 2.5, 2.6]), *rows("w-svgd", [2.6, 2.7, 2.8]), *rows("gp", [far - 1, far, far + 1])]
    panel = EXPERIMENTS["uci"].figure(given).axes[1]
    assert 1 < panel.get_xlim()[0] < panel.get_xlim()[1] < 4
    assert [text.get_text() for text in panel.texts] == [f"{far:.0f}"]


def test_rivals_alone_and_what_is_not_finite_can_be_drawn():
    given = [*rows("gp", [1.0, 2.0], "energy"), *rows("ensemble", [math.inf, 3.0], "energy")]
    panel = EXPERIMENTS["uci"].figure(given).axes[1]
    assert panel.get_xlim()[0] < 1.5 < panel.get_xlim()[1]


def test_the_best_stands_beside_the_paper_on_splits_that_both_have():
    """Two of three splits are shared; rows of other presets, methods and draws are left out."""
    ours = rows("fpovi", [2.0, 2.6], preset="best")
    for row in ours:
        row.metrics["rmse"] -= 1.0
        row.metrics.update(coverage_95=0.95, crps=0.8)
    others = [*rows("fpovi", [9.0], "yacht", preset="quick"), *rows("gp", [1.0, 1.0])]
    alone = rows("fpovi", [1.0], "energy", preset="best")
    (line,) = best_beside_paper([*ours, *alone, *rows("f-svgd", [2.4, 2.5, 9.9]), *others]).lines
    assert line == [
        "boston", "2.650 ± 0.050", "1.650 ± 0.050", "1", "0.8", "2.450 ± 0.050", "2.30 ± 0.30", "-0.15 ± 0.25",
        "1 of 2", "0.95",
    ]  # fmt: skip
