# SPDX-License-Identifier: Apache-2.0
"""Keep compiled programs for later processes, and forget them before there are too many for one process."""

import os
import sys
from pathlib import Path

from platformdirs import user_cache_path

FULL = 0.5  # share of the memory areas that a process may map; above it programs are forgotten
_kept_areas = [0]  # how many areas were left each time after that: they are not programs
WORTH_KEEPING = 0.2  # seconds to compile; JAX's own limit of one second would leave out half of them
SETTINGS = {
    "JAX_COMPILATION_CACHE_DIR": "jax_compilation_cache_dir",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "jax_persistent_cache_min_compile_time_secs",
}


def keep_programs(folder: str | os.PathLike[str] | None = None) -> Path | None:
    """Keep what JAX compiles from now on in a folder, and find it there in later processes.

    The command ``fpovi`` calls this by itself. Results are the same to the last bit. The folder may be deleted at any
    time.

    Args:
        folder: where programs are kept; by default ``fpovi/programs`` in the user's cache, on Linux ``XDG_CACHE_HOME``
            or else ``~/.cache``. Where ``JAX_COMPILATION_CACHE_DIR`` names a folder, that is the default.

    Returns:
        The folder, or None where there is none to write to.
    """
    named = os.environ.get("JAX_COMPILATION_CACHE_DIR") if folder is None else None
    path = Path(named or folder or user_cache_path("fpovi") / "programs").absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    if not os.access(path, os.W_OK):
        return None
    for (variable, option), value in zip(SETTINGS.items(), (str(path), WORTH_KEEPING), strict=True):
        os.environ[variable] = str(value)  # for JAX when it is imported, here or in a worker
        if "jax" in sys.modules:
            sys.modules["jax"].config.update(option, value)
    return path


def make_room(most: int | None = None) -> bool:
    """Make JAX forget its programs if this process has mapped half as many areas of memory as Linux allows.

    A program maps dozens of them, and once there are ``vm.max_map_count`` the next compilation ends the process: after
    some 50 fits of which each has a network or measurement set of its own, as in a search over them. Estimators call
    this before they fit. All programs of the process are forgotten, also those that are not ours, and compiled again
    when they are needed. Areas that have remained after the last time are not counted.

    Args:
        most: how many areas there may be, by default what the system says.

    Returns:
        Whether programs were forgotten.
    """
    try:
        allowed = int(Path("/proc/sys/vm/max_map_count").read_text()) if most is None else most
        mapped = _mapped()
        if mapped - _kept_areas[-1] < FULL * (allowed - _kept_areas[-1]) or "jax" not in sys.modules:
            return False
        sys.modules["jax"].clear_caches()
        _kept_areas.append(_mapped())
    except OSError:  # this system has no such limit
        return False
    return True


def _mapped() -> int:
    with open("/proc/self/maps", "rb") as areas:
        return sum(1 for _ in areas)
