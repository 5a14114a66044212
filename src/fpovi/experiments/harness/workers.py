# SPDX-License-Identifier: Apache-2.0
"""Processes that work through a list, by joblib: on this machine (loky) or on a cluster (Ray)."""

import fcntl
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky import get_reusable_executor
from joblib.externals.loky.process_executor import BrokenProcessPool

from fpovi._fast.compile_cache import keep_programs

A = TypeVar("A")
B = TypeVar("B")
Stream = Callable[[Callable[[A], B], Iterable[A], int], Iterator[B]]

SECONDS_BETWEEN_LOOKS = 0.5
# Each worker has one core, where more threads would only wait for one another.
ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


class WorkerDiedError(OSError):
    """Raised when a worker process was killed or crashed."""


def on_this_machine(function: Callable[[A], B], items: Iterable[A], jobs: int) -> Iterator[B]:
    """Yield ``function(item)`` for every item as it finishes, from processes that are each pinned to a core.

    Items are taken one by one as processes become free. The processes end with this iterator, and also when this
    process is killed.

    Args:
        function: what to call; pickled by cloudpickle.
        items: its arguments.
        jobs: how many processes, 2 or more.
    """
    with tempfile.TemporaryDirectory(prefix="fpovi-workers-") as folder:
        options = {"initializer": become_worker, "initargs": (os.getpid(), folder, _cores())}
        try:
            with parallel_config("loky", inner_max_num_threads=1, **options):
                yield from _stream(function, items, jobs)
        except BrokenProcessPool as error:
            raise WorkerDiedError(
                "a worker process was killed or crashed (out of memory?); what was finished is kept, run the same again"
            ) from error
        finally:
            get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=True)


def on_ray(function: Callable[[A], B], items: Iterable[A], jobs: int) -> Iterator[B]:
    """Yield the same from a Ray cluster: the one that RAY_ADDRESS names, else a local one. Ray places the processes.

    Args:
        function: what to call; pickled by cloudpickle.
        items: its arguments.
        jobs: how many processes.
    """
    try:
        import ray
        from ray.util.joblib.ray_backend import RayBackend
    except ImportError as error:
        raise ValueError("backend='ray' needs Ray, which is not installed: pip install 'fpovi[ray]'") from error
    from joblib import register_parallel_backend

    class Streaming(RayBackend):
        """Ray's backend, with results one by one: it calls back with each, but does not say so to joblib."""

        supports_return_generator = True

    register_parallel_backend("fpovi-ray", Streaming)
    ours = not ray.is_initialized()
    if ours:
        address = os.environ.get("RAY_ADDRESS")
        ray.init(address, log_to_driver=False, logging_level="error", **({} if address else {"num_cpus": jobs}))
    try:
        with parallel_config("fpovi-ray"):
            yield from _stream(function, items, jobs)
    finally:
        if ours:
            ray.shutdown()


BACKENDS: dict[str, Stream[Any, Any]] = {"loky": on_this_machine, "ray": on_ray}


def _stream(function: Callable[[A], B], items: Iterable[A], jobs: int) -> Iterator[B]:
    # dispatched singly and not ahead of time: what has been taken from ``items`` is running
    pool = Parallel(n_jobs=jobs, return_as="generator_unordered", pre_dispatch=jobs, batch_size=1)
    yield from pool(delayed(function)(item) for item in items)


def become_worker(parent: int, folder: str, cores: list[int]) -> None:
    """Prepare a new process before it imports JAX: one core, one thread, no Ctrl-C, and an end with ``parent``."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it too, and ends us
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {ONE_THREAD}".strip()
    if cores:
        os.sched_setaffinity(0, {_claim_core(folder, cores)})
    _share_programs(os.path.join(folder, "programs"))
    threading.Thread(target=_exit_with, args=(parent,), daemon=True).start()


def _share_programs(folder: str) -> None:
    """Let workers share compiled programs: cells of an experiment often differ only in their data."""
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:  # else they do already
        keep_programs(folder)


def _exit_with(parent: int) -> None:
    """End this process, whatever it does, once its parent is gone and nobody is left to take the result."""
    while os.getppid() == parent:
        time.sleep(SECONDS_BETWEEN_LOOKS)
    os._exit(1)


def _cores() -> list[int]:
    """Return the cores this process may use, none where the system does not let us choose among them."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else []


def _claim_core(folder: str, cores: list[int]) -> int:
    """Return a core that no other worker of this folder has, if there are enough.

    A worker holds a lock on a file for its core. The system lifts it when the worker dies, so its successor gets it.
    """
    number = 0
    while True:
        handle = os.open(os.path.join(folder, str(number)), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return cores[number % len(cores)]  # the handle stays open, and the lock ours, as long as we live
        except BlockingIOError:
            os.close(handle)
            number += 1
