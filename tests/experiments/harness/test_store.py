# SPDX-License-Identifier: Apache-2.0
"""Rows survive kills and concurrent writers, and nothing is computed twice."""

import fcntl
import math
import os
import signal
import subprocess
import sys
import time
from threading import Thread

import pytest

from fpovi.experiments.harness.store import VERSIONED, Cell, Row, Store, revision_of, versions
from fpovi.experiments.harness.sweep import sweep

VERSIONS = {"fpovi": "0"}


def row(method, **metrics):
    return Row(Cell("toy", method), metrics, 0.5, VERSIONS)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "deep" / "results.jsonl")


def test_a_file_that_is_not_there_has_no_rows(store):
    assert store.rows() == []


def test_rows_come_back_as_they_were(store):
    metrics = {"rmse": 0.1 + 0.2, "curve": [1, 2.5], "é": None}
    rows = [Row(Cell("toy", "svgd", "yacht", 3, 7, "paper"), metrics, 1.5, VERSIONS), row("ensemble", rmse=1e-300)]
    for one in rows:
        store.append(one)
    assert store.rows() == rows


def test_a_result_that_is_not_finite_comes_back_too(store):
    store.append(row("svgd", rmse=math.nan, nll=math.inf))
    (back,) = store.rows()
    assert math.isnan(back.metrics["rmse"])
    assert back.metrics["nll"] == math.inf


def test_rows_with_the_former_name_of_the_kind_of_splits_still_load(store):
    store.append(Row(Cell("toy", "svgd", split_kind="random"), {}, 0.5, VERSIONS))
    line = store.path.read_bytes()
    store.path.write_bytes(line.replace(b'"split_kind"', b'"draw"'))
    store.append(row("gfsf"))
    assert store.rows() == [Row(Cell("toy", "svgd", split_kind="random"), {}, 0.5, VERSIONS), row("gfsf")]


def test_a_checkpoint_has_a_folder_and_goes_when_its_row_is_there(store):
    one, other = (store.checkpoint(Cell("toy", name)) for name in ("svgd", "gfsf"))
    one.write_text("so far")
    other.write_text("so far")
    store.append(row("svgd"))
    assert not one.exists()
    assert other.exists()


@pytest.mark.parametrize("cut", [1, 20, -2])
def test_a_line_that_a_kill_cut_short_does_not_count(store, cut):
    store.append(row("svgd"))
    whole = store.path.read_bytes()
    store.path.write_bytes(whole + whole[:cut])
    assert store.rows() == [row("svgd")]


def test_the_next_append_removes_a_cut_line(store):
    store.append(row("svgd"))
    whole = store.path.read_bytes()
    store.path.write_bytes(whole + whole[:20])
    store.append(row("gfsf"))
    assert store.rows() == [row("svgd"), row("gfsf")]
    assert store.path.read_bytes().startswith(whole)
    assert store.path.read_bytes().count(b"\n") == 2


def test_a_file_that_holds_only_a_cut_line_starts_afresh(store):
    store.path.parent.mkdir()
    store.path.write_bytes(b'{"cell": {"exper')
    store.append(row("svgd"))
    assert store.rows() == [row("svgd")]


