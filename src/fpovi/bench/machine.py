# SPDX-License-Identifier: Apache-2.0
"""Describe the machine a time was measured on, and measure its peak."""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import jax
import numpy as np

from fpovi.bench.settings import Setting
from fpovi.bench.timing import Run, compile_run
from fpovi.experiments.harness.store import count_cores, cpu_facts

MATMUL_SIZES = (1024, 2048)
BUSY = 0.25  # load average per core above which other work is running
LIBRARIES = ("fpovi", "jax", "jaxlib", "optax", "blackjax", "numpyro", "pyro-ppl", "torch")


def describe_machine() -> dict[str, Any]:
    """Return what a time depends on besides the code: processor, system, load average and versions."""
    return {
        "cpu": cpu_facts().get("model name", platform.machine()),
        "cores": count_cores(),
        "device": jax.devices()[0].device_kind,
        "system": f"{platform.system()} {platform.release()}",
        "load": round(os.getloadavg()[0], 2),
        "versions": {"python": platform.python_version(), **_versions()},
    }


def busy_warning(machine: dict[str, Any]) -> str | None:
    """Return a warning if the load average of :func:`describe_machine` says that other work is running."""
    if machine["load"] <= BUSY * machine["cores"]:
        return None
    return (
        f"the load average was {machine['load']} on {machine['cores']} core(s) before the start: other work is "
        "running, so times are too long and ratios uncertain"
    )


def _versions() -> dict[str, str]:
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def matmul(size: int, setting: Setting | None = None) -> Run:
    """Return a run of products of two square float32 matrices, from which the machine's peak is taken."""
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(size, size)).astype(np.float32) / size**0.5 for _ in range(2))
    return compile_run(lambda i, a, b: a @ b, a, b)


def matmul_flops(size: int) -> int:
    """Return the floating-point operations of one product.

    >>> matmul_flops(2)
    16
    """
    return 2 * size**3


def single_core_peak() -> float | None:
    """Return the GFLOP/s of the best product, measured in a process with one core; None if that cannot be arranged."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    return float(run_alone("machine", what="the matmul peak"))


def run_alone(module: str, *arguments: str, what: str, environment: Mapping[str, str] | None = None) -> Any:
    """Return what a module of the bench prints as JSON, from a process that does nothing else.

    Args:
        module: its name in :mod:`fpovi.bench`.
        arguments: of its command line.
        what: what is measured, for the ``ValueError`` if the process fails.
        environment: variables beside those of this process.
    """
    command = [sys.executable, "-m", f"fpovi.bench.{module}", *arguments]
    environment = {**os.environ, **(environment or {})}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1]
        raise ValueError(f"{what} failed with exit code {done.returncode}: {last}")
    return json.loads(done.stdout)


def _peak(seconds: float = 0.2, samples: int = 5) -> float:
    rates = []
    for size in MATMUL_SIZES:
        run = matmul(size)
        run(1)
        for _ in range(samples):
            started, products = time.perf_counter(), 0
            while time.perf_counter() - started < seconds:
                run(1)
                products += 1
            rates.append(products * matmul_flops(size) / (time.perf_counter() - started) / 1e9)
    return float(np.max(rates))


if __name__ == "__main__":
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before the first product makes threads
    sys.stdout.write(json.dumps(_peak()))
