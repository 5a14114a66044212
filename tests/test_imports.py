# SPDX-License-Identifier: Apache-2.0
"""What is imported when: nothing heavy before it is needed, and everything when it is asked for."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import fpovi
from fpovi.cli import COMMANDS, _load

HEAVY = {"jax", "matplotlib", "pandas", "scipy", "sklearn"}


def loaded_by(code: str) -> set[str]:
    """The top-level modules of a fresh process after ``code``."""
    told = f"{code}\nimport sys; print('loaded', *{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_the_package_alone_imports_nothing_heavy():
    assert not loaded_by("import fpovi; dir(fpovi); fpovi.__version__") & HEAVY


def test_the_parts_do_without_tables_and_estimators():
    assert not loaded_by("import fpovi; fpovi.flows, fpovi.priors, fpovi.run") & {"matplotlib", "pandas", "sklearn"}


@pytest.mark.parametrize(
    ("arguments", "but"), [("['--help']", HEAVY), ("['show', 'nothing']", {"matplotlib", "sklearn"})]
)
def test_commands_import_what_they_need(arguments, but):
    assert not loaded_by(f"from fpovi.cli import app\ntry: app({arguments})\nexcept SystemExit: pass") & but


def test_every_public_name_is_what_type_checkers_take_it_for():
    stub = ast.parse(Path(fpovi.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    homes = {alias.asname: (node.module, alias.name) for node in imports for alias in node.names}
    assert all(node.level == 1 for node in imports)
    assert all(name == original for name, (_, original) in homes.items())  # renamed, it would not be public
    assert {*homes, "__version__"} == set(fpovi.__all__) <= set(dir(fpovi))
    for name, (home, _) in homes.items():
        namespace: dict[str, object] = {}
        exec(f"from fpovi{'.' + home if home else ''} import {name}", namespace)
        assert getattr(fpovi, name) is namespace[name], name


def test_an_unknown_name_is_told_as_python_does():
    with pytest.raises(AttributeError, match="module 'fpovi' has no attribute 'BNNRegresor'"):
        fpovi.BNNRegresor  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        from fpovi import nothing  # noqa: F401


@pytest.mark.parametrize("name", COMMANDS)
def test_help_tells_of_commands_what_they_tell_themselves(name):
    assert _load(name).help.split("\n\n")[0].replace("\n", " ") == COMMANDS[name][1]
