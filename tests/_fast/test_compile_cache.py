# SPDX-License-Identifier: Apache-2.0
"""Programs are kept where they should be, found by the next process, and nothing is lost without a folder."""

import os
import subprocess
import sys

import pytest

COMPILE = """
import sys
import fpovi, fpovi._fast.compile_cache
fpovi._fast.compile_cache.WORTH_KEEPING = 0.0  # however fast the machine is
kept = fpovi.keep_programs(*sys.argv[1:])
import jax, jax.numpy as jnp
program = jax.jit(lambda x: sum(jnp.linalg.cholesky(jnp.eye(9) + x * i) @ jnp.sin(i * x) for i in range(9)).sum())
print(kept, float(program(jnp.ones((9, 9)))))
"""


def compile_in_new_process(*arguments, **environment):
    clean = {name: value for name, value in os.environ.items() if "CACHE" not in name}
    done = subprocess.run(
        [sys.executable, "-c", COMPILE, *map(str, arguments)], capture_output=True, text=True, check=True,
        env={**clean, "JAX_PLATFORMS": "cpu", **{name: str(value) for name, value in environment.items()}},
    )  # fmt: skip
    kept, _, value = done.stdout.strip().rpartition(" ")
    return kept, value


def programs(folder):
    return sorted(path.name for path in folder.rglob("*-cache"))


def test_the_next_process_finds_them(tmp_path):
    folder = tmp_path / "here"
    kept, value = compile_in_new_process(folder)
    assert kept == str(folder)
    first = programs(folder)
    assert first
    assert compile_in_new_process(folder) == (kept, value)
    assert programs(folder) == first


def test_by_default_in_the_users_cache(tmp_path):
    kept, _ = compile_in_new_process(XDG_CACHE_HOME=tmp_path)
    assert kept == str(tmp_path / "fpovi" / "programs")
    assert programs(tmp_path)


def test_another_choice_of_folder_is_respected(tmp_path):
    kept, _ = compile_in_new_process(XDG_CACHE_HOME=tmp_path / "a", JAX_COMPILATION_CACHE_DIR=tmp_path / "b")
    assert kept == str(tmp_path / "b")
    assert not (tmp_path / "a").exists()


def test_without_a_folder_to_write_to_nothing_is_kept_and_all_goes_on(tmp_path):
    (tmp_path / "file").write_text("")
    kept, value = compile_in_new_process(XDG_CACHE_HOME=tmp_path / "file")
    assert kept == "None"
    assert float(value) == pytest.approx(float(compile_in_new_process(tmp_path / "other")[1]))


def test_the_command_keeps_its_programs(tmp_path):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "JAX_PLATFORMS": "cpu"}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    subprocess.run([sys.executable, "-m", "fpovi", "--help"], check=True, capture_output=True, env=environment)
    assert (tmp_path / "fpovi" / "programs").is_dir()


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="only Linux counts areas of memory")
def test_programs_are_forgotten_before_there_are_too_many():
    """In a new process, as what other tests have compiled would go too."""
    code = """
import jax, jax.numpy as jnp
from fpovi._fast.compile_cache import make_room
areas = lambda: sum(1 for _ in open("/proc/self/maps"))
program = jax.jit(lambda x: jnp.linalg.cholesky(x @ x.T + jnp.eye(9)).sum())
value = program(jnp.ones((9, 9)))
for i in range(20):
    jax.jit(lambda x: jnp.linalg.cholesky(x + i * jnp.eye(9)).sum())(jnp.eye(9))
before = areas()
assert not make_room() and not make_room(most=3 * before)
assert make_room(most=before)
left = areas()
assert left < before - 20, (before, left)
assert not make_room(most=left + 200)  # what is left is not ours, and does not count
assert program(jnp.ones((9, 9))) == value
"""
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "JAX_PLATFORMS": "cpu"})