def test_append_waits_for_another_writer(store):
    """Else it might take the other's half-written line for one that a kill cut short, and remove it."""
    store.append(row("svgd"))
    whole = store.path.read_bytes()
    with open(store.path, "ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        other.write(whole[:20])
        other.flush()
        waiting = Thread(target=store.append, args=(row("gfsf"),))
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
        other.write(whole[20:])
    waiting.join(10)
    assert store.rows() == [row("svgd"), row("svgd"), row("gfsf")]


@pytest.mark.parametrize(
    "broken",
    [
        b"{cut short",
        b"5",
        b"null",
        b"{}",
        b'{"cell": {"colour": "red"}, "metrics": {}, "seconds": 1, "versions": {}}',
        b"\xff\xfe",
    ],
)
def test_a_broken_line_in_the_middle_is_named(store, broken):
    store.append(row("svgd"))
    with open(store.path, "ab") as file:
        file.write(broken + b"\n")
    store.append(row("gfsf"))
    with pytest.raises(ValueError, match=r"results\.jsonl, line 2 is not a result row \(.*\): repair or delete it"):
        store.rows()


CELLS = [Cell("toy", "svgd", seed=seed) for seed in range(4)]


def test_drop_forgets_only_the_cells_named(store):
    for method in ("svgd", "gfsf", "ensemble"):
        store.append(row(method))
    store.drop([row("gfsf").cell, row("unknown").cell])
    assert [one.cell.method for one in store.rows()] == ["svgd", "ensemble"]
    assert [path.name for path in store.path.parent.iterdir()] == [store.path.name]


def test_sweep_runs_only_what_is_missing(store):
    ran = []

    def run_cell(cell):
        ran.append(cell)
        return {"seed": cell.seed}

    first = sweep(CELLS[1:3], run_cell, store)
    again = sweep(CELLS, run_cell, store)
    assert ran == [CELLS[1], CELLS[2], CELLS[0], CELLS[3]]
    assert [one.cell for one in again] == CELLS
    assert [one.metrics["seed"] for one in again] == [0, 1, 2, 3]
    assert again[1:3] == first
    assert sorted(store.rows(), key=lambda one: one.cell.seed) == again


def test_a_cell_that_is_listed_twice_runs_once(store):
    ran = []
    rows = sweep([CELLS[0], CELLS[0]], lambda cell: {"run": ran.append(cell)}, store)
    assert len(ran) == len(store.rows()) == 1
    assert rows[0] == rows[1]


def test_each_cell_is_saved_as_it_finishes(store):
    def fail_at_the_third(cell):
        assert len(store.rows()) == cell.seed  # what came before is on disk
        if cell.seed == 2:
            raise KeyboardInterrupt
        return {}

    with pytest.raises(KeyboardInterrupt):
        sweep(CELLS, fail_at_the_third, store)
    assert [one.cell for one in store.rows()] == CELLS[:2]


def test_every_row_is_shown_old_or_new(store):
    sweep(CELLS[:2], lambda cell: {}, store)
    shown = []
    rows = sweep(CELLS, lambda cell: {}, store, on_row=shown.append)
    assert shown == rows


def test_rows_say_how_long_they_took_and_with_what(store):
    (one,) = sweep(CELLS[:1], lambda cell: time.sleep(0.02) or {}, store)
    assert 0.02 <= one.seconds < 10
    assert one.versions == versions()
    assert {"python", "fpovi", "jax", "numpy"} <= set(one.versions)


@pytest.fixture
def repository(tmp_path):
    """A package and a file beside it, both committed."""

    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false"]
        done = subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (tmp_path / "rows.jsonl").write_text("")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    return package, git("rev-parse", "HEAD")[:12]


def test_a_revision_is_dirty_only_by_files_of_the_package(repository):
    package, head = repository
    (package.parent / "rows.jsonl").write_text("a row of a sweep")
    assert revision_of(package) == head
    (package / "__init__.py").write_text("changed = True")
    assert revision_of(package) == f"{head}-dirty"


def test_a_new_file_in_the_package_is_dirty_too(repository):
    package, head = repository
    (package / "module.py").write_text("")
    assert revision_of(package) == f"{head}-dirty"


def test_a_package_installed_inside_another_repository_has_no_revision(repository):
    installed = repository[0].parent / "site-packages" / "fpovi"
    installed.mkdir(parents=True)
    (installed / "__init__.py").write_text("")
    assert revision_of(installed) is None


def test_without_git_there_is_no_revision(repository, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert revision_of(repository[0]) is None


def test_versions_name_the_code_and_are_asked_for_once(monkeypatch):
    first = versions()
    assert set(first) - {"revision"} == {"python", *VERSIONED, "processor", "cores"}
    assert all(isinstance(value, str) and value for value in first.values())
    first["jax"] = "changed by a caller"
    monkeypatch.setattr(subprocess, "run", lambda *args, **options: pytest.fail("git was asked again"))
    assert versions()["jax"] != "changed by a caller"


# Another process; it says on its output what it does, so that a test knows when to interfere.
SWEEP = """
import sys, time
from pathlib import Path
from fpovi.experiments.harness.store import Cell, Store
from fpovi.experiments.harness.sweep import sweep

def run_cell(cell):
    print("run", cell.seed, flush=True)
    if cell.seed == int(sys.argv[2]):
        time.sleep(60)
    return {"seed": cell.seed}

sweep([Cell("toy", "svgd", seed=seed) for seed in range(4)], run_cell, Store(Path(sys.argv[1])))
"""

APPEND = """
import sys
from pathlib import Path
from fpovi.experiments.harness.store import Cell, Row, Store

store, writer = Store(Path(sys.argv[1])), sys.argv[2]
print("ready", flush=True)
sys.stdin.readline()
for seed in range(100):
    store.append(Row(Cell("toy", writer, seed=seed), {"padding": writer * 5000}, 0.0, {}))
"""


def start(script, *args):
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )


def test_a_killed_sweep_goes_on_where_it_was(store):
    with start(SWEEP, store.path, 2) as killed:
        assert [killed.stdout.readline() for _ in range(3)] == ["run 0\n", "run 1\n", "run 2\n"]
        killed.send_signal(signal.SIGKILL)
    assert killed.returncode == -signal.SIGKILL
    assert [one.cell.seed for one in store.rows()] == [0, 1]
    with start(SWEEP, store.path, -1) as resumed:
        ran, _ = resumed.communicate(timeout=60)
    assert resumed.returncode == 0
    assert ran == "run 2\nrun 3\n"
    assert [one.metrics["seed"] for one in store.rows()] == [0, 1, 2, 3]


def test_two_writers_lose_nothing(store):
    with start(APPEND, store.path, "a") as a, start(APPEND, store.path, "b") as b:
        for writer in (a, b):
            assert writer.stdout.readline() == "ready\n"
        for writer in (a, b):
            writer.stdin.write("go\n")
            writer.stdin.flush()
        for writer in (a, b):
            writer.communicate(timeout=60)
            assert writer.returncode == 0
    cells = [one.cell for one in store.rows()]
    assert len(cells) == 200
    for method in "ab":
        assert [cell.seed for cell in cells if cell.method == method] == list(range(100))
