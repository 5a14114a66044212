# SPDX-License-Identifier: Apache-2.0
"""Several processes do what one would: each cell once, each row saved by the parent, and nothing left behind."""

import importlib.util
import io
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import cloudpickle
import jax
import pytest
from rich.console import Console

from fpovi.cli.progress import CellProgress
from fpovi.experiments.harness.experiment import Options
from fpovi.experiments.harness.store import Cell, Row, Store
from fpovi.experiments.harness.sweep import CellsFailedError, sweep
from fpovi.experiments.harness.workers import WorkerDiedError
from fpovi.experiments.registry import EXPERIMENTS
from fpovi.types import DivergedError

CELLS = [Cell("toy", "svgd", seed=seed) for seed in range(4)]
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import a file of tests


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results.jsonl")


def diverge_at_two(cell):
    if cell.seed == 2:
        raise DivergedError(7, {"theta": lambda: "not picklable"}, "lower the rate")
    return {"seed": cell.seed}


def test_a_cell_that_fails_does_not_stop_the_others(store):
    failed = []
    with pytest.raises(CellsFailedError) as error:
        sweep(CELLS, diverge_at_two, store, on_failure=lambda cell, reason: failed.append(cell))
    assert str(error.value) == (
        "1 of 4 cells failed, the others are saved; the first was svgd, split 0, seed 2: "
        "DivergedError: the run diverged at step 7: lower the rate"
    )
    assert failed == [CELLS[2]]
    assert [row.cell.seed for row in store.rows()] == [0, 1, 3]


def test_an_error_in_the_program_stops_at_once(store):
    with pytest.raises(TypeError):
        sweep(CELLS, lambda cell: {"seed": cell.seed + None}, store)
    assert store.rows() == []


def test_what_a_cell_needs_runs_before_it(store):
    needs = {CELLS[0]: [CELLS[3]], CELLS[1]: [CELLS[0]]}
    order = []
    rows = sweep(
        CELLS, lambda cell: {}, store, on_start=lambda cell: order.append(cell.seed), needs=lambda c: needs.get(c, [])
    )
    assert order == [2, 3, 0, 1]
    assert [row.cell for row in rows] == CELLS


def test_what_needs_a_failed_cell_does_not_run(store):
    with pytest.raises(CellsFailedError, match=r"2 of 4 cells failed"):
        sweep(CELLS, diverge_at_two, store, needs=lambda cell: [CELLS[2]] if cell.seed == 3 else [])
    assert [row.cell.seed for row in store.rows()] == [0, 1]


def test_needs_that_go_in_a_circle_are_an_error(store):
    with pytest.raises(ValueError, match="needs goes in a circle among 4 cells"):
        sweep(CELLS, lambda cell: {}, store, needs=lambda cell: [CELLS[(cell.seed + 1) % 4]])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"jobs": 0}, "jobs=0 must be at least 1"),
        ({"backend": "dask"}, "backend='dask' is not known; choose one of loky, ray"),
    ],
)
def test_options_are_checked_before_anything_runs(store, options, said):
    with pytest.raises(ValueError, match=said):
        sweep(CELLS, lambda cell: pytest.fail("ran"), store, **options)


def test_the_reference_of_synthetic_runs_first():
    experiment = EXPERIMENTS["synthetic"]
    nuts, *others = experiment.cells(Options())
    assert experiment.needs(nuts) == ()
    assert all(experiment.needs(cell) == (nuts,) for cell in others)


def where_am_i(cell):
    """Long enough that the other worker has to take its share."""
    time.sleep(0.5)
    if cell.seed == 2:
        raise DivergedError(7, {"theta": lambda: "not picklable"}, "lower the rate")
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return {
        "process": os.getpid(), "parent": os.getppid(), "cores": cores, "flags": os.environ["XLA_FLAGS"],
        "programs": jax.config.jax_compilation_cache_dir,
    }  # fmt: skip


def test_processes_share_the_work_one_on_each_core(store, monkeypatch):
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    cells = [Cell("toy", "svgd", seed=seed) for seed in range(6)]
    started, shown = [], []
    with pytest.raises(CellsFailedError, match="1 of 6"):
        sweep(
            cells, where_am_i, store, shown.append, on_start=lambda cell: started.append(cell.seed),
            length=lambda cell: cell.seed == 4, jobs=2,
        )  # fmt: skip
    rows = store.rows()
    assert started == [4, 0, 1, 2, 3, 5]
    assert sorted(row.cell.seed for row in rows) == [0, 1, 3, 4, 5]
    assert shown == rows
    processes = {row.metrics["process"]: row.metrics["cores"] for row in rows}
    assert len(processes) == 2
    assert {row.metrics["parent"] for row in rows} == {os.getpid()}
    assert all("intra_op_parallelism_threads=1" in row.metrics["flags"] for row in rows)
    [shared] = {row.metrics["programs"] for row in rows}
    assert shared is not None
    assert not os.path.exists(shared)  # gone with the sweep
    if hasattr(os, "sched_getaffinity"):
        cores = sorted(core for claimed in processes.values() for core in claimed)
        allowed = sorted(os.sched_getaffinity(0))
        assert len(cores) == 2
        assert set(cores) == set(allowed[:2])  # both the same where there is only one
    assert not any(is_alive(process) for process in processes)


def is_alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def die_at_three(path, cell):
    """As soon as what the others have done is on disk."""
    if cell.seed == 3:
        while len(Store(path).rows()) < 3:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    return {"seed": cell.seed}


