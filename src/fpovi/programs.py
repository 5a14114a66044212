# SPDX-License-Identifier: Apache-2.0
"""Compiled programs that outlive their process: half of a small fit is spent compiling, and the next need not."""

import os
import sys
from pathlib import Path

WORTH_KEEPING = 0.2  # seconds to compile; JAX's own limit of one second would leave out half of them
SETTINGS = {
    "JAX_COMPILATION_CACHE_DIR": "jax_compilation_cache_dir",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "jax_persistent_cache_min_compile_time_secs",
}


def keep_programs(folder: str | os.PathLike[str] | None = None) -> Path | None:
    """Keep what JAX compiles from now on in ``folder``, and find it there in later processes.

    The command ``fpovi`` does so by itself. Results are the same to the last bit. A folder may be deleted at any time.

    Args:
        folder: by default ``fpovi/programs`` in the user's cache (``XDG_CACHE_HOME``, else ``~/.cache``). It is left
            alone where ``JAX_COMPILATION_CACHE_DIR`` names another.

    Returns:
        The folder, or None where there is none to write to.
    """
    named = os.environ.get("JAX_COMPILATION_CACHE_DIR") if folder is None else None
    path = Path(named or folder or _of_user()).absolute()
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


def _of_user() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "fpovi" / "programs"
