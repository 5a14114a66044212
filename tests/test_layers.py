# SPDX-License-Identifier: Apache-2.0
"""Imports go down only: the package is a house of floors, and no module calls on one above it."""

from pathlib import Path

import pytest
from floors import FLOORS, ROOT, faults, lines_of


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


def test_every_room_of_the_plan_exists_and_is_drawn_from_the_code():
    assert all(lines_of(room) > 0 for rooms in FLOORS for room in rooms)