@pytest.mark.slow
def test_a_killed_worker_loses_only_what_ran(store):
    with pytest.raises(WorkerDiedError, match=r"a worker process was killed .* run the same again"):
        sweep(CELLS, partial(die_at_three, store.path), store, jobs=2)
    assert sorted(row.cell.seed for row in store.rows()) == [0, 1, 2]
    ran = []
    sweep(CELLS, lambda cell: {"run": ran.append(cell.seed)}, store)
    assert ran == [3]


# Another process with workers; cells from the fourth on never end. Each says who runs it.
SWEEP = """
import os, signal, sys, time
from pathlib import Path
from fpovi.experiments.harness.store import Cell, Store
from fpovi.experiments.harness.sweep import sweep

signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background inherits deafness

def run_cell(cell):
    os.write(1, f"run {cell.seed} {os.getpid()}\\n".encode())  # at once: print's pieces may mix with the other worker's
    if cell.seed >= 3:
        time.sleep(600)
    return {"seed": cell.seed}

cells = [Cell("toy", "svgd", seed=seed) for seed in range(6)]
sweep(cells, run_cell, Store(Path(sys.argv[1])), jobs=2)
"""


def start_and_stop(store, stop):
    """Run SWEEP until both its workers are in cells without end, then call ``stop(process)``; the workers' ids."""
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    with subprocess.Popen(
        [sys.executable, "-c", SWEEP, store.path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            lines = [process.stdout.readline().split() for _ in range(5)]
            assert sorted(int(line[1]) for line in lines) == [0, 1, 2, 3, 4]
            while len(store.rows()) < 3:
                time.sleep(0.01)
            stop(process)
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()  # else a failure here would wait for cells without end
    return {int(line[2]) for line in lines}, process.returncode, errors


def assert_all_gone(workers):
    limit = time.monotonic() + 20
    while any(is_alive(worker) for worker in workers):
        assert time.monotonic() < limit, "workers were left behind"
        time.sleep(0.05)


def test_a_killed_sweep_leaves_no_workers_and_the_next_does_what_is_missing(store):
    workers, code, _ = start_and_stop(store, lambda process: process.kill())
    assert code == -signal.SIGKILL
    assert_all_gone(workers)
    assert sorted(row.cell.seed for row in store.rows()) == [0, 1, 2]
    ran = []
    rows = sweep(
        [replace(CELLS[0], seed=seed) for seed in range(6)], lambda cell: {"run": ran.append(cell.seed)}, store
    )
    assert ran == [3, 4, 5]
    assert [row.cell.seed for row in rows] == list(range(6))


@pytest.mark.slow
def test_ctrl_c_ends_the_workers_at_once(store):
    """As a terminal does it: the whole group of processes hears it."""
    workers, code, errors = start_and_stop(store, lambda process: os.killpg(process.pid, signal.SIGINT))
    assert code == -signal.SIGINT
    assert errors.count("Traceback") == 1  # the parent's own
    assert_all_gone(workers)
    assert sorted(row.cell.seed for row in store.rows()) == [0, 1, 2]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed: pip install 'fpovi[ray]'")
def test_a_local_ray_cluster_does_the_same(store):
    """In a process of its own, as Ray leaves threads and warnings behind."""
    script = SWEEP.replace("cell.seed >= 3", "False").replace("jobs=2", 'jobs=2, backend="ray"')
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[3] / "src"), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-c", script, store.path], capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "PYTHONPATH": path, "RAY_USAGE_STATS_ENABLED": "0"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sorted(row.cell.seed for row in store.rows()) == list(range(6))


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="ray is installed")
def test_without_ray_the_backend_says_how_to_get_it(store):
    with pytest.raises(
        ValueError, match=r"backend='ray' needs Ray, which is not installed: pip install 'fpovi\[ray\]'"
    ):
        sweep(CELLS, diverge_at_two, store, jobs=2, backend="ray")


def test_time_left_goes_by_what_this_run_has_done(monkeypatch):
    now = iter([0.0, 100.0, 700.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    progress = CellProgress(5, lambda cell: cell.method, quiet=True)
    row = lambda cell: Row(cell, {}, 0.0, {})  # noqa: E731
    progress.finished(row(CELLS[0]))  # found
    assert progress.time_left() == ""
    progress.started(CELLS[1])
    progress.finished(row(CELLS[1]))
    progress.started(CELLS[2])
    assert progress.time_left() == "about 35 minutes left"


def test_the_live_table_has_means_of_what_is_done():
    console = Console(width=80, record=True, file=io.StringIO())
    progress = CellProgress(5, lambda cell: cell.method, quiet=True)
    for split, nll in enumerate((1.0, 2.0)):
        cell = Cell("uci", "f-svgd", "yacht", split)
        progress.started(cell)
        progress.finished(Row(cell, {"nll": nll, "way": "evidence", "curve": [1.0]}, 3.0, {}))
    progress.finished(Row(Cell("uci", "gp", "yacht"), {"rmse": 0.5}, 4.0, {}))
    console.print(progress)
    bar, head, _, *lines = [line.split() for line in console.export_text().splitlines() if line.strip()]
    assert {"all", "3/5"} <= set(bar)
    assert head == ["set", "method", "done", "nll", "rmse", "s"]
    assert lines == [["yacht", "f-svgd", "2", "1.5", "3"], ["yacht", "gp", "1", "0.5", "4"]]
