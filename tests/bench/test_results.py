# SPDX-License-Identifier: Apache-2.0
"""From contestants to rows, tables and figures, on a setting so small that it takes no time."""

import inspect
import json
from dataclasses import asdict
from importlib import import_module

import pytest

from fpovi.bench import contestants, figures, machine, tables
from fpovi.bench.contestants import CONTESTANTS, Contestant, choose, list_contestants, ours
from fpovi.bench.settings import SETTINGS, Setting
from fpovi.bench.tables import sweep_summary
from fpovi.bench.timing import UnavailableError
from fpovi.experiments.harness.store import Cell, Row, Store
from fpovi.flows import FLOWS
from fpovi.plots import save
from fpovi.priors import PRIORS
from support.commands import good, refusal

pytestmark = pytest.mark.usefixtures("loose_dtypes")
TINY = Setting("tiny", (3, 8, 1), batch=6, extra=4, n=3, prior_points=4)
CLASSES = Setting("classes", (3, 8, 4), batch=6, extra=0, n=3, prior_points=2, classes=True)
command = import_module("fpovi.cli.bench")  # the module: fpovi.cli.bench is also the command itself
MACHINE = {"cpu": "a processor", "cores": 2, "load": 0.1, "single_core_gflops": 40.0}


def unavailable(setting):
    raise UnavailableError("not installed: pip install something")


@pytest.mark.parametrize("setting", [TINY, CLASSES], ids=lambda setting: setting.name)
@pytest.mark.parametrize(
    "name", [c.name for c in choose(contestants.QUICK) if c.name.startswith(("function", "weight"))]
)
def test_every_flow_and_prior_can_be_prepared(name, setting):
    CONTESTANTS[name].prepare(setting)


def test_a_prior_added_to_the_table_takes_part(monkeypatch):
    monkeypatch.setitem(PRIORS, "mine", lambda network, strength=1.0: PRIORS["flat"]())
    names = {contestant.name: contestant for contestant in list_contestants()}
    assert {f"function:{flow}:mine" for flow in FLOWS} <= set(names)
    names["function:svgd:mine"].prepare(TINY)


def test_a_prior_that_needs_more_than_the_bench_has_is_left_out_and_named(monkeypatch):
    monkeypatch.setitem(PRIORS, "mine", lambda network, taste: PRIORS["flat"]())
    assert not [each.name for each in list_contestants() if each.name.endswith(":mine")]
    reason = "function:*:mine is left out: the prior needs arguments that the bench cannot choose"
    monkeypatch.setitem(contestants.LEFT_OUT, "mine", reason)
    assert contestants.left_out(["*"]) == contestants.left_out(["function:svgd:*"]) == [reason]
    assert contestants.left_out(["function:*:nngp", "weight:*"]) == []
    with pytest.raises(ValueError, match=r"contestants='function:svgd:mine': .* is left out"):
        choose(["function:svgd:mine"])
    with pytest.raises(ValueError, match="taste"):
        ours.function_step("svgd", "mine", TINY)


def test_peers_draw_as_many_prior_networks_as_our_prior():
    assert inspect.signature(PRIORS["moment_matched"]).parameters["draws"].default == ours.PRIOR_DRAWS


@pytest.mark.parametrize(
    "name", ["ensemble", "function:svgd:moment_matched", "weight:svgd", "fits-2:svgd:nngp", "peer:blackjax"]
)
def test_prepared_ones_run(name):
    CONTESTANTS[name].prepare(TINY)(2)


