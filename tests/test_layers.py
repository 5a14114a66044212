# SPDX-License-Identifier: Apache-2.0
"""Imports go down only: the package is a house of floors, and no module calls on one above it."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = "fpovi"
ROOT = Path(__file__).parents[1] / "src" / PACKAGE

# Top to bottom. A room is a module or a package directly under fpovi.
FLOORS = [
    {"cli"},
    {"experiments", "bench"},
    {"baselines", "datasets"},
    {"estimators"},
    {"selection", "export"},
    {"fitting"},
    {"tabular", "persistence", "calibration", "plots", "diagnostics", "_progress"},
    {"inference", "predictive"},
    {"flows", "kernels", "measurement", "networks", "priors", "likelihoods"},
    {"_fast", "_float64"},
    {"types"},
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
ENGINES, PARTS = FLOOR["inference"], FLOOR["flows"]
ROOF = {PACKAGE, f"{PACKAGE}.__main__"}  # may import anything, and nothing imports it
NOT_IN_PURE_JAX = {"pandas", "sklearn", "typer", "rich", "matplotlib", "scipy", "blackjax"}


def room(module: str) -> str:
    return module.split(".")[1]


def module_name(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join((PACKAGE, *parts)).removesuffix(".__init__")


def imported_names(module: str, path: Path) -> Iterator[str]:
    """The dotted names that a module imports, anywhere in it, relative ones made absolute."""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{source}.{alias.name}" for alias in node.names)


def read_imports(root: Path) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """For each module: the modules of this package it imports, and the libraries."""
    paths = {module_name(path, root): path for path in sorted(root.rglob("*.py"))}
    inside: dict[str, set[str]] = {module: set() for module in paths}
    outside: dict[str, set[str]] = {module: set() for module in paths}
    for module, path in paths.items():
        for name in imported_names(module, path):
            if name.split(".")[0] != PACKAGE:
                outside[module].add(name.split(".")[0])
                continue
            while name not in paths and "." in name:  # a function or class: the module that has it
                name = name.rpartition(".")[0]
            inside[module].add(name)
    return inside, outside


def direction_faults(inside: dict[str, set[str]]) -> Iterator[str]:
    for module, targets in inside.items():
        for target in sorted(targets):
            if target in ROOF:
                yield f"{module} imports {target}, the roof: import from the module that defines the name instead"
            elif room(target) not in FLOOR or room(target) == room(module):
                continue
            elif FLOOR[room(target)] < FLOOR[room(module)]:
                yield (
                    f"{module} imports {target} from a floor above: move what it needs to a lower floor, "
                    "or let the caller pass it in"
                )
            elif FLOOR[room(target)] == FLOOR[room(module)] == PARTS:
                yield (
                    f"{module} imports {target}, but parts do not know each other: join them in an engine, "
                    "or move what both need below the parts"
                )


def cycle_faults(inside: dict[str, set[str]]) -> Iterator[str]:
    """Circles among the modules of one room, then among the rooms of one floor."""
    siblings: dict[str, set[str]] = {}
    neighbours: dict[str, set[str]] = {}
    for module, targets in inside.items():
        targets = targets - ROOF - {module}
        siblings[module] = {target for target in targets if room(target) == room(module)}
        same_floor = {room(t) for t in targets if FLOOR.get(room(t)) == FLOOR[room(module)]}
        neighbours.setdefault(room(module), set()).update(same_floor - {room(module)})
    for graph in (siblings, neighbours):
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            circle = " -> ".join(reversed(error.args[1]))  # graphlib puts the imported before its importer
            yield f"imports go in a circle, {circle}: move what both ends need into a module of its own"


def library_faults(outside: dict[str, set[str]]) -> Iterator[str]:
    for module, libraries in outside.items():
        if FLOOR[room(module)] >= ENGINES:
            for library in sorted(libraries & NOT_IN_PURE_JAX):
                yield f"{module} imports {library}, but parts and engines are pure JAX: do it on a floor above"


def faults(root: Path) -> list[str]:
    """Everything in the package under root that breaks the layers, one sentence each."""
    inside, outside = read_imports(root)
    modules = inside.keys() - ROOF
    housed = sorted(module for module in modules if room(module) in FLOOR)
    homeless = sorted({room(module) for module in modules} - FLOOR.keys())
    return [
        *(f"{PACKAGE}.{name} is on no floor: give it one in FLOORS" for name in homeless),
        *direction_faults({module: inside[module] for module in housed}),
        *cycle_faults({module: inside[module] for module in housed}),
        *library_faults({module: outside[module] for module in housed}),
    ]


def test_imports_go_down_only():
    assert (ROOT / "__init__.py").exists()
    found = faults(ROOT)
    assert not found, "\n" + "\n".join(found)


def build(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


SOUND = {
    "__init__.py": "from fpovi.estimators import BNNRegressor\n__version__ = '0'\n",
    "__main__.py": "from fpovi.cli import app\n",
    "cli/__init__.py": "import typer\nfrom .demo import demo\n",
    "cli/demo.py": "from fpovi.experiments import run\n",
    "experiments/__init__.py": "from . import store\n",
    "experiments/store.py": "import pandas\n",
    "estimators.py": "from fpovi import inference, flows\nfrom fpovi.priors import nngp\n",
    "inference.py": "from fpovi.flows import svgd\nfrom fpovi.predictive import mean\n",
    "predictive.py": "from jax.scipy.special import logsumexp\n",
    "flows.py": "import jax\nimport fpovi.types\n",
    "priors/__init__.py": "from fpovi.priors.nngp import nngp\n",
    "priors/nngp.py": "from .covariance import recursion\nfrom ..types import Array\n",
    "priors/covariance.py": "",
    "types.py": "import numpy\n",
}


def test_sound_house_has_no_faults(tmp_path):
    assert faults(build(tmp_path, SOUND)) == []


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("flows.py", "from fpovi.inference import run", "fpovi.flows imports fpovi.inference from a floor above"),
        ("flows.py", "from . import inference", "fpovi.flows imports fpovi.inference from a floor above"),
        ("types.py", "def f():\n    import fpovi.cli.demo", "fpovi.types imports fpovi.cli.demo from a floor"),
        ("priors/nngp.py", "from ..estimators import x", "fpovi.priors.nngp imports fpovi.estimators from a"),
        ("priors/nngp.py", "from fpovi.flows import svgd", "parts do not know each other"),
        ("priors/covariance.py", "from .nngp import nngp", "imports go in a circle"),
        ("priors/covariance.py", "from fpovi.priors import nngp", "imports go in a circle"),
        ("predictive.py", "from fpovi import inference", "imports go in a circle"),
        ("cli/demo.py", "from fpovi import __version__", "fpovi.cli.demo imports fpovi, the roof"),
        ("cli/demo.py", "import fpovi", "fpovi.cli.demo imports fpovi, the roof"),
        ("utils.py", "", "fpovi.utils is on no floor"),
        ("attic/box.py", "", "fpovi.attic is on no floor"),
        ("inference.py", "from scipy import stats", "fpovi.inference imports scipy"),
        ("kernels.py", "import matplotlib.pyplot as plt", "fpovi.kernels imports matplotlib"),
    ],
)
def test_fault_is_caught_and_named(tmp_path, file, text, said):
    (fault,) = faults(build(tmp_path, {**SOUND, file: text}))
    assert said in fault
    assert ": " in fault  # what to do about it