def test_rows_are_complete(tmp_path):
    takes_part = [
        CONTESTANTS["ensemble"],
        CONTESTANTS["bare:rows"],
        Contestant("peer:none", contestants.PEER, unavailable, "ensemble"),
    ]
    rows = contestants.measure(TINY, takes_part, MACHINE, rounds=3, sample_seconds=1e-4)
    store = Store(tmp_path / "bench.jsonl")
    for row in rows:
        store.append(row)
    back = {row.cell.method: row.metrics for row in store.rows()}
    assert back["peer:none"]["missing"] == "not installed: pip install something"
    for name in ("ensemble", "bare:rows"):
        found = back[name]
        assert 0 < found["minimum"] <= found["lower"] <= found["median"] <= found["upper"]
        assert len(found["samples"]) == 3
        assert found["flops"] == TINY.pass_flops
        assert found["gflops"] == pytest.approx(TINY.pass_flops / found["median"] / 1e9)
        assert found["machine"] == MACHINE
        assert found["setting"]["sizes"] == [3, 8, 1]


def test_facts_of_this_machine():
    found = machine.describe_machine()
    assert found["cores"] >= 1
    assert {"python", "jax", "blackjax"} <= set(found["versions"])
    json.dumps(found)
    assert machine.busy_warning(found | {"load": 0.1, "cores": 2}) is None
    assert "load average was 3.0 on 2 core(s)" in machine.busy_warning(found | {"load": 3.0, "cores": 2})


def made_up(name, kind, milliseconds, gflops, rival=""):
    samples = [factor * milliseconds / 1e3 for factor in (0.9, 1.2, 1.0)]
    low, high, middle = samples
    timed = {"median": middle, "lower": low, "upper": high, "minimum": low, "gflops": gflops, "samples": samples}
    common = {"setting": TINY._asdict(), "machine": MACHINE, "kind": kind, "rival": rival}
    return Row(Cell("bench", name, "tiny"), timed | common, 1.0, {})


def some_rows():
    return [
        made_up("ensemble", contestants.REFERENCE, 2.0, 10.0),
        made_up("function:svgd:nngp", contestants.FUNCTION_SPACE, 2.2, 9.0),
        made_up("function:svgd:moment_matched", contestants.FUNCTION_SPACE, 3.0, 7.0),
        made_up("weight:svgd", contestants.WEIGHT_SPACE, 2.5, 8.0),
        made_up("bare:vmap", contestants.BARE, 1.6, 12.0),
        made_up("bare:rows", contestants.BARE, 1.0, 20.0),
        made_up("matmul:1024", contestants.MATMUL, 50.0, 40.0),
        made_up("matmul:2048", contestants.MATMUL, 400.0, 50.0),
        made_up("peer:blackjax", contestants.PEER, 5.0, 4.0, "weight:svgd"),
        Row(
            Cell("bench", "peer:torch-eager", "tiny"),
            {"kind": contestants.PEER, "missing": "not installed: pip install torch==2.13.0", "rival": "x"},
            0.0,
            {},
        ),
    ]


def test_ratios_are_to_the_others_of_the_run():
    found = {line["contestant"]: line for line in tables.table(some_rows())}
    nngp = found["function:svgd:nngp"]
    assert nngp["to_ensemble"] == pytest.approx(1.1)
    assert nngp["to_bare"] == pytest.approx(2.2)
    assert nngp["share"] == pytest.approx(9 / 50)
    assert nngp["to_rival"] is None
    assert found["peer:blackjax"]["to_rival"] == pytest.approx(2.0)
    assert "to_ensemble" not in found["matmul:2048"]


def test_ratios_are_taken_within_a_round():
    slowed = made_up("function:svgd:nngp", contestants.FUNCTION_SPACE, 2.2, 9.0)
    disturbed = [0.002, 0.004, 0.040]  # the second and third round held everyone up
    rows = [
        Row(row.cell, row.metrics | {"samples": [factor * sample for sample in disturbed]}, 0.0, {})
        for row, factor in ((some_rows()[0], 1.0), (slowed, 1.1))
    ]
    assert tables.table(rows)[1]["to_ensemble"] == pytest.approx(1.1)
    rows[1].metrics["samples"].pop()  # sits out the last
    assert tables.table(rows)[1]["to_ensemble"] == pytest.approx(1.1)


def test_growth_is_told_per_network_and_beside_a_single_one():
    rows = [
        Row(
            Cell("bench", row.cell.method, f"boston n={n}"),
            row.metrics | {"setting": TINY._replace(n=n)._asdict(), "median": n**0.5 * row.metrics["median"]},
            0.0,
            {},
        )
        for n in (1, 16)
        for row in some_rows()
        if "median" in row.metrics
    ]
    shown = sweep_summary([*some_rows(), *rows], "n")
    assert [line[:4] for line in shown.lines] == [
        ["boston n=1", "2.2", "2.2", "1.0"],
        ["boston n=16", "8.8", "0.550", "4.0"],
    ]


def test_the_table_names_goals_and_what_is_missing():
    shown = tables.view(some_rows())
    lines = {line[0]: line for line in shown.lines}
    assert lines["function:svgd:nngp"][1:5] == ["2.2", "15", "1.10", "2.20"]
    assert "peer:torch-eager: not installed: pip install torch==2.13.0" in shown.notes
    assert {shown.lines[number][0] for number in shown.bold} == {"ensemble", "bare:rows"}
    assert "function:svgd:nngp takes 1.10 × the ensemble, goal 1.15: met" in shown.notes
    assert "function:svgd:nngp takes 2.20 × the fastest bare pass, goal 1.3: missed by 69 %" in shown.notes
    assert all(len(line) == len(shown.columns) for line in shown.lines)
    json.dumps(shown.records)


def test_figures_come_from_rows(tmp_path):
    rows = some_rows()
    assert all(path.stat().st_size > 5_000 for path in save(figures.comparison(rows), tmp_path / "bench"))
    shapes = {n: {"setting": TINY._replace(n=n)._asdict()} for n in (1, 10)}
    grown = [
        Row(Cell("bench", row.cell.method, f"tiny n={n}"), row.metrics | shape, 0.0, {})
        for n, shape in shapes.items()
        for row in rows
        if "median" in row.metrics
    ]
    assert all(path.stat().st_size > 5_000 for path in save(figures.growth(grown, "n"), tmp_path / "bench-n"))


def test_chosen_by_pattern_with_the_references():
    names = [contestant.name for contestant in choose(["function:*:flat"])]
    assert {"ensemble", "bare:vmap", "matmul:1024", "function:gfsf:flat"} <= set(names)
    assert "weight:svgd" not in names
    with pytest.raises(ValueError, match=r"contestants='nothing\*' matches none of bare:map"):
        choose(["nothing*"])


@pytest.fixture
def small(monkeypatch):
    """The command with a setting, contestants and rounds that take a second."""
    monkeypatch.setitem(SETTINGS, "tiny", TINY)
    monkeypatch.setattr(contestants, "REFERENCES", ("ensemble",))
    monkeypatch.setattr(command, "ROUNDS", {"full": 2, "quick": 1})
    monkeypatch.setattr(command, "single_core_peak", lambda: None)


def test_command_prints_a_table_and_writes_rows_and_figure(small, tmp_path):
    arguments = ("bench", "--settings", "tiny", "--contestants", "weight:ensemble", "--out", tmp_path)
    shown = good(*arguments)
    assert "tiny: 3 networks 3-8-1, 6+4 points" in shown.output
    assert "weight:ensemble" in shown.output
    assert {path.name for path in tmp_path.iterdir()} == {"bench.jsonl", "bench.png", "bench.svg"}
    again = json.loads(good(*arguments, "--json").stdout)["rows"]
    assert again == [asdict(row) for row in Store(tmp_path / "bench.jsonl").rows()]  # in the place of the first


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--settings", "moon"], "settings='moon' is not known; choose one of boston, kin8nm, mnist, mnist-"),
        (["--sweep", "depth"], "sweep='depth' is not known; choose one of batch, n, prior_points, width"),
        (["--contestants", "nobody"], "contestants='nobody' matches none of"),
    ],
)
def test_bad_input_is_one_line(arguments, said, tmp_path):
    assert refusal("bench", *arguments, "--out", tmp_path).startswith(said)
